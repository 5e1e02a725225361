"""Spans of time as options give them."""

import re
from dataclasses import dataclass
from datetime import timedelta

import typer

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)?")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_WORDS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class Span:
    """A span that was given, and how it was said."""

    value: timedelta
    text: str


def span(text: str) -> Span:
    """`90s`, `15m`, `12h`, `30d`, `4w`; a bare number is seconds."""
    match = _SPAN.fullmatch(text)
    try:
        if match is not None:
            number, unit = match.group(1), match.group(2) or "s"
            return Span(timedelta(seconds=float(number) * _UNITS[unit]), f"{number} {_WORDS[unit]}")
    except OverflowError:
        pass
    raise typer.BadParameter(f"{text!r} is no span of time, such as 90s, 15m, 12h, 30d or 4w")
