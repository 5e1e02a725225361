"""Instants as options give them."""

from datetime import UTC, datetime

import typer

from perdure.cli.spans import span


def instant(text: str) -> datetime:
    """`2h` is two hours ago; `2026-03-02`, `2026-03-02T10:15` are in this machine's time zone."""
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        return given.astimezone()
    try:
        return datetime.now(UTC) - span(text).value
    except (typer.BadParameter, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is neither an instant, such as 2026-03-02 or 2026-03-02T10:15+01:00, nor a "
            "span until now, such as 15m or 2d"
        ) from None
