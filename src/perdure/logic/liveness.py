"""Who is dead: judged from one's own heartbeats and what they bring back."""

from dataclasses import dataclass, field

import msgspec

from perdure.model.ids import BootId
from perdure.model.lease import Beat, LeaseSeen, LockState


class Rhythm(msgspec.Struct, frozen=True):
    """The period of heartbeats and of leases, in seconds."""

    heartbeat_s: float
    lease_s: float

    @property
    def gap_s(self) -> float:
        """Longer than this between two of one's own heartbeats is a gap."""
        return max(3 * self.heartbeat_s, self.lease_s / 3)


@dataclass(slots=True)
class Judge:
    """Decides which suspects are dead. One per process start; fed with each heartbeat.

    An outage, a suspend or a failover stops everybody's renewals, so after a gap in its own a
    process judges nobody for one lease period, nor after it lost its own way to the database. An
    overdue lease convicts only when this process has renewed without a gap for a whole lease
    period; a free lock or a missing lease convicts when it is seen on two heartbeats in a row with
    no renewal between.
    """

    rhythm: Rhythm
    _previous_s: float | None = None
    _steady_since_s: float | None = None
    _quiet_until_s: float = 0.0
    _watched: dict[BootId, int] = field(default_factory=dict)

    def distrust(self, at_s: float) -> None:
        """This process was cut off, so others may have been: their free locks say nothing yet."""
        self._quiet_until_s = at_s + self.rhythm.lease_s
        self._steady_since_s = None

    def consider(self, beat: Beat, at_s: float) -> list[LeaseSeen]:
        """The suspects of this heartbeat, made at monotonic `at_s`, that are dead."""
        gap = self._note_own_beat(at_s)
        watched = self._watched
        self._watched = {seen.boot_id: seen.renewals for seen in beat.suspects}
        if gap or at_s < self._quiet_until_s:
            return []
        return [seen for seen in beat.suspects if self._is_dead(seen, watched, at_s)]

    def _note_own_beat(self, at_s: float) -> bool:
        gap = self._previous_s is not None and at_s - self._previous_s > self.rhythm.gap_s
        if gap:
            self._quiet_until_s = at_s + self.rhythm.lease_s
        if gap or self._steady_since_s is None:
            self._steady_since_s = at_s
        self._previous_s = at_s
        return gap

    def _is_dead(self, seen: LeaseSeen, watched: dict[BootId, int], at_s: float) -> bool:
        unmoved = watched.get(seen.boot_id) == seen.renewals
        if unmoved and (seen.orphaned or seen.lock is LockState.FREE):
            return True
        steady_s = at_s - self._steady_since_s if self._steady_since_s is not None else 0.0
        return seen.overdue and unmoved and steady_s >= self.rhythm.lease_s
