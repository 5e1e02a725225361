"""Values in words: sizes, instants, and texts that are safe on a terminal."""

from perdure.logic.phrases import instant, plural

KILO = 1000
UNITS = ("kB", "MB", "GB", "TB", "PB")


def size(number: int) -> str:
    """A number of bytes in decimal units."""
    if number < KILO:
        return plural(number, "byte")
    value, units = number / KILO, list(UNITS)
    while round(value, 1) >= KILO and len(units) > 1:
        value /= KILO
        del units[0]
    return f"{value:,.1f} {units[0]}"


def local_time(epoch_ms: int | None) -> str:
    """An instant in this machine's time zone, to the second."""
    if epoch_ms is None:
        return ""
    return instant(epoch_ms).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def iso_time(epoch_ms: int | None) -> str | None:
    """An instant as ISO 8601 in UTC, to the millisecond."""
    if epoch_ms is None:
        return None
    return instant(epoch_ms).isoformat(timespec="milliseconds")


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
