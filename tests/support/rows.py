"""Builders of the values a store takes: every field that a test does not name is unremarkable."""

from __future__ import annotations

import itertools
from typing import Any

from perdure.model.ids import BOOT_PREFIX, BootId, ExecutorId, OwnerToken, StepId, WorkflowId
from perdure.model.status import WorkflowState
from perdure.model.wire import PORTABLE_JSON
from perdure.model.workflow import (
    Checkpoint,
    ClaimRequest,
    Fence,
    Finish,
    NewWorkflow,
    Release,
    Start,
    WorkflowFilter,
    WorkflowKey,
)

VERSION = "v1"
QUEUE = "line"
KEY = WorkflowKey("job")
INPUTS = '{"namedArgs":{},"positionalArgs":[1]}'

_serial = itertools.count(1)


def fresh(prefix: str) -> str:
    """A text no other call returned in this process."""
    return f"{prefix}-{next(_serial)}"


def wid(text: str | None = None) -> WorkflowId:
    """That workflow id, or a fresh one."""
    return WorkflowId(text if text is not None else fresh("wf"))


def token(text: str | None = None) -> OwnerToken:
    """That owner token, or a fresh one."""
    return OwnerToken(text if text is not None else fresh("token"))


def boot_id() -> BootId:
    """A fresh boot id."""
    return BootId(fresh(f"{BOOT_PREFIX}test"))


def executor_of(boot: BootId, name: str = "worker") -> ExecutorId:
    """The executor id a process start of that boot writes."""
    return ExecutorId(f"{name}/{boot}")


def direct(workflow_id: str | None = None, **fields: Any) -> NewWorkflow:
    """A direct start: PENDING at once, owned by its creator."""
    values: dict[str, Any] = {
        "workflow_id": wid(workflow_id),
        "name": KEY.name,
        "class_name": None,
        "config_name": None,
        "state": WorkflowState.PENDING,
        "inputs": INPUTS,
        "serialization": PORTABLE_JSON,
        "application_version": VERSION,
        "creator": token(),
    }
    return NewWorkflow(**{**values, **fields})


def enqueued(workflow_id: str | None = None, **fields: Any) -> NewWorkflow:
    """A row waiting on `QUEUE`, DELAYED when `delay_ms` is given."""
    state = WorkflowState.ENQUEUED if fields.get("delay_ms") is None else WorkflowState.DELAYED
    return direct(workflow_id, **{"state": state, "queue_name": QUEUE, **fields})


def starts(*workflows: NewWorkflow) -> list[Start]:
    """Those workflows as items of a start, none of them a child."""
    return [Start(workflow) for workflow in workflows]


def child_of(parent: NewWorkflow | Fence, step_id: int, child: NewWorkflow, **fields: Any) -> Start:
    """A child's start, with the step row its parent records for it."""
    fence = parent if isinstance(parent, Fence) else fence_of(parent)
    child = child._replace(parent_workflow_id=fence.workflow_id)
    caller = checkpoint(
        fence,
        step_id,
        **{
            "name": child.name,
            "output": None,
            "child_workflow_id": child.workflow_id,
            "serialization": None,
            **fields,
        },
    )
    return Start(child, caller)


def fence_of(workflow: NewWorkflow) -> Fence:
    """What fences the writes of a run started directly."""
    return Fence(workflow.workflow_id, workflow.creator)


def checkpoint(run: NewWorkflow | Fence, step_id: int = 1, **fields: Any) -> Checkpoint:
    """A successful step of that run."""
    fence = run if isinstance(run, Fence) else fence_of(run)
    values: dict[str, Any] = {
        "workflow_id": fence.workflow_id,
        "owner": fence.owner,
        "step_id": StepId(step_id),
        "name": "step",
        "output": str(step_id),
        "error": None,
        "child_workflow_id": None,
        "started_at_ms": 1_700_000_000_000 + step_id,
        "completed_at_ms": 1_700_000_000_500 + step_id,
        "serialization": PORTABLE_JSON,
    }
    return Checkpoint(**{**values, **fields})


def finish(
    run: NewWorkflow | Fence, state: WorkflowState = WorkflowState.SUCCESS, text: str = '"done"'
) -> Finish:
    """An ending of that run; `text` is its output or its error, where the state has one."""
    fence = run if isinstance(run, Fence) else fence_of(run)
    return Finish(
        fence.workflow_id,
        fence.owner,
        state,
        text if state is WorkflowState.SUCCESS else None,
        text if state is WorkflowState.ERROR else None,
    )


def release(
    run: NewWorkflow | Fence, delay_ms: int | None = None, *, give_back: bool = True
) -> Release:
    """Giving that run back."""
    fence = run if isinstance(run, Fence) else fence_of(run)
    return Release(fence.workflow_id, fence.owner, delay_ms, give_back)


def claim(executor_id: ExecutorId, **fields: Any) -> ClaimRequest:
    """A claim of everything `enqueued` makes."""
    values: dict[str, Any] = {
        "queues": (QUEUE,),
        "keys": (KEY,),
        "executor_id": executor_id,
        "version": VERSION,
        "token": token(),
        "limit": 100,
    }
    return ClaimRequest(**{**values, **fields})


def by_ids(*ids: WorkflowId, **fields: Any) -> WorkflowFilter:
    """A listing of exactly these workflows, with payloads."""
    return WorkflowFilter(**{"ids": ids, "with_payloads": True, "limit": len(ids) or 1, **fields})
