"""Instants as options give them."""

from datetime import UTC, datetime

import typer

from perdure.cli.spans import span


def instant(text: str) -> datetime:
    """`2h` is two hours ago; `2026-03-02`, `2026-03-02T10:15` are in this machine's time zone."""
    given = _written(text)
    if given is not None:
        return given
    try:
        return datetime.now(UTC) - span(text).value
    except (typer.BadParameter, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is neither an instant, such as 2026-03-02 or 2026-03-02T10:15+01:00, nor a "
            "span until now, such as 15m or 2d"
        ) from None


def moment(text: str) -> datetime:
    """An instant alone; what is to come is no span until now."""
    given = _written(text)
    if given is None:
        raise typer.BadParameter(
            f"{text!r} is no instant, such as 2026-03-02 or 2026-03-02T10:15+01:00"
        )
    return given


def _written(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None
