"""Options that say which workflows are meant."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from perdure.api.filters import FilterOptions
from perdure.cli.instants import instant
from perdure.model.status import WorkflowState

States = Annotated[
    list[WorkflowState] | None,
    typer.Option("--state", case_sensitive=False, help="Only in this state; may be repeated."),
]

Names = Annotated[
    list[str] | None, typer.Option("--name", help="Only of this function; may be repeated.")
]

Queues = Annotated[
    list[str] | None, typer.Option("--queue", help="Only of this queue; may be repeated.")
]

Versions = Annotated[
    list[str] | None,
    typer.Option("--version", help="Only of this version of the application; may be repeated."),
]

Executors = Annotated[
    list[str] | None,
    typer.Option(
        "--executor", help="Only of this process, by its id or its name; may be repeated."
    ),
]

Prefixes = Annotated[
    list[str] | None,
    typer.Option("--id-prefix", help="Only ids that begin so; may be repeated."),
]

Parent = Annotated[str | None, typer.Option(metavar="ID", help="Only children of this workflow.")]

Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute",
        metavar="KEY=VALUE",
        help="Only with this attribute; the value is JSON, or else a text. May be repeated.",
    ),
]

Since = Annotated[
    datetime | None,
    typer.Option(
        parser=instant, metavar="WHEN", help="Created since: 2h, 3d, 2026-03-02, 2026-03-02T10:15."
    ),
]

Until = Annotated[
    datetime | None, typer.Option(parser=instant, metavar="WHEN", help="Created until then.")
]

CompletedSince = Annotated[
    datetime | None, typer.Option(parser=instant, metavar="WHEN", help="Ended since then.")
]

CompletedUntil = Annotated[
    datetime | None, typer.Option(parser=instant, metavar="WHEN", help="Ended until then.")
]

AnyApp = Annotated[bool, typer.Option("--any-app", help="Of every application, not only of --app.")]


def conditions(
    *,
    state: States = None,
    name: Names = None,
    queue: Queues = None,
    queued: Annotated[
        bool, typer.Option("--queued", help="Only what waits or runs on a queue.")
    ] = False,
    version: Versions = None,
    executor: Executors = None,
    id_prefix: Prefixes = None,
    parent: Parent = None,
    attribute: Attributes = None,
    since: Since = None,
    until: Until = None,
    completed_since: CompletedSince = None,
    completed_until: CompletedUntil = None,
    any_app: AnyApp = False,
) -> FilterOptions:
    """All the conditions there are."""
    return FilterOptions(
        states=state or None,
        names=name or None,
        queues=queue or None,
        queued=queued or None,
        versions=version or None,
        executors=executor or None,
        id_prefixes=id_prefix or None,
        parents=parent,
        attributes=attributes_of(attribute),
        created_from=since,
        created_to=until,
        completed_from=completed_since,
        completed_to=completed_until,
        any_application=any_app or None,
    )


def attributes_of(
    pairs: Sequence[str] | None, option: str = "--attribute"
) -> dict[str, Any] | None:
    """`plan=gold`, `seats=3`, `owner={"name": "Ada"}` as an object."""
    if not pairs:
        return None
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found
