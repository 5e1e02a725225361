"""The database's time, known without asking for it."""

from typing import NamedTuple

from perdure.ports.clock import Clock


class Trip(NamedTuple):
    """When the database was asked something and when its answer came, monotonic."""

    asked_at_s: float
    answered_at_s: float

    @property
    def middle_s(self) -> float:
        """The best guess of the instant of the answer."""
        return (self.asked_at_s + self.answered_at_s) / 2


class DatabaseTime:
    """The database's clock, carried forward by this process's monotonic clock.

    It is set from an answer of the database at start and at each heartbeat, so that instants
    (sleeps, deadlines, step times) need no statement of their own and agree across processes.
    """

    __slots__ = ("_is_known", "_monotonic", "_offset_ms")

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._offset_ms = 0.0
        self._is_known = False

    def set(self, now_ms: int, trip: Trip) -> None:
        """Learn that the database's clock showed `now_ms` at some instant of that trip.

        What is known already is corrected only as far as it cannot be: an answer that was long
        under way, as in a process that stood still meanwhile, says little about the time.
        """
        if not self._is_known:
            self._is_known = True
            self._offset_ms = now_ms - trip.middle_s * 1000
        least, most = (now_ms - at_s * 1000 for at_s in (trip.answered_at_s, trip.asked_at_s))
        self._offset_ms = min(max(self._offset_ms, least), most)

    def now_ms(self) -> int:
        """Milliseconds since the epoch on the database's clock."""
        return int(self._monotonic() * 1000 + self._offset_ms)

    def seconds_until(self, instant_ms: float) -> float:
        """Seconds from now to that instant; negative once it is past."""
        return (instant_ms - self._offset_ms) / 1000 - self._monotonic()
