"""The columns each reader selects, and how a row becomes a value.

Both stores select through these lists and read rows by column name, so this (with `listed.py`, for
what listings add) is the only place that knows which column becomes which field. Payload columns
(`inputs`, `output`, `error`) are not in the lists: a query selects them as the payload table's
value, else the legacy column's.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from perdure.logic.principals import principal_of
from perdure.logic.queues import as_stored
from perdure.model.ids import BootId, ExecutorId, OwnerToken, StepId, WorkflowId
from perdure.model.lease import LeaseSeen, LockState, ProcessSeen, Serves
from perdure.model.queue import QueueDepth, QueueLimits, QueueRow, QueueSettings, Rate, Usage
from perdure.model.status import WorkflowState
from perdure.model.talk import EventRow, StreamRow
from perdure.model.version import VersionRow
from perdure.model.workflow import (
    Checkpoint,
    ClaimedRun,
    Fence,
    Outcome,
    StandingWorkflow,
    StepRow,
    WorkflowKey,
    WorkflowRow,
)
from perdure.ports.store.upkeep import LOG_BEGIN, LogPlace, Pruned


class Row(Protocol):
    """A row as both drivers give it."""

    def __getitem__(self, column: str, /) -> Any: ...


KEY_COLUMNS: Final = ("name", "class_name", "config_name")

PRINCIPAL_COLUMNS: Final = ("authenticated_user", "authenticated_roles", "assumed_role")

STANDING_COLUMNS: Final = (
    "workflow_uuid",
    "status",
    *KEY_COLUMNS,
    "queue_name",
    "creator_xid",
    "serialization",
)

OUTCOME_COLUMNS: Final = ("workflow_uuid", "status", "serialization", "recovery_attempts")

CLAIMED_COLUMNS: Final = (
    "workflow_uuid",
    "owner_xid",
    *KEY_COLUMNS,
    "serialization",
    "recovery_attempts",
    "queue_name",
    "queue_partition_key",
    "workflow_timeout_ms",
    "workflow_deadline_epoch_ms",
    "parent_workflow_id",
    "created_at",
    *PRINCIPAL_COLUMNS,
)

WORKFLOW_COLUMNS: Final = (
    "workflow_uuid",
    "status",
    *KEY_COLUMNS,
    "recovery_attempts",
    "queue_name",
    "priority",
    "queue_partition_key",
    "deduplication_id",
    "executor_id",
    "application_name",
    "application_version",
    "application_id",
    "created_at",
    "updated_at",
    "started_at_epoch_ms",
    "completed_at",
    "delay_until_epoch_ms",
    "workflow_timeout_ms",
    "workflow_deadline_epoch_ms",
    "parent_workflow_id",
    "forked_from",
    "was_forked_from",
    "schedule_name",
    *PRINCIPAL_COLUMNS,
    "attributes",
    "serialization",
    "owner_xid",
)

STEP_COLUMNS: Final = (
    "workflow_uuid",
    "function_id",
    "function_name",
    "output",
    "error",
    "child_workflow_id",
    "started_at_epoch_ms",
    "completed_at_epoch_ms",
    "serialization",
)

LIMIT_COLUMNS: Final = (
    "concurrency",
    "worker_concurrency",
    "rate_limit_max",
    "rate_limit_period_sec",
    "priority_enabled",
    "partition_queue",
    "polling_interval_sec",
    "partition_concurrency",
    "partition_worker_concurrency",
    "partition_rate_limit_max",
    "partition_rate_limit_period_sec",
)
"""What is set for a queue in the shared table."""

QUEUE_COLUMNS: Final = ("name", *LIMIT_COLUMNS, "application_name", "created_at", "updated_at")

SETTING_COLUMNS: Final = ("partitioned", "max_polling_interval_sec", "paused_at")
"""What of a queue only our own table has; all are NULL where it has no row."""

EVENT_COLUMNS: Final = ("workflow_uuid", "key", "value", "serialization")

STREAM_COLUMNS: Final = ("offset", "value", "serialization", "function_id")

VERSION_COLUMNS: Final = (
    "version_name",
    "version_id",
    "application_name",
    "version_timestamp",
    "created_at",
)

COLUMN_LISTS: Final = {
    "limit_columns": LIMIT_COLUMNS,
    "queue_columns": QUEUE_COLUMNS,
    "setting_columns": SETTING_COLUMNS,
    "standing_columns": STANDING_COLUMNS,
    "outcome_columns": OUTCOME_COLUMNS,
    "claimed_columns": CLAIMED_COLUMNS,
    "workflow_columns": WORKFLOW_COLUMNS,
    "step_columns": STEP_COLUMNS,
    "event_columns": EVENT_COLUMNS,
    "stream_columns": STREAM_COLUMNS,
    "version_columns": VERSION_COLUMNS,
}


def workflow_key(row: Row) -> WorkflowKey:
    """The function a row names; from KEY_COLUMNS."""
    return _key(row["name"], row["class_name"], row["config_name"])


@lru_cache(maxsize=1000)
def _key(name: str | None, class_name: str | None, config_name: str | None) -> WorkflowKey:
    return WorkflowKey(name or "", class_name or "", config_name or "")


def awaited_state(word: str) -> WorkflowState:
    """The state for who waits for its end; one of a newer schema is none that we know to be one."""
    return WorkflowState.__members__.get(word, WorkflowState.PENDING)


def standing_workflow(row: Row) -> StandingWorkflow:
    """From STANDING_COLUMNS."""
    return StandingWorkflow(
        workflow_id=WorkflowId(row["workflow_uuid"]),
        state=awaited_state(row["status"]),
        key=workflow_key(row),
        queue_name=row["queue_name"],
        creator=_token(row["creator_xid"]),
        serialization=row["serialization"],
    )


def outcome(row: Row) -> Outcome:
    """From OUTCOME_COLUMNS and the payloads `output` and `error`."""
    return Outcome(
        workflow_id=WorkflowId(row["workflow_uuid"]),
        state=WorkflowState(row["status"]),
        output=row["output"] or None,
        error=row["error"] or None,
        serialization=row["serialization"],
        attempts=row["recovery_attempts"] or 0,
    )


def claimed_run(row: Row) -> ClaimedRun:
    """From CLAIMED_COLUMNS, `inputs`, and the computed `deadline_left_ms` and `may_have_steps`.

    What was run before is read in any case: not every other program asks whether it still owns the
    run whose step it records.
    """
    attempts = row["recovery_attempts"] or 0
    return ClaimedRun(
        workflow_id=WorkflowId(row["workflow_uuid"]),
        owner=OwnerToken(row["owner_xid"]),
        key=workflow_key(row),
        inputs=row["inputs"] or None,
        serialization=row["serialization"],
        attempts=attempts,
        may_have_steps=attempts > 1 or bool(row["may_have_steps"]),
        queue_name=row["queue_name"],
        partition_key=row["queue_partition_key"],
        timeout_ms=row["workflow_timeout_ms"],
        deadline_ms=row["workflow_deadline_epoch_ms"],
        deadline_left_ms=row["deadline_left_ms"],
        parent_workflow_id=_workflow_id(row["parent_workflow_id"]),
        created_at_ms=row["created_at"],
        principal=principal_of(*(row[column] for column in PRINCIPAL_COLUMNS)),
    )


def workflow_row(row: Row) -> WorkflowRow:
    """From WORKFLOW_COLUMNS, without payloads."""
    return WorkflowRow(
        workflow_id=WorkflowId(row["workflow_uuid"]),
        state=WorkflowState(row["status"]),
        key=workflow_key(row),
        attempts=row["recovery_attempts"] or 0,
        queue_name=row["queue_name"] or None,
        priority=row["priority"],
        partition_key=row["queue_partition_key"] or None,
        deduplication_id=row["deduplication_id"] or None,
        executor_id=row["executor_id"] or None,
        application_name=row["application_name"] or None,
        application_version=row["application_version"] or None,
        application_id=row["application_id"] or None,
        created_at_ms=row["created_at"],
        updated_at_ms=row["updated_at"],
        started_at_ms=row["started_at_epoch_ms"],
        completed_at_ms=row["completed_at"],
        delay_until_ms=row["delay_until_epoch_ms"],
        timeout_ms=row["workflow_timeout_ms"],
        deadline_ms=row["workflow_deadline_epoch_ms"],
        parent_workflow_id=_workflow_id(row["parent_workflow_id"]),
        forked_from=_workflow_id(row["forked_from"]),
        was_forked_from=bool(row["was_forked_from"]),
        schedule_name=row["schedule_name"] or None,
        authenticated_user=row["authenticated_user"] or None,
        authenticated_roles=row["authenticated_roles"] or None,
        assumed_role=row["assumed_role"] or None,
        attributes=_attributes(row["attributes"]),
        serialization=row["serialization"] or None,
        owner=_token(row["owner_xid"]),
    )


def step_row(row: Row) -> StepRow:
    """From STEP_COLUMNS."""
    return StepRow(
        workflow_id=WorkflowId(row["workflow_uuid"]),
        step_id=StepId(row["function_id"]),
        name=row["function_name"],
        output=row["output"],
        error=row["error"],
        child_workflow_id=_workflow_id(row["child_workflow_id"]),
        started_at_ms=row["started_at_epoch_ms"],
        completed_at_ms=row["completed_at_epoch_ms"],
        serialization=row["serialization"],
    )


def recorded_step(item: Checkpoint) -> StepRow:
    """The row that a checkpoint becomes."""
    return StepRow(
        workflow_id=item.workflow_id,
        step_id=item.step_id,
        name=item.name,
        output=item.output,
        error=item.error,
        child_workflow_id=item.child_workflow_id,
        started_at_ms=item.started_at_ms,
        completed_at_ms=item.completed_at_ms,
        serialization=item.serialization,
    )


def event_row(row: Row) -> EventRow:
    """From EVENT_COLUMNS."""
    return EventRow(
        workflow_id=WorkflowId(row["workflow_uuid"]),
        key=row["key"],
        value=row["value"],
        serialization=row["serialization"],
    )


def stream_row(row: Row) -> StreamRow:
    """From STREAM_COLUMNS."""
    return StreamRow(
        offset=row["offset"],
        value=row["value"],
        serialization=row["serialization"],
        step_id=StepId(row["function_id"]),
    )


def over_appends(page: Sequence[Row]) -> list[LogPlace]:
    """Of rows with `workflow_id`, `append_id` and `is_over`, those that are."""
    return [_log_place(row) for row in page if row["is_over"]]


def pruned(page: Sequence[Row], forgotten: int, limit: int) -> Pruned:
    """Where a page of that many rows at most leads to."""
    is_last = len(page) < limit
    return Pruned(forgotten, LOG_BEGIN if is_last else _log_place(page[-1]))


def _log_place(row: Row) -> LogPlace:
    return LogPlace(WorkflowId(row["workflow_id"]), row["append_id"])


def fence(row: Row) -> Fence:
    """From `workflow_uuid` and `owner_xid`."""
    return Fence(WorkflowId(row["workflow_uuid"]), OwnerToken(row["owner_xid"]))


def lease_seen(row: Row) -> LeaseSeen:
    """From a lease's `boot_id`, `executor_id`, `renewals` and what was computed about it:
    `overdue`, `lock` (a word of `LockState`), `orphaned`."""
    return LeaseSeen(
        boot_id=BootId(row["boot_id"]),
        executor_id=ExecutorId(row["executor_id"]),
        renewals=row["renewals"],
        overdue=bool(row["overdue"]),
        lock=LockState(row["lock"]),
        orphaned=bool(row["orphaned"]),
    )


def version_row(row: Row) -> VersionRow:
    """From VERSION_COLUMNS."""
    return VersionRow(
        name=row["version_name"],
        version_id=row["version_id"],
        application_name=row["application_name"],
        at_ms=row["version_timestamp"],
        created_at_ms=row["created_at"],
    )


def queue_row(row: Row) -> QueueRow:
    """From QUEUE_COLUMNS and SETTING_COLUMNS."""
    base_s = row["polling_interval_sec"]
    longest_s = row["max_polling_interval_sec"]
    if longest_s is None:
        longest_s = QueueSettings(name="").max_polling_interval_s
    return QueueRow(
        settings=as_stored(
            QueueSettings(
                name=row["name"],
                limits=QueueLimits(
                    worker=row["worker_concurrency"],
                    concurrency=row["concurrency"],
                    rate=_rate(row["rate_limit_max"], row["rate_limit_period_sec"]),
                    partition_worker=row["partition_worker_concurrency"],
                    partition_concurrency=row["partition_concurrency"],
                    partition_rate=_rate(
                        row["partition_rate_limit_max"], row["partition_rate_limit_period_sec"]
                    ),
                ),
                priority_enabled=bool(row["priority_enabled"]),
                partitioned=bool(row["partitioned"]),
                base_polling_interval_s=base_s,
                max_polling_interval_s=max(base_s, longest_s),
            )
        ),
        application_name=row["application_name"] or None,
        paused_at_ms=row["paused_at"],
        created_at_ms=row["created_at"],
        updated_at_ms=row["updated_at"],
    )


def limit_values(settings: QueueSettings) -> tuple[Any, ...]:
    """What the shared table stores of a queue, in the order of LIMIT_COLUMNS."""
    limits = settings.limits
    return (
        limits.concurrency,
        limits.worker,
        *_rate_values(limits.rate),
        settings.priority_enabled,
        limits.of_partitions,
        settings.base_polling_interval_s,
        limits.partition_concurrency,
        limits.partition_worker,
        *_rate_values(limits.partition_rate),
    )


def queue_depth(row: Row) -> QueueDepth:
    """From `name` and what was counted for it: `enqueued`, `delayed`, `pending`, `oldest_at`,
    `completed`."""
    return QueueDepth(
        name=row["name"],
        enqueued=row["enqueued"],
        delayed=row["delayed"],
        pending=row["pending"],
        oldest_at_ms=row["oldest_at"],
        completed=row["completed"],
    )


def usage(row: Row) -> Usage:
    """From `pending`, `claims` and `frees_at` of a queue or a partition."""
    return Usage(pending=row["pending"], claims=row["claims"], frees_at_ms=row["frees_at"])


def serves_text(serves: Serves) -> str:
    """What a lease stores of it in `serves`."""
    return json.dumps(
        {
            "version": serves.version,
            "queues": None if serves.queues is None else list(serves.queues),
            "functions": list(serves.functions),
        }
    )


def process_seen(row: Row) -> ProcessSeen:
    """From a lease's `executor_id` and `serves`."""
    return ProcessSeen(ExecutorId(row["executor_id"]), _serves(row["serves"]))


def _serves(text: str | None) -> Serves | None:
    # A newer version may write it in a way that this one does not know.
    try:
        found = json.loads(text or "")
        queues = found["queues"]
        return Serves(
            str(found["version"]),
            None if queues is None else tuple(map(str, queues)),
            tuple(map(str, found["functions"])),
        )
    except (ValueError, TypeError, KeyError):
        return None


def _rate(limit: int | None, period_s: float | None) -> Rate | None:
    return None if limit is None or period_s is None else Rate(limit, period_s)


def _rate_values(rate: Rate | None) -> tuple[int | None, float | None]:
    return (None, None) if rate is None else (rate.limit, rate.period_s)


def _token(text: str | None) -> OwnerToken | None:
    return OwnerToken(text) if text else None


def _workflow_id(text: str | None) -> WorkflowId | None:
    return WorkflowId(text) if text else None


def _attributes(text: str | None) -> str | None:
    # The Python SDK writes JSON null where others write SQL NULL; both mean that there are none.
    return None if text == "null" else text or None
