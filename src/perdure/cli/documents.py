"""What the commands print for machines. The keys are an interface: programs read them."""

import json
from collections.abc import Sequence
from typing import Any

from perdure.cli.payloads import payload
from perdure.cli.wording import iso_time
from perdure.logic.explaining import Explanation
from perdure.model.listing import (
    Branch,
    CountKey,
    Cursor,
    StepCount,
    StepKey,
    StreamSummary,
    WorkflowCount,
)
from perdure.model.queue import QueueDepth, QueueRow, Rate
from perdure.model.talk import EventRow, MessageRow, StreamRow
from perdure.model.version import VersionRow
from perdure.model.workflow import StepRow, WorkflowRow


def print_workflows(rows: Sequence[WorkflowRow]) -> None:
    """An array of workflows."""
    print_json([_workflow(row) for row in rows])


def print_workflow(row: WorkflowRow) -> None:
    """One workflow."""
    print_json(_workflow(row))


def print_counts(keys: Sequence[CountKey], found: Sequence[WorkflowCount]) -> None:
    """An array of numbers with what they are counted by; spans of time by their beginnings."""
    print_json(
        [
            {
                **{key.value: _counted_by(key, count) for key in keys},
                "workflows": count.number,
                "oldest_at": iso_time(count.oldest_at_ms),
                "longest_wait_ms": count.longest_wait_ms,
                "longest_life_ms": count.longest_life_ms,
            }
            for count in found
        ]
    )


def print_step_counts(keys: Sequence[StepKey], found: Sequence[StepCount]) -> None:
    """An array of numbers with what they are counted by; spans of time by their beginnings."""
    print_json([_step_count(keys, count) for count in found])


def print_tree(branches: Sequence[Branch]) -> None:
    """An array of workflows, each behind its parent, with its depth."""
    print_json([{"depth": branch.depth, **_workflow(branch.workflow)} for branch in branches])


def print_steps(steps: Sequence[StepRow]) -> None:
    """An array of steps."""
    print_json([_step(row) for row in steps])


def print_events(events: Sequence[EventRow]) -> None:
    """An array of published values."""
    print_json([{"key": row.key, **_value(row.value, row.serialization)} for row in events])


def print_streams(streams: Sequence[StreamSummary]) -> None:
    """An array of streams, without what is in them."""
    print_json([{"key": row.key, "values": row.values, "closed": row.is_closed} for row in streams])


def print_stream(values: Sequence[StreamRow]) -> None:
    """An array of the values of a stream."""
    print_json(
        [
            {
                "offset": row.offset,
                "step_id": row.step_id,
                **_value(row.value, row.serialization),
            }
            for row in values
        ]
    )


def print_messages(messages: Sequence[MessageRow]) -> None:
    """An array of messages."""
    print_json([_message(row) for row in messages])


def print_explanation(workflow_id: str, explanation: Explanation) -> None:
    """Why a workflow does not run."""
    print_json(
        {
            "workflow_id": workflow_id,
            "cause": explanation.cause.value,
            "text": explanation.text,
            "until": iso_time(explanation.until_ms),
            "holders": [
                {"executor_id": executor, "running": running}
                for executor, running in explanation.holders
            ],
        }
    )


def print_queues(found: Sequence[tuple[QueueRow, QueueDepth]]) -> None:
    """An array of queues."""
    print_json([_queue(row, depth) for row, depth in found])


def print_queue(row: QueueRow, depth: QueueDepth) -> None:
    """One queue."""
    print_json(_queue(row, depth))


def print_versions(rows: Sequence[VersionRow]) -> None:
    """An array of versions."""
    print_json([_version(row) for row in rows])


def print_version(row: VersionRow) -> None:
    """One version."""
    print_json(_version(row))


def print_json(document: Any) -> None:
    """Print a document; what is no text (bytes of a file name) appears as escapes."""
    print(json.dumps(document, indent=2, ensure_ascii=True))


def _workflow(row: WorkflowRow) -> dict[str, Any]:
    return {
        "workflow_id": row.workflow_id,
        "place": str(Cursor.behind(row)),
        "state": row.state.value,
        "name": row.key.name,
        "class_name": row.key.class_name or None,
        "config_name": row.key.config_name or None,
        "queue": row.queue_name,
        "priority": row.priority,
        "partition_key": row.partition_key,
        "deduplication_id": row.deduplication_id,
        "attempts": row.attempts,
        "executor_id": row.executor_id,
        "application": row.application_name,
        "application_version": row.application_version,
        "created_at": iso_time(row.created_at_ms),
        "started_at": iso_time(row.started_at_ms),
        "updated_at": iso_time(row.updated_at_ms),
        "completed_at": iso_time(row.completed_at_ms),
        "delayed_until": iso_time(row.delay_until_ms),
        "deadline": iso_time(row.deadline_ms),
        "timeout_ms": row.timeout_ms,
        "parent_workflow_id": row.parent_workflow_id,
        "forked_from": row.forked_from,
        "schedule": row.schedule_name,
        "attributes": payload(row.attributes, None).value,
        "serialization": row.serialization,
        "input": payload(row.inputs, row.serialization).value,
        "output": payload(row.output, row.serialization).value,
        "error": payload(row.error, row.serialization).value,
    }


def _counted_by(key: CountKey, count: WorkflowCount) -> str | None:
    value = getattr(count, key.field)
    return iso_time(value) if key.is_instant else value


def _step(row: StepRow) -> dict[str, Any]:
    return {
        "step_id": row.step_id,
        "name": row.name,
        "started_at": iso_time(row.started_at_ms),
        "completed_at": iso_time(row.completed_at_ms),
        "child_workflow_id": row.child_workflow_id,
        "serialization": row.serialization,
        "output": payload(row.output, row.serialization).value,
        "error": payload(row.error, row.serialization).value,
    }


def _step_count(keys: Sequence[StepKey], count: StepCount) -> dict[str, Any]:
    values = {StepKey.NAME: count.name, StepKey.COMPLETED: iso_time(count.completed_at_ms)}
    return {
        **{key.value: values[key] for key in keys},
        "steps": count.number,
        "failed": count.failed,
        "longest_ms": count.longest_ms,
    }


def _message(row: MessageRow) -> dict[str, Any]:
    return {
        "message_id": row.message_id,
        "topic": row.topic,
        "sent_at": iso_time(row.sent_at_ms),
        "received": row.is_consumed,
        "step_id": row.step_id,
        **_value(row.message, row.serialization),
    }


def _value(text: str, serialization: str | None) -> dict[str, Any]:
    return {"serialization": serialization, "value": payload(text, serialization).value}


def _queue(row: QueueRow, depth: QueueDepth) -> dict[str, Any]:
    settings, limits = row.settings, row.settings.limits
    return {
        "name": row.name,
        "application": row.application_name,
        "paused_at": iso_time(row.paused_at_ms),
        "worker_concurrency": limits.worker,
        "global_concurrency": limits.concurrency,
        "rate_limit": _rate(limits.rate),
        "priority_enabled": settings.priority_enabled,
        "partitioned": settings.partitioned,
        "partition_concurrency": limits.partition_concurrency,
        "partition_worker_concurrency": limits.partition_worker,
        "partition_rate_limit": _rate(limits.partition_rate),
        "base_polling_interval_s": settings.base_polling_interval_s,
        "max_polling_interval_s": settings.max_polling_interval_s,
        "created_at": iso_time(row.created_at_ms),
        "updated_at": iso_time(row.updated_at_ms),
        "enqueued": depth.enqueued,
        "delayed": depth.delayed,
        "running": depth.pending,
        "oldest_at": iso_time(depth.oldest_at_ms),
        "completed_last_minute": depth.completed,
    }


def _version(row: VersionRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "id": row.version_id,
        "application": row.application_name,
        "at": iso_time(row.at_ms),
        "created_at": iso_time(row.created_at_ms),
    }


def _rate(rate: Rate | None) -> dict[str, Any] | None:
    return None if rate is None else {"limit": rate.limit, "period_s": rate.period_s}
