"""Numbers, spans of time and instants in words."""

from __future__ import annotations

import pytest

from perdure.logic.phrases import duration, plural, when

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 ms"),
        (0.9994, "999 ms"),
        (1, "1.0 s"),
        (59.94, "59.9 s"),
        (60, "1 min 0 s"),
        (3599.6, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (200_000, "2 d 7 h"),
        (10**9, "11,574 d 1 h"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_counts() -> None:
    assert [plural(n, "file") for n in (0, 1, 1204)] == ["0 files", "1 file", "1,204 files"]


@pytest.mark.parametrize(
    ("epoch_ms", "words"),
    [
        (NOW_MS + 192_000, "2023-11-14 22:16:32 UTC (in 3 min 12 s)"),
        (NOW_MS, "2023-11-14 22:13:20 UTC (0 ms ago)"),
        (NOW_MS - 200, "2023-11-14 22:13:19 UTC (200 ms ago)"),
    ],
)
def test_an_instant_is_told_in_utc_and_with_its_distance(epoch_ms: int, words: str) -> None:
    assert when(epoch_ms, NOW_MS) == words


def test_an_instant_beyond_the_calendar_is_its_end() -> None:
    assert when(2**63 - 1, NOW_MS).startswith("9999-12-31 23:59:59 UTC (in ")
