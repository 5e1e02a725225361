"""Durations: what is accepted, and how it is stored."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.errors import ConfigurationError, InvalidArgument
from perdure.logic.durations import LONGEST_MS, seconds_of, to_ms


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (0, 0.0),
        (5, 5.0),
        (0.25, 0.25),
        (timedelta(milliseconds=1), 0.001),
        (timedelta(days=3650), 315_360_000.0),
        (timedelta.max, timedelta.max.total_seconds()),
        (1e12, 1e12),
    ],
    ids=str,
)
def test_seconds_and_timedeltas_are_accepted(given: Any, seconds: float) -> None:
    assert seconds_of(given, "delay") == seconds


@pytest.mark.parametrize(
    "given",
    [
        -1,
        -0.001,
        timedelta(seconds=-1),
        float("nan"),
        float("inf"),
        10**400,
        True,
        False,
        "5",
        None,
        1j,
    ],
    ids=lambda given: str(given)[:12],
)
def test_what_is_no_duration_is_refused_by_name(given: Any) -> None:
    """Negative, not finite, or of another type; the message names the option."""
    with pytest.raises(InvalidArgument, match="delay must be"):
        seconds_of(given, "delay")


def test_zero_is_refused_only_where_it_has_no_meaning() -> None:
    with pytest.raises(InvalidArgument, match="more than 0"):
        seconds_of(0, "timeout", zero=False)
    with pytest.raises(ConfigurationError, match="more than 0"):
        seconds_of(timedelta(), "timeout", zero=False, error=ConfigurationError)


@pytest.mark.parametrize(
    ("seconds", "ms"),
    [
        (0, 0),
        (0.0001, 1),
        (0.001, 1),
        (1.0005, 1001),
        (1e12, 10**15),
        (1e300, LONGEST_MS),
        (timedelta.max.total_seconds(), LONGEST_MS),
    ],
)
def test_milliseconds_are_rounded_up_and_cut(seconds: float, ms: int) -> None:
    """Nothing wakes early, and no sum leaves the integers every language can hold."""
    assert to_ms(seconds) == ms
