"""Workflows and steps as JSON documents. Their keys are an interface: programs read them."""

import json
from collections.abc import Sequence
from typing import Any

from perdure.cli.payloads import payload
from perdure.cli.wording import iso_time
from perdure.model.workflow import StepRow, WorkflowRow


def print_workflows(rows: Sequence[WorkflowRow]) -> None:
    """An array of workflows."""
    print_json([_workflow(row) for row in rows])


def print_workflow(row: WorkflowRow) -> None:
    """One workflow."""
    print_json(_workflow(row))


def print_steps(steps: Sequence[StepRow]) -> None:
    """An array of steps."""
    print_json([_step(row) for row in steps])


def print_json(document: Any) -> None:
    """Print a document; what is no text (bytes of a file name) appears as escapes."""
    print(json.dumps(document, indent=2, ensure_ascii=True))


def _workflow(row: WorkflowRow) -> dict[str, Any]:
    return {
        "workflow_id": row.workflow_id,
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
