"""Limits of queues as options give them and as people read them."""

from collections.abc import Iterator
from dataclasses import dataclass

import typer

from perdure.api.queue import RateLimit, options_of
from perdure.model.queue import QueueSettings

NONE = "none"
"""How a limit is lifted, and how one that is not set is shown."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that was given: a number, a rate, or None for no limit any more."""

    value: int | RateLimit | None


def count(text: str) -> Limit:
    """`5`, or `none`."""
    if text == NONE:
        return Limit(None)
    try:
        return Limit(int(text))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a whole number nor {NONE}") from None


def rate(text: str) -> Limit:
    """`100/60` (so many within so many seconds), or `none`."""
    if text == NONE:
        return Limit(None)
    number, _, period_s = text.partition("/")
    try:
        return Limit(RateLimit(int(number), float(period_s)))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither N/SECONDS, such as 100/60, nor {NONE}"
        ) from None


def settings_in_words(settings: QueueSettings) -> Iterator[tuple[str, str]]:
    """Every setting under the name it is declared by."""
    for option, value in options_of(settings).items():
        yield option, in_words(option, value)


def in_words(option: str, value: object) -> str:
    """One setting: `5`, `100 within 60 s`, `none`, `yes`, `1 s`."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, RateLimit):
        return f"{value.limit:,} within {value.period:g} s"
    return f"{value:g} s" if option.endswith("_interval") else f"{value:,}"


def limits_in_words(settings: QueueSettings) -> str:
    """The limits that bind: `worker_concurrency 2, rate_limit 100 within 60 s`."""
    bound = (
        f"{option} {text}"
        for option, text in settings_in_words(settings)
        if option.endswith(("_concurrency", "_limit")) and text != NONE
    )
    return ", ".join(bound)
