"""Numbers, spans of time and instants in words."""

from datetime import UTC, datetime

_MINUTE_S = 60


def plural(number: int, one: str, many: str | None = None) -> str:
    """`1 file`, `1,204 files`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """A span of time with about three significant digits."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE_S)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days:,} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def instant(epoch_ms: int) -> datetime:
    """An instant in UTC; beyond the calendar's end (a wait of ages) the end stands."""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.max.replace(tzinfo=UTC)


def when(epoch_ms: int, now_ms: int) -> str:
    """An instant in UTC to the second, and how far away it is: what is told reads alike anywhere.

    `2026-03-02 10:15:07 UTC (in 3 min 12 s)`
    """
    away_s = (epoch_ms - now_ms) / 1000
    far = duration(abs(away_s))
    relative = f"in {far}" if away_s > 0 else f"{far} ago"
    return f"{instant(epoch_ms):%Y-%m-%d %H:%M:%S} UTC ({relative})"
