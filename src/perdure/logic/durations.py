"""Durations: given as seconds or timedelta, stored as integer milliseconds."""

import math
from datetime import timedelta

from perdure.errors import InvalidArgument, PerdureError

LONGEST_MS = 2**53
"""Longer waits are cut to this, some 285,000 years, so that sums stay exact in every language."""

Duration = float | timedelta
"""Seconds, or a timedelta."""


def seconds_of(
    value: Duration,
    what: str,
    *,
    zero: bool = True,
    error: type[PerdureError] = InvalidArgument,
) -> float:
    """The duration in seconds; raises `error` for a negative, NaN or infinite one."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            seconds = math.inf
    else:
        raise error(f"{what} must be seconds or a timedelta, not {value!r}")
    if not math.isfinite(seconds) or seconds < 0 or (seconds == 0 and not zero):
        least = "at least" if zero else "more than"
        raise error(f"{what} must be a finite number of seconds, {least} 0, not {value!r}")
    return seconds


def to_ms(seconds: float) -> int:
    """Whole milliseconds, rounded up so that nothing wakes early, and cut to `LONGEST_MS`."""
    return min(math.ceil(seconds * 1000), LONGEST_MS)
