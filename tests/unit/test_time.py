"""The database's time, carried forward between answers of the database."""

from __future__ import annotations

import pytest

from perdure.engine.time import DatabaseTime, Trip
from tests.support.leaps import LeapClock

EPOCH_MS = 1_800_000_000_000


class StillClock(LeapClock):
    """Stands still but for what a test lets pass."""

    def monotonic(self) -> float:
        return self._ahead_s


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def time(clock: StillClock) -> DatabaseTime:
    """Known exactly."""
    known = DatabaseTime(clock)
    known.set(EPOCH_MS, Trip(0, 0))
    return known


def test_the_first_answer_was_given_in_the_middle_of_its_trip(clock: StillClock) -> None:
    clock.leap(4)
    time = DatabaseTime(clock)
    time.set(EPOCH_MS, Trip(0, 4))
    assert time.now_ms() == EPOCH_MS + 2_000
    assert time.seconds_until(EPOCH_MS) == -2


def test_it_goes_on_by_the_clock_of_the_process(clock: StillClock, time: DatabaseTime) -> None:
    clock.leap(3_600)
    assert time.now_ms() == EPOCH_MS + 3_600_000
    assert time.seconds_until(EPOCH_MS + 3_601_000) == 1


@pytest.mark.parametrize("answered_after_s", [0, 1, 1_800, 3_600])
def test_an_answer_long_under_way_moves_nothing_that_it_allows(
    clock: StillClock, time: DatabaseTime, answered_after_s: float
) -> None:
    """The process stood still before or after the database answered: nobody knows which."""
    clock.leap(3_600)
    time.set(EPOCH_MS + round(answered_after_s * 1000), Trip(0, 3_600))
    assert time.now_ms() == EPOCH_MS + 3_600_000


@pytest.mark.parametrize("drift_ms", [-5_000, -60, 60, 5_000])
def test_a_clock_that_drifted_is_corrected(
    clock: StillClock, time: DatabaseTime, drift_ms: int
) -> None:
    """To within the length of the trip."""
    clock.leap(100)
    time.set(EPOCH_MS + 100_000 + drift_ms, Trip(99.99, 100))
    assert abs(time.now_ms() - (EPOCH_MS + 100_000 + drift_ms)) <= 10
