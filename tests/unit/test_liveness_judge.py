"""Who is dead: what one process may conclude from its own heartbeats."""

from __future__ import annotations

import pytest

from perdure.logic.liveness import Judge, Rhythm
from perdure.model.ids import BootId, ExecutorId
from perdure.model.lease import Beat, LeaseSeen, LockState

RHYTHM = Rhythm(heartbeat_s=1.0, lease_s=15.0)
FREE, HELD, UNKNOWN = LockState.FREE, LockState.HELD, LockState.UNKNOWN


def seen(
    renewals: int = 7,
    *,
    boot: str = "boot-x",
    overdue: bool = False,
    lock: LockState = HELD,
    orphaned: bool = False,
) -> LeaseSeen:
    return LeaseSeen(
        BootId(boot), ExecutorId(f"local/{boot}"), renewals, overdue, lock, orphaned=orphaned
    )


def beat(*suspects: LeaseSeen) -> Beat:
    return Beat(held=True, now_ms=0, suspects=suspects, ready=(), next_at_ms=None, queues="")


def steady(judge: Judge, until_s: float, *suspects: LeaseSeen, begin_s: float = 0.0) -> list[float]:
    """A beat each second; the moments at which somebody was found dead."""
    moments = []
    at_s = begin_s
    while at_s <= until_s:
        if judge.consider(beat(*suspects), at_s):
            moments.append(at_s)
        at_s += 1
    return moments


def test_a_free_lock_convicts_when_it_is_seen_twice_without_a_renewal() -> None:
    """Also by a process that has just started: one watched heartbeat is enough."""
    judge = Judge(RHYTHM)
    suspect = seen(lock=FREE)
    assert judge.consider(beat(suspect), 0.0) == []
    assert judge.consider(beat(suspect), 1.0) == [suspect]


def test_a_renewal_in_between_acquits() -> None:
    judge = Judge(RHYTHM)
    for renewals in range(7, 30):
        assert judge.consider(beat(seen(renewals, lock=FREE, overdue=True)), float(renewals)) == []


def test_a_suspect_that_was_away_for_a_beat_is_watched_afresh() -> None:
    judge = Judge(RHYTHM)
    suspect = seen(lock=FREE)
    judge.consider(beat(suspect), 0.0)
    assert judge.consider(beat(), 1.0) == []
    assert judge.consider(beat(suspect), 2.0) == []
    assert judge.consider(beat(suspect), 3.0) == [suspect]


def test_a_boot_with_rows_and_no_lease_is_dead_when_seen_twice() -> None:
    judge = Judge(RHYTHM)
    orphan = seen(-1, orphaned=True, lock=UNKNOWN)
    assert judge.consider(beat(orphan), 0.0) == []
    assert judge.consider(beat(orphan), 1.0) == [orphan]


@pytest.mark.parametrize("lock", [UNKNOWN, HELD])
def test_an_overdue_lease_convicts_after_a_lease_period_of_own_steady_beats(
    lock: LockState,
) -> None:
    """Whatever the lock says: a stopped process keeps its lock."""
    moments = steady(Judge(RHYTHM), 20.0, seen(overdue=True, lock=lock))
    assert moments == [15.0, 16.0, 17.0, 18.0, 19.0, 20.0]


def test_a_held_lock_and_a_lease_that_is_not_overdue_are_no_suspicion() -> None:
    assert steady(Judge(RHYTHM), 100.0, seen()) == []


def test_after_a_gap_of_its_own_it_judges_nobody_for_a_lease_period() -> None:
    """An outage, a suspend or a failover stops everybody's beats: it kills nobody."""
    judge = Judge(RHYTHM)
    suspects = (seen(lock=FREE), seen(boot="boot-y", overdue=True, lock=UNKNOWN))
    assert steady(judge, 3.0, suspects[0]) == [1.0, 2.0, 3.0]
    moments = steady(judge, 40.0, *suspects, begin_s=10.0)
    assert moments[0] == 25.0
    assert judge.consider(beat(*suspects), 41.0) == list(suspects)


@pytest.mark.parametrize(("pause_s", "is_gap"), [(1.0, False), (5.0, False), (5.1, True)])
def test_a_gap_is_three_beats_or_a_third_of_a_lease(pause_s: float, is_gap: bool) -> None:
    judge = Judge(RHYTHM)
    suspect = seen(lock=FREE)
    judge.consider(beat(suspect), 0.0)
    assert (judge.consider(beat(suspect), pause_s) == []) is is_gap


def test_gaps_that_repeat_postpone_every_judgement() -> None:
    judge = Judge(RHYTHM)
    suspect = seen(lock=FREE, overdue=True)
    found = [judge.consider(beat(suspect), number * 6.0) for number in range(20)]
    assert found == [[]] * 20


def test_of_several_suspects_each_is_judged_by_itself() -> None:
    judge = Judge(RHYTHM)
    dead, lives = seen(lock=FREE), seen(boot="boot-y", lock=FREE)
    judge.consider(beat(dead, lives), 0.0)
    renewed = seen(lives.renewals + 1, boot="boot-y", lock=FREE)
    assert judge.consider(beat(dead, renewed), 1.0) == [dead]


def test_the_gap_follows_the_heartbeat_when_leases_are_short() -> None:
    assert Rhythm(1.0, 3.0).gap_s == 3.0
    assert Rhythm(1.0, 30.0).gap_s == 10.0


def test_who_was_cut_off_judges_nobody_for_a_lease_period() -> None:
    """All that lost their sessions with it look dead until they have made them anew."""
    judge = Judge(RHYTHM)
    suspect = seen(lock=FREE)
    judge.consider(beat(suspect), 0.0)
    judge.distrust(0.5)
    assert steady(judge, 15.0, suspect, begin_s=1.0) == []
    assert judge.consider(beat(suspect), 16.0) == [suspect]
