"""Workflows, steps and queues as tables for people."""

import time
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perdure.cli.limits import limits_in_words, settings_in_words
from perdure.cli.payloads import payload
from perdure.cli.wording import local_time, printable
from perdure.logic.phrases import duration, plural
from perdure.model.listing import Branch, CountKey, WorkflowCount
from perdure.model.queue import QueueDepth, QueueRow
from perdure.model.status import WorkflowState
from perdure.model.version import VersionRow
from perdure.model.workflow import StepRow, WorkflowRow

_COLOURS = {
    WorkflowState.SUCCESS: "green",
    WorkflowState.ERROR: "red",
    WorkflowState.MAX_RECOVERY_ATTEMPTS_EXCEEDED: "red",
    WorkflowState.CANCELLED: "yellow",
    WorkflowState.PENDING: "cyan",
}

_UNBOUNDED = 1_000_000
"""Where no terminal bounds the width nothing is folded, so that the output can be searched."""

_LONGEST_CELL = 120

_WORKFLOW_COLUMNS = ("id", "state", "name", "queue", "created", "took", "attempts")

_WHOLE = frozenset({"id", "state", "step", "queue", "version"})
"""Columns that are folded last where a terminal is narrow."""


def print_workflow_table(rows: Sequence[WorkflowRow], app: str | None) -> None:
    """One line for each workflow; `app` is whose they are, None if anybody's."""
    if not rows:
        of = "" if app is None else f" of the application {printable(app)!r}"
        print(f"no workflows{of} match")
        return
    table = _table(*_WORKFLOW_COLUMNS)
    for row in rows:
        table.add_row(*_texts(row.workflow_id), *_cells(row))
    _print(table)


def print_count_table(keys: Sequence[CountKey], found: Sequence[WorkflowCount]) -> None:
    """One line for each kind of workflows."""
    table = _table(*keys, "workflows", "oldest", "longest wait", "longest life")
    for count in found:
        table.add_row(
            *(_counted_by(key, count) for key in keys),
            *_texts(f"{count.number:,}", local_time(count.oldest_at_ms)),
            *_texts(_took(0, count.longest_wait_ms), _took(0, count.longest_life_ms)),
        )
    _print(table)
    print(plural(sum(count.number for count in found), "workflow"))


def print_tree_table(branches: Sequence[Branch]) -> None:
    """One line for each workflow, below its parent's."""
    table = _table(*_WORKFLOW_COLUMNS)
    for branch, lines in zip(branches, _lines(branches), strict=True):
        row = branch.workflow
        table.add_row(Text(lines + printable(row.workflow_id)), *_cells(row))
    _print(table)
    print(plural(len(branches), "workflow"))


def print_workflow_details(row: WorkflowRow) -> None:
    """One line for each thing known about a workflow."""
    table = _sheet()
    table.add_row("id", *_texts(row.workflow_id))
    table.add_row("state", _state(row.state))
    _fill(table, _details(row))
    _print(table)


def print_step_table(steps: Sequence[StepRow], workflow_id: str) -> None:
    """One line for each recorded step."""
    if not steps:
        print(f"workflow {printable(workflow_id)!r} has no recorded steps")
        return
    table = _table("step", "name", "started", "took", "outcome")
    for row in steps:
        table.add_row(
            *_texts(row.step_id, row.name, local_time(row.started_at_ms)),
            *_texts(_took(row.started_at_ms, row.completed_at_ms)),
            _outcome(row),
        )
    _print(table)
    print(plural(len(steps), "step"))


def print_queue_table(found: Sequence[tuple[QueueRow, QueueDepth]], app: str) -> None:
    """One line for each queue."""
    if not found:
        print(f"the application {app!r} has no queues")
        return
    table = _table("queue", "waiting", "oldest", "delayed", "running", "ended/min", "limits")
    for row, depth in found:
        table.add_row(
            *_texts(row.name, f"{depth.enqueued:,}", _age(depth.oldest_at_ms)),
            *_texts(f"{depth.delayed:,}", f"{depth.pending:,}", f"{depth.completed:,}"),
            _limits(row),
        )
    _print(table)


def print_queue_details(row: QueueRow, depth: QueueDepth) -> None:
    """One line for each setting of a queue and each count of what is in it."""
    table = _sheet()
    table.add_row("queue", *_texts(row.name))
    table.add_row("state", Text("paused", "yellow") if row.is_paused else Text("served", "green"))
    _fill(table, _queue_details(row, depth))
    _print(table)


def print_version_table(rows: Sequence[VersionRow], app: str) -> None:
    """One line for each version."""
    if not rows:
        print(f"the application {app!r} has no versions")
        return
    table = _table("version", "latest", "since", "registered", "application")
    for place, row in enumerate(rows):
        table.add_row(
            *_texts(row.name, "" if place else "yes", local_time(row.at_ms)),
            *_texts(local_time(row.created_at_ms), row.application_name),
        )
    _print(table)


def _print(table: Table) -> None:
    """Draw a table on the terminal, or as plain lines without its padding."""
    console = Console(highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        console.print(table)
        return
    console.width = _UNBOUNDED
    with console.capture() as drawn:
        console.print(table)
    for line in drawn.get().splitlines():
        print(line.rstrip())


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in _WHOLE)
    return table


def _sheet() -> Table:
    """A table of two columns: what it is, and the value."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _fill(table: Table, details: Iterable[tuple[str, object]]) -> None:
    for what, value in details:
        if value not in (None, ""):
            table.add_row(what, Text(printable(str(value))))


def _cells(row: WorkflowRow) -> Iterable[Text]:
    """What is said about a workflow beside its id."""
    return [
        _state(row.state),
        *_texts(row.key, row.queue_name, local_time(row.created_at_ms)),
        *_texts(_took(row.created_at_ms, row.completed_at_ms), row.attempts),
    ]


def _counted_by(key: CountKey, count: WorkflowCount) -> Text:
    if key is CountKey.STATE and count.state is not None:
        return _state(count.state)
    value = getattr(count, key.field)
    (text,) = _texts(local_time(value) if key.is_instant else value)
    return text


def _lines(branches: Sequence[Branch]) -> list[str]:
    """What leads to each of them from its parent."""
    found: list[str] = []
    open_levels: set[int] = set()
    for branch in reversed(branches):
        depth = branch.depth
        above = ("│  " if level in open_levels else "   " for level in range(1, depth))
        corner = "├─ " if depth in open_levels else "└─ "
        found.append("".join(above) + corner if depth else "")
        open_levels = {level for level in open_levels if level < depth} | {depth}
    return found[::-1]


def _texts(*values: object) -> Iterable[Text]:
    """Cells without markup: what is stored is not ours to interpret."""
    return [Text(printable("" if value is None else str(value))) for value in values]


def _state(state: WorkflowState) -> Text:
    return Text(state.value, style=_COLOURS.get(state, ""))


def _took(start_ms: int | None, end_ms: int | None) -> str:
    if start_ms is None or end_ms is None:
        return ""
    return duration(max(end_ms - start_ms, 0) / 1000)


def _outcome(row: StepRow) -> Text:
    if row.error is not None:
        text = payload(row.error, row.serialization).as_error()
        return Text(_shortened(text), style="red")
    if row.output is None and row.child_workflow_id is not None:
        return Text(f"started {printable(row.child_workflow_id)}")
    return Text(_shortened(payload(row.output, row.serialization).as_text()))


def _shortened(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _LONGEST_CELL else f"{shown[: _LONGEST_CELL - 1]}…"


def _details(row: WorkflowRow) -> Iterable[tuple[str, object]]:
    label = row.serialization
    yield "name", row.key
    yield "queue", row.queue_name
    yield "priority", row.priority or None
    yield "partition key", row.partition_key
    yield "deduplication id", row.deduplication_id
    yield "application", row.application_name
    yield "version", row.application_version
    yield "executor", row.executor_id
    yield "attempts", row.attempts
    yield "parent", row.parent_workflow_id
    yield "forked from", row.forked_from
    yield "schedule", row.schedule_name
    yield "created", local_time(row.created_at_ms)
    yield "started", local_time(row.started_at_ms)
    yield "updated", local_time(row.updated_at_ms)
    yield "completed", local_time(row.completed_at_ms)
    yield "delayed until", local_time(row.delay_until_ms)
    yield "deadline", local_time(row.deadline_ms)
    yield "attributes", row.attributes
    if row.inputs is not None:
        yield "input", payload(row.inputs, label).as_arguments()
    if row.output is not None:
        yield "output", payload(row.output, label).as_text()
    if row.error is not None:
        yield "error", payload(row.error, label).as_error()


def _age(epoch_ms: int | None) -> str:
    """How long ago, by this machine's clock."""
    return "" if epoch_ms is None else duration(max(time.time() - epoch_ms / 1000, 0))


def _limits(row: QueueRow) -> Text:
    limits = limits_in_words(row.settings)
    if row.is_paused:
        return Text(f"paused; {limits}" if limits else "paused", style="yellow")
    return Text(limits)


def _queue_details(row: QueueRow, depth: QueueDepth) -> Iterable[tuple[str, object]]:
    yield "paused since", local_time(row.paused_at_ms)
    yield "application", row.application_name
    yield from settings_in_words(row.settings)
    yield "created", local_time(row.created_at_ms)
    yield "updated", local_time(row.updated_at_ms)
    yield "waiting", f"{depth.enqueued:,}"
    yield "oldest waiting", _age(depth.oldest_at_ms)
    yield "delayed", f"{depth.delayed:,}"
    yield "running", f"{depth.pending:,}"
    yield "ended in the last minute", f"{depth.completed:,}"
