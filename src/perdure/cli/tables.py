"""Workflows, what belongs to them, queues and versions, as tables for people."""

import time
from collections.abc import Iterable, Sequence

from rich.text import Text

from perdure.cli.drawing import draw, fill, grid, sheet, shortened, texts, took
from perdure.cli.limits import limits_in_words, settings_in_words
from perdure.cli.payloads import payload
from perdure.cli.wording import local_time, printable
from perdure.logic.phrases import duration, plural
from perdure.model.listing import (
    Branch,
    CountKey,
    StepCount,
    StepKey,
    StreamSummary,
    WorkflowCount,
)
from perdure.model.queue import QueueDepth, QueueRow
from perdure.model.status import WorkflowState
from perdure.model.talk import EventRow, MessageRow, StreamRow
from perdure.model.version import VersionRow
from perdure.model.workflow import StepRow, WorkflowRow

_COLOURS = {
    WorkflowState.SUCCESS: "green",
    WorkflowState.ERROR: "red",
    WorkflowState.MAX_RECOVERY_ATTEMPTS_EXCEEDED: "red",
    WorkflowState.CANCELLED: "yellow",
    WorkflowState.PENDING: "cyan",
}

_WORKFLOW_COLUMNS = ("id", "state", "name", "queue", "created", "took", "attempts")


def print_workflow_table(rows: Sequence[WorkflowRow], app: str | None) -> None:
    """One line for each workflow; `app` is whose they are, None if anybody's."""
    if not rows:
        of = "" if app is None else f" of the application {printable(app)!r}"
        print(f"no workflows{of} match")
        return
    table = grid(*_WORKFLOW_COLUMNS)
    for row in rows:
        table.add_row(*texts(row.workflow_id), *_cells(row))
    draw(table)


def print_count_table(keys: Sequence[CountKey], found: Sequence[WorkflowCount]) -> None:
    """One line for each kind of workflows."""
    table = grid(*keys, "workflows", "oldest", "longest wait", "longest life")
    for count in found:
        table.add_row(
            *(_counted_by(key, count) for key in keys),
            *texts(f"{count.number:,}", local_time(count.oldest_at_ms)),
            *texts(took(0, count.longest_wait_ms), took(0, count.longest_life_ms)),
        )
    draw(table)
    print(plural(sum(count.number for count in found), "workflow"))


def print_step_count_table(keys: Sequence[StepKey], found: Sequence[StepCount]) -> None:
    """One line for each kind of steps."""
    table = grid(*keys, "steps", "failed", "longest")
    for count in found:
        values = {StepKey.NAME: count.name, StepKey.COMPLETED: local_time(count.completed_at_ms)}
        table.add_row(
            *texts(*(values[key] for key in keys), f"{count.number:,}"),
            Text(f"{count.failed:,}", style="red" if count.failed else ""),
            *texts(took(0, count.longest_ms)),
        )
    draw(table)
    print(plural(sum(count.number for count in found), "step"))


def print_tree_table(branches: Sequence[Branch]) -> None:
    """One line for each workflow, below its parent's."""
    table = grid(*_WORKFLOW_COLUMNS)
    for branch, lines in zip(branches, _lines(branches), strict=True):
        row = branch.workflow
        table.add_row(Text(lines + printable(row.workflow_id)), *_cells(row))
    draw(table)
    print(plural(len(branches), "workflow"))


def print_workflow_details(row: WorkflowRow) -> None:
    """One line for each thing known about a workflow."""
    table = sheet()
    table.add_row("id", *texts(row.workflow_id))
    table.add_row("state", _state(row.state))
    fill(table, _details(row))
    draw(table)


def print_step_table(steps: Sequence[StepRow], workflow_id: str) -> None:
    """One line for each recorded step."""
    if not steps:
        print(f"workflow {printable(workflow_id)!r} has no recorded steps")
        return
    table = grid("step", "name", "started", "took", "outcome")
    for row in steps:
        table.add_row(
            *texts(row.step_id, row.name, local_time(row.started_at_ms)),
            *texts(took(row.started_at_ms, row.completed_at_ms)),
            _outcome(row),
        )
    draw(table)
    print(plural(len(steps), "step"))


def print_event_table(events: Sequence[EventRow], workflow_id: str) -> None:
    """One line for each published value."""
    if not events:
        print(f"workflow {printable(workflow_id)!r} has no events")
        return
    table = grid("key", "value")
    for row in events:
        table.add_row(*texts(row.key), _value(row.value, row.serialization))
    draw(table)
    print(plural(len(events), "event"))


def print_streams_table(streams: Sequence[StreamSummary], workflow_id: str) -> None:
    """One line for each stream."""
    if not streams:
        print(f"workflow {printable(workflow_id)!r} has no streams")
        return
    table = grid("key", "values", "closed")
    for row in streams:
        table.add_row(*texts(row.key, f"{row.values:,}", "yes" if row.is_closed else ""))
    draw(table)
    print(plural(len(streams), "stream"))


def print_stream_table(
    values: Sequence[StreamRow], workflow_id: str, key: str, offset: int
) -> None:
    """One line for each value of a stream, from that offset on."""
    if not values:
        stream = f"stream {printable(key)!r} of workflow {printable(workflow_id)!r}"
        print(f"{stream} has no values from offset {offset:,} on")
        return
    table = grid("offset", "step", "value")
    for row in values:
        table.add_row(*texts(row.offset, row.step_id), _value(row.value, row.serialization))
    draw(table)
    print(plural(len(values), "value"))


def print_message_table(messages: Sequence[MessageRow], workflow_id: str, *, unread: bool) -> None:
    """One line for each message to a workflow; `unread` says that only such are meant."""
    if not messages:
        kind = "unread messages" if unread else "messages"
        print(f"workflow {printable(workflow_id)!r} has no {kind}")
        return
    table = grid("sent", "topic", "received", "message")
    for row in messages:
        table.add_row(
            *texts(local_time(row.sent_at_ms), row.topic, _received(row)),
            _value(row.message, row.serialization),
        )
    draw(table)
    print(plural(len(messages), "message"))


def print_queue_table(found: Sequence[tuple[QueueRow, QueueDepth]], app: str) -> None:
    """One line for each queue."""
    if not found:
        print(f"the application {app!r} has no queues")
        return
    table = grid("queue", "waiting", "oldest", "delayed", "running", "ended/min", "limits")
    for row, depth in found:
        table.add_row(
            *texts(row.name, f"{depth.enqueued:,}", _age(depth.oldest_at_ms)),
            *texts(f"{depth.delayed:,}", f"{depth.pending:,}", f"{depth.completed:,}"),
            _limits(row),
        )
    draw(table)


def print_queue_details(row: QueueRow, depth: QueueDepth) -> None:
    """One line for each setting of a queue and each count of what is in it."""
    table = sheet()
    table.add_row("queue", *texts(row.name))
    table.add_row("state", Text("paused", "yellow") if row.is_paused else Text("served", "green"))
    fill(table, _queue_details(row, depth))
    draw(table)


def print_version_table(rows: Sequence[VersionRow], app: str) -> None:
    """One line for each version."""
    if not rows:
        print(f"the application {app!r} has no versions")
        return
    table = grid("version", "latest", "since", "registered", "application")
    for place, row in enumerate(rows):
        table.add_row(
            *texts(row.name, "" if place else "yes", local_time(row.at_ms)),
            *texts(local_time(row.created_at_ms), row.application_name),
        )
    draw(table)


def _cells(row: WorkflowRow) -> Iterable[Text]:
    """What is said about a workflow beside its id."""
    return [
        _state(row.state),
        *texts(row.key, row.queue_name, local_time(row.created_at_ms)),
        *texts(took(row.created_at_ms, row.completed_at_ms), row.attempts),
    ]


def _counted_by(key: CountKey, count: WorkflowCount) -> Text:
    if key is CountKey.STATE and count.state is not None:
        return _state(count.state)
    value = getattr(count, key.field)
    (text,) = texts(local_time(value) if key.is_instant else value)
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


def _state(state: WorkflowState) -> Text:
    return Text(state.value, style=_COLOURS.get(state, ""))


def _outcome(row: StepRow) -> Text:
    if row.error is not None:
        text = payload(row.error, row.serialization).as_error()
        return Text(shortened(text), style="red")
    if row.output is None and row.child_workflow_id is not None:
        return Text(f"started {printable(row.child_workflow_id)}")
    return _value(row.output, row.serialization)


def _value(text: str | None, serialization: str | None) -> Text:
    return Text(shortened(payload(text, serialization).as_text()))


def _received(row: MessageRow) -> str:
    if row.step_id is not None:
        return f"by step {row.step_id}"
    return "yes" if row.is_consumed else ""


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
