"""How the rows of listings and counts become values."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from perdure.model.ids import WorkflowId
from perdure.model.listing import CountKey, ListingRequest, StreamSummary, WorkflowCount
from perdure.model.status import WorkflowState
from perdure.model.workflow import WorkflowRow
from perdure.store.rows import Row, workflow_row


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


def stream_summary(row: Row) -> StreamSummary:
    """From `key`, `number` and `is_closed` of a stream."""
    return StreamSummary(row["key"], row["number"], bool(row["is_closed"]))
