"""Back-off: it grows, it is capped, and no number breaks it."""

from __future__ import annotations

import math

import pytest

from perdure.logic.retry import BUSY, CONFLICT, RELEASED, UNAVAILABLE, Backoff


def test_it_grows_by_the_rate_and_stops_at_the_cap() -> None:
    backoff = Backoff(first_s=1.0, rate=2.0, cap_s=10.0)
    assert [backoff.delay_s(failures) for failures in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_a_fractional_rate_shrinks_and_zero_waits_once() -> None:
    assert Backoff(8.0, 0.5, 100.0).delay_s(4) == 1.0
    assert [Backoff(2.0, 0.0, 9.0).delay_s(failures) for failures in (1, 2, 3)] == [2, 0, 0]


def test_jitter_scales_the_delay_and_never_passes_the_cap() -> None:
    backoff = Backoff(1.0, 2.0, 3.0)
    assert [backoff.delay_s(2, factor) for factor in (0.5, 1.0, 1.4999)] == [1.0, 2.0, 2.9998]
    assert backoff.delay_s(3, 1.4999) == 3.0


@pytest.mark.parametrize(
    ("first", "rate"),
    [(1.0, 10.0), (1.0, 2.0), (1e308, 1e308), (1.0, math.inf), (math.inf, 1.0), (0.0, math.inf)],
)
@pytest.mark.parametrize("failures", [400, 5_000, 10**6])
def test_a_product_that_overflows_or_is_no_number_gives_the_cap(
    first: float, rate: float, failures: int
) -> None:
    assert Backoff(first, rate, 0.001).delay_s(failures) == 0.001


def test_whole_numbers_do_not_overflow_either() -> None:
    assert Backoff(1, 2, 3600).delay_s(5_000) == 3600


@pytest.mark.parametrize("backoff", [UNAVAILABLE, CONFLICT, BUSY, RELEASED])
def test_the_engines_own_are_bounded_for_as_long_as_it_tries(backoff: Backoff) -> None:
    delays = [backoff.delay_s(failures, 1.4999) for failures in (*range(1, 100), 10**9)]
    assert 0 < min(delays) < max(delays) == backoff.cap_s
