"""How the rows of listings and counts become values."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from perdure.model.ids import StepId, WorkflowId
from perdure.model.listing import (
    CountKey,
    ListingRequest,
    StepCount,
    StepCountRequest,
    StepKey,
    StreamSummary,
    WorkflowCount,
)
from perdure.model.status import WorkflowState
from perdure.model.talk import MessageRow
from perdure.model.workflow import WorkflowRow
from perdure.store.rows import Row, workflow_row

_EARLIEST, _LATEST = -(2**63), 2**63 - 1


def listed_workflow(row: Row, wanted: ListingRequest) -> WorkflowRow:
    """From WORKFLOW_COLUMNS and the payloads that are asked for."""
    found = workflow_row(row)
    if wanted.with_inputs:
        found = replace(found, inputs=row["inputs"] or None)
    if wanted.with_outputs:
        found = replace(found, output=row["output"] or None, error=row["error"] or None)
    return found


def each_once(found: Iterable[WorkflowRow]) -> list[WorkflowRow]:
    """The rows in their order, without those that came before."""
    once: dict[WorkflowId, WorkflowRow] = {}
    for row in found:
        once.setdefault(row.workflow_id, row)
    return list(once.values())


class CountedSteps(NamedTuple):
    """The parameters of `count_steps` but its limit, without a name of an application for any."""

    since: int
    until: int
    names: Sequence[str] | None
    application: str | None
    by_name: bool
    span: int | None


def counted_steps(wanted: StepCountRequest, application_name: str | None) -> CountedSteps:
    """What is asked of `count_steps`, in the order of its parameters."""
    since, until = wanted.completed
    return CountedSteps(
        since=_EARLIEST if since is None else since,
        until=_LATEST if until is None else until,
        names=None if wanted.names is None else list(wanted.names),
        application=None if wanted.any_application else application_name,
        by_name=StepKey.NAME in wanted.by,
        span=wanted.span_ms if StepKey.COMPLETED in wanted.by else None,
    )


def workflow_count(row: Row, by: Sequence[CountKey]) -> WorkflowCount:
    """From `number`, `oldest_at`, `longest_wait`, `longest_life` and what was counted by."""
    alike: dict[str, Any] = {key.field: row[f"key_{key.value}"] for key in by}
    if CountKey.STATE in by:
        alike["state"] = WorkflowState(alike["state"])
    return WorkflowCount(
        number=row["number"],
        oldest_at_ms=row["oldest_at"],
        longest_wait_ms=row["longest_wait"],
        longest_life_ms=row["longest_life"],
        **alike,
    )


def step_count(row: Row) -> StepCount:
    """From `number`, `failed`, `longest`, `key_name` and `key_completed`."""
    return StepCount(
        number=row["number"],
        failed=row["failed"],
        name=row["key_name"],
        completed_at_ms=row["key_completed"],
        longest_ms=row["longest"],
    )


def message_row(row: Row) -> MessageRow:
    """From the columns of a message, its topic None for the default one."""
    step_id = row["consumed_by_function_id"]
    return MessageRow(
        message_id=row["message_uuid"],
        topic=row["topic"],
        message=row["message"],
        serialization=row["serialization"] or None,
        sent_at_ms=row["created_at_epoch_ms"],
        is_consumed=bool(row["consumed"]),
        step_id=None if step_id is None else StepId(step_id),
    )


def stream_summary(row: Row) -> StreamSummary:
    """From `key`, `number` and `is_closed` of a stream."""
    return StreamSummary(row["key"], row["number"], bool(row["is_closed"]))
