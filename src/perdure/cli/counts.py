"""`perdure workflow count`."""

from collections.abc import Sequence
from typing import Annotated

import typer

from perdure.api.filters import FilterOptions
from perdure.cli.asking import Asker, of_application
from perdure.cli.filters import (
    AnyApp,
    Attributes,
    Names,
    Queues,
    Since,
    States,
    Until,
    Versions,
    attributes_of,
)
from perdure.cli.sharing import sharing
from perdure.cli.spans import Span, span
from perdure.model.listing import CountKey, WorkflowCount


@sharing(of_application, last=True)
def count_workflows(
    asker: Asker,
    *,
    by: Annotated[
        list[CountKey] | None,
        typer.Option(help="Count each kind by itself; may be repeated."),
    ] = None,
    each: Annotated[
        Span | None,
        typer.Option(
            "--span", parser=span, metavar="SPAN", help="How long the spans of time are; else 1h."
        ),
    ] = None,
    state: States = None,
    name: Names = None,
    queue: Queues = None,
    version: Versions = None,
    attribute: Attributes = None,
    since: Since = None,
    until: Until = None,
    any_app: AnyApp = False,
) -> None:
    """Count workflows, by state unless something else is said."""
    keys = list(dict.fromkeys(by or [CountKey.STATE]))
    options = FilterOptions(
        states=state or None,
        names=name or None,
        queues=queue or None,
        versions=version or None,
        attributes=attributes_of(attribute),
        created_from=since,
        created_to=until,
        any_application=any_app or None,
    )
    length_s = 3600 if each is None else each.value.total_seconds()
    found = asker.ask(lambda client: client.workflows.count(by=keys, span=length_s, **options))
    _print(keys, found, as_json=asker.as_json)


def _print(keys: Sequence[CountKey], found: Sequence[WorkflowCount], *, as_json: bool) -> None:
    if as_json:
        from perdure.cli.documents import print_counts

        print_counts(keys, found)
    else:
        from perdure.cli.tables import print_count_table

        print_count_table(keys, found)
