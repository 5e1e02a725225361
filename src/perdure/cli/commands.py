"""`perdure workflow cancel | resume | fork | rewind | delay | attributes | delete`."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Annotated

import typer

from perdure.api.client import Client
from perdure.api.management import RewindOptions
from perdure.cli.asking import Asker, ask, of_everybody
from perdure.cli.choosing import Children, Choice, Yes, choice
from perdure.cli.filters import attributes_of
from perdure.cli.instants import moment
from perdure.cli.options import Json, WorkflowIdArgument
from perdure.cli.payloads import payload
from perdure.cli.sharing import sharing
from perdure.cli.spans import Span, span
from perdure.cli.wording import printable
from perdure.errors import ConfigurationError, PerdureError, WorkflowError
from perdure.logic.phrases import plural
from perdure.model.management import ForkPoint, LastStep
from perdure.model.status import WorkflowState
from perdure.model.workflow import WorkflowRow

_SEARCHES = {"failed": LastStep.FAILED, "last": LastStep.RECORDED}
_MOST_DIGITS = 18
_MOST_NAMED = 5

FromStep = Annotated[
    str,
    typer.Option(
        metavar="STEP",
        help="The first step that runs afresh: its number, its name, `failed` or `last`.",
    ),
]
ToQueue = Annotated[
    str | None, typer.Option(metavar="NAME", help="Through this queue, not the internal one.")
]
PartitionKey = Annotated[
    str | None, typer.Option(metavar="KEY", help="Its partition of that queue.")
]


@sharing(choice)
def cancel_workflows(
    chosen: Choice, *, children: Children = False, yes: Yes = False, as_json: Json = False
) -> None:
    """Stop workflows that have no outcome, at their next step at the latest."""
    rows = chosen.find()
    if not yes:
        chosen.confirm("Cancel", rows, _below(children), careful=children or len(rows) > 1)
    ids = _ids(rows)
    done = ask(chosen.client, lambda opened: opened.workflows.cancel(ids, children=children))
    _report("cancelled", done, _others(rows, done), "they have ended", as_json=as_json)


@sharing(choice)
def resume_workflows(
    chosen: Choice, *, to_queue: ToQueue = None, yes: Yes = False, as_json: Json = False
) -> None:
    """Let workflows go on that were cancelled, set aside, or stand still."""
    rows = chosen.find()
    if not yes:
        chosen.confirm("Resume", rows, "?", careful=False)
    ids = _ids(rows)
    ask(chosen.client, lambda opened: opened.workflows.resume(ids, queue=to_queue))
    ended = {WorkflowState.SUCCESS, WorkflowState.ERROR}
    done = [row.workflow_id for row in rows if row.state not in ended]
    why = "they have their outcome; fork or rewind them"
    _report("resumed", done, _others(rows, done), why, as_json=as_json)


@sharing(choice)
def fork_workflows(
    chosen: Choice,
    *,
    from_step: FromStep = "1",
    fork_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The id of the only fork.")
    ] = None,
    to_queue: ToQueue = None,
    partition_key: PartitionKey = None,
    to_version: Annotated[
        str | None, typer.Option(metavar="NAME", help="On this version, not the latest one.")
    ] = None,
    timeout: Annotated[
        Span | None,
        typer.Option(parser=span, metavar="SPAN", help="How long each may run, such as 15m."),
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Copy workflows; the copies go on from a step, under ids of their own. All or none."""
    options = _place(to_queue, partition_key, to_version)
    timeout_s = None if timeout is None else timeout.value.total_seconds()
    point, rows = _point(from_step), chosen.find()
    if fork_id is not None and len(rows) > 1:
        raise ConfigurationError(f"--id names one fork, and {len(rows):,} workflows are chosen")
    if not yes:
        chosen.confirm("Fork", rows, f" from {_in_words(point)}?", careful=False)
    sources = _ids(rows)
    fork_ids = None if fork_id is None or not rows else [fork_id]
    handles = ask(
        chosen.client,
        lambda opened: opened.workflows.fork_many(
            sources, point, fork_ids=fork_ids, timeout=timeout_s, **options
        ),
    )
    forks = [handle.workflow_id for handle in handles]
    if as_json:
        from perdure.cli.documents import print_json

        pairs = zip(sources, forks, strict=True)
        print_json({"forked": [{"workflow_id": old, "fork_id": new} for old, new in pairs]})
        return
    for old, new in zip(sources, forks, strict=True):
        print(f"{printable(old)} is forked as {printable(new)}")
    print(f"forked: {plural(len(forks), 'workflow')}")


@sharing(choice)
def rewind_workflows(
    chosen: Choice,
    *,
    from_step: FromStep = "1",
    to_queue: ToQueue = None,
    partition_key: PartitionKey = None,
    to_version: Annotated[
        str | None, typer.Option(metavar="NAME", help="On this version, not on their own.")
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Let ended workflows run again from a step, under their own ids.

    One after the other: what one of them is refused for stops no other.
    """
    options = _place(to_queue, partition_key, to_version)
    point, rows = _point(from_step), chosen.find()
    if not yes:
        rest = f" to {_in_words(point)}? What was recorded from there on is removed."
        chosen.confirm("Rewind", rows, rest, careful=True)
    refusals: dict[str, WorkflowError] = {}

    async def rewind(opened: Client) -> None:
        for row in rows:
            try:
                await opened.workflows.rewind(row.workflow_id, point, **options)
            except WorkflowError as error:
                refusals[row.workflow_id] = error

    ask(chosen.client, rewind)
    done = [each for each in _ids(rows) if each not in refusals]
    if done or not refusals or as_json:
        _report("rewound", done, list(refusals), "", as_json=as_json)
    if refusals:
        raise PerdureError("\nperdure: ".join(map(str, refusals.values())))


@sharing(choice)
def delay_workflows(
    chosen: Choice,
    *,
    by: Annotated[
        Span | None,
        typer.Option("--for", parser=span, metavar="SPAN", help="So long from now: 90s, 15m, 2h."),
    ] = None,
    to: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="WHEN", help="To then, such as 2026-03-02T10:15."),
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Move the moment at which delayed workflows come up."""
    if (by is None) == (to is None):
        raise ConfigurationError("say until when: --for SPAN from now, or --to WHEN")
    rows = chosen.find()
    if not yes:
        chosen.confirm("Delay", rows, "?", careful=False)
    ids, delay = _ids(rows), None if by is None else by.value
    done = ask(chosen.client, lambda opened: opened.workflows.set_delay(ids, delay, until=to))
    _report("delayed", done, _others(rows, done), "they are not delayed", as_json=as_json)


@sharing(of_everybody, last=True)
def set_attributes(
    asker: Asker,
    workflow_id: WorkflowIdArgument,
    pairs: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="The value is JSON, or else a text."),
    ] = None,
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="These alone: all others are removed.")
    ] = False,
) -> None:
    """Set attributes of a workflow, and keep its others."""
    attributes = attributes_of(pairs, "KEY=VALUE")
    if attributes is None and not replace:
        raise ConfigurationError("say what to set, such as plan=gold; --replace alone clears all")

    async def change(opened: Client) -> WorkflowRow:
        await opened.workflows.set_attributes(workflow_id, attributes, merge=not replace)
        return await opened.workflows.get(workflow_id)

    row = asker.ask(change)
    if asker.as_json:
        from perdure.cli.documents import print_json

        stored = payload(row.attributes, None).value
        print_json({"workflow_id": row.workflow_id, "attributes": stored})
    else:
        said = "none" if row.attributes is None else printable(row.attributes)
        print(f"attributes of workflow {printable(row.workflow_id)!r}: {said}")


@sharing(choice)
def delete_workflows(
    chosen: Choice, *, children: Children = False, yes: Yes = False, as_json: Json = False
) -> None:
    """Remove workflows with all that belongs to them; those that run are stopped."""
    rows = chosen.find()
    if not yes:
        chosen.confirm("Delete", rows, _below(children, " for ever"), careful=True)
    ids = _ids(rows)
    done = ask(chosen.client, lambda opened: opened.workflows.delete(ids, children=children))
    _report("deleted", done, _others(rows, done), "they are gone already", as_json=as_json)


def _report(
    done: str, ids: Collection[str], left: Collection[str], why: str, *, as_json: bool
) -> None:
    """Say what was done to which, and which were left alone."""
    if as_json:
        from perdure.cli.documents import print_json

        print_json({done: list(ids), "left": list(left)})
        return
    print(f"{done}: {plural(len(ids), 'workflow')}")
    if left and why:
        named = ", ".join(printable(each) for each in list(left)[:_MOST_NAMED])
        more = f" and {len(left) - _MOST_NAMED:,} more" if len(left) > _MOST_NAMED else ""
        print(f"left alone: {plural(len(left), 'workflow')}, because {why}: {named}{more}")


def _ids(rows: Iterable[WorkflowRow]) -> list[str]:
    return [row.workflow_id for row in rows]


def _others(rows: Iterable[WorkflowRow], done: Collection[str]) -> list[str]:
    handled = set(done)
    return [each for each in _ids(rows) if each not in handled]


def _below(children: bool, end: str = "") -> str:  # noqa: FBT001 - the option's own value
    return f"{' with all descendants' if children else ''}{end}?"


def _point(text: str) -> ForkPoint:
    """`3`, `failed`, `last`, or the name of a step."""
    if text.isdecimal() and len(text) <= _MOST_DIGITS:
        number = int(text)
        if number < 1:
            raise ConfigurationError("--from-step 0: the steps of a workflow are counted from 1 on")
        return number
    return _SEARCHES.get(text, text)


def _in_words(point: ForkPoint) -> str:
    match point:
        case 1:
            return "the beginning"
        case LastStep.FAILED:
            return "the last step that failed"
        case LastStep.RECORDED:
            return "the last step"
        case _:
            return f"step {point!r}"


def _place(queue: str | None, key: str | None, version: str | None) -> RewindOptions:
    if key is not None and queue is None:
        raise ConfigurationError(
            "--partition-key needs --to-queue: the internal queue has no partitions"
        )
    return RewindOptions(queue=queue, partition_key=key, version=version)
