"""The database's clock, and sums on it."""

import time

from perdure.ports.clock import Clock

LATEST_MS = 2**63 - 1
"""The largest number of a column: where sums of instants stop."""


def wall_clock_ms(clock: Clock) -> int:
    """The database's clock now: that of the machine, moved by the clock port's offset."""
    return time.time_ns() // 1_000_000 + clock.offset_ms()


def later(now_ms: int, by_ms: int | None) -> int | None:
    """The instant that much later; None if there is nothing to add."""
    return None if by_ms is None else min(now_ms + by_ms, LATEST_MS)
