"""Values in words: sizes, durations, instants, and texts that are safe on a terminal."""

from datetime import UTC, datetime

KILO = 1000
UNITS = ("kB", "MB", "GB", "TB", "PB")
MINUTE_S = 60


def plural(number: int, one: str, many: str | None = None) -> str:
    """`1 file`, `1,204 files`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(number: int) -> str:
    """A number of bytes in decimal units."""
    if number < KILO:
        return plural(number, "byte")
    value, units = number / KILO, list(UNITS)
    while round(value, 1) >= KILO and len(units) > 1:
        value /= KILO
        del units[0]
    return f"{value:,.1f} {units[0]}"


def duration(seconds: float) -> str:
    """A span of time with about three significant digits."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < MINUTE_S:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), MINUTE_S)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def local_time(epoch_ms: int | None) -> str:
    """An instant in this machine's time zone, to the second."""
    if epoch_ms is None:
        return ""
    return _instant(epoch_ms).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def iso_time(epoch_ms: int | None) -> str | None:
    """An instant as ISO 8601 in UTC, to the millisecond."""
    if epoch_ms is None:
        return None
    return _instant(epoch_ms).isoformat(timespec="milliseconds")


def _instant(epoch_ms: int) -> datetime:
    """Beyond the calendar's end (a wait of ages) the end stands."""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.max.replace(tzinfo=UTC)


def printable(text: str) -> str:
    r"""A text from outside on one line: what could steer the terminal is escaped.

    Bytes of a file name that are no text appear as `\xff`.
    """
    return text if text.isprintable() else "".join(map(_printable_char, text))


def _printable_char(char: str) -> str:
    if char.isprintable():
        return char
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:x}"
    return char.encode("unicode_escape").decode("ascii")
