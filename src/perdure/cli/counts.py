"""`perdure workflow count | count-steps`."""

from typing import Annotated

import typer

from perdure.api.filters import FilterOptions, StepFilterOptions
from perdure.cli.asking import Asker, of_application
from perdure.cli.filters import (
    AnyApp,
    Attributes,
    CompletedSince,
    CompletedUntil,
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
from perdure.model.listing import CountKey, StepKey

SpanLength = Annotated[
    Span | None,
    typer.Option(
        "--span", parser=span, metavar="SPAN", help="How long the spans of time are; else 1h."
    ),
]


@sharing(of_application, last=True)
def count_workflows(
    asker: Asker,
    *,
    by: Annotated[
        list[CountKey] | None,
        typer.Option(help="Count each kind by itself; may be repeated."),
    ] = None,
    each: SpanLength = None,
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
    length_s = _length_s(each)
    found = asker.ask(lambda client: client.workflows.count(by=keys, span=length_s, **options))
    if asker.as_json:
        from perdure.cli.documents import print_counts

        print_counts(keys, found)
    else:
        from perdure.cli.tables import print_count_table

        print_count_table(keys, found)


@sharing(of_application, last=True)
def count_steps(
    asker: Asker,
    *,
    by: Annotated[
        list[StepKey] | None,
        typer.Option(help="Count each kind by itself; may be repeated."),
    ] = None,
    each: SpanLength = None,
    name: Annotated[
        list[str] | None, typer.Option("--name", help="Only of this name; may be repeated.")
    ] = None,
    completed_since: CompletedSince = None,
    completed_until: CompletedUntil = None,
    any_app: AnyApp = False,
) -> None:
    """Count recorded steps, by name unless something else is said: which are slow, which fail."""
    keys = list(dict.fromkeys(by or [StepKey.NAME]))
    options = StepFilterOptions(
        names=name or None,
        completed_from=completed_since,
        completed_to=completed_until,
        any_application=any_app or None,
    )
    length_s = _length_s(each)
    found = asker.ask(
        lambda client: client.workflows.count_steps(by=keys, span=length_s, **options)
    )
    if asker.as_json:
        from perdure.cli.documents import print_step_counts

        print_step_counts(keys, found)
    else:
        from perdure.cli.tables import print_step_count_table

        print_step_count_table(keys, found)


def _length_s(each: Span | None) -> float:
    return 3600 if each is None else each.value.total_seconds()
