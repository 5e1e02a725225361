"""No process that renews its lease is ever judged dead, whatever outages its judge goes through."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from perdure.logic.liveness import Judge, Rhythm
from perdure.model.ids import BootId, ExecutorId
from perdure.model.lease import Beat, LeaseSeen, LockState

RHYTHM = Rhythm(heartbeat_s=1.0, lease_s=15.0)

PAUSES = st.lists(
    st.one_of(st.floats(0.5, 1.5), st.floats(0.5, 1.5), st.floats(1.5, 60.0)),
    min_size=2,
    max_size=60,
)
LOCKS = st.sampled_from(LockState)


@dataclass
class Other:
    """A process whose beats a judge sees: when it renewed last, and how often."""

    renewals: int = 0
    renewed_s: float = 0.0

    def renew(self, at_s: float) -> None:
        self.renewals += 1
        self.renewed_s = at_s

    def seen(self, at_s: float, lock: LockState) -> LeaseSeen | None:
        overdue = at_s - self.renewed_s > RHYTHM.lease_s
        if not overdue and lock is not LockState.FREE:
            return None
        boot = BootId("boot-other")
        return LeaseSeen(boot, ExecutorId(f"local/{boot}"), self.renewals, overdue, lock)


def beat(suspect: LeaseSeen | None) -> Beat:
    suspects = () if suspect is None else (suspect,)
    return Beat(held=True, now_ms=0, suspects=suspects, ready=(), next_at_ms=None, queues="")


@given(PAUSES, st.lists(LOCKS, min_size=60, max_size=60))
def test_one_that_renews_between_two_looks_is_never_convicted(
    pauses: list[float], locks: list[LockState]
) -> None:
    judge, other, at_s = Judge(RHYTHM), Other(), 0.0
    for pause, lock in zip(pauses, locks, strict=False):
        other.renew(at_s + pause / 2)
        at_s += pause
        assert judge.consider(beat(other.seen(at_s, lock)), at_s) == []


@given(PAUSES, st.floats(0.0, 100.0))
def test_an_outage_that_stops_everybody_kills_nobody(pauses: list[float], outage_s: float) -> None:
    """Both lose the database at the same time, and the other comes back within a lease period."""
    judge, other, at_s = Judge(RHYTHM), Other(), 0.0
    for _ in range(20):
        at_s += 1.0
        other.renew(at_s)
        judge.consider(beat(other.seen(at_s, LockState.UNKNOWN)), at_s)
    at_s += RHYTHM.gap_s + outage_s
    back_s = at_s + RHYTHM.lease_s * 0.9
    for pause in pauses:
        at_s += min(pause, 1.0)
        if at_s >= back_s:
            other.renew(at_s)
        assert judge.consider(beat(other.seen(at_s, LockState.FREE)), at_s) == []


@given(st.sampled_from([LockState.FREE, LockState.UNKNOWN]), st.floats(0.5, 1.5))
def test_the_dead_are_found_within_their_time(lock: LockState, rhythm_s: float) -> None:
    """Two heartbeats with a free lock; otherwise two lease periods at most."""
    judge, other, at_s = Judge(RHYTHM), Other(), 0.0
    limit_s = 2 * rhythm_s if lock is LockState.FREE else 2 * RHYTHM.lease_s + 2 * rhythm_s
    while at_s <= limit_s:
        at_s += rhythm_s
        if judge.consider(beat(other.seen(at_s, lock)), at_s):
            return
    raise AssertionError(f"not found within {limit_s} s")
