"""The database's time, known without asking for it."""

from perdure.ports.clock import Clock


class DatabaseTime:
    """The database's clock, carried forward by this process's monotonic clock.

    It is set from an answer of the database at start and at each heartbeat, so that instants
    (sleeps, deadlines, step times) need no statement of their own and agree across processes.
    """

    __slots__ = ("_monotonic", "_offset_ms")

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._offset_ms = 0.0

    def set(self, now_ms: int, at_s: float) -> None:
        """Learn that the database's clock showed `now_ms` when the monotonic clock showed `at_s`.

        The instant of an answer lies within its round trip; the middle is the best guess.
        """
        self._offset_ms = now_ms - at_s * 1000

    def now_ms(self) -> int:
        """Milliseconds since the epoch on the database's clock."""
        return int(self._monotonic() * 1000 + self._offset_ms)

    def seconds_until(self, instant_ms: float) -> float:
        """Seconds from now to that instant; negative once it is past."""
        return (instant_ms - self._offset_ms) / 1000 - self._monotonic()
