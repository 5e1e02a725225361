"""Builders of the values a store takes: every field that a test does not name is unremarkable."""

from __future__ import annotations

import itertools
from typing import Any

from msgspec.structs import fields as fields_of

from perdure.model.ids import BOOT_PREFIX, BootId, ExecutorId, OwnerToken, StepId, WorkflowId
from perdure.model.lease import NewLease, Serves
from perdure.model.listing import ListingRequest
from perdure.model.management import Caller, Managed, Recorded
from perdure.model.queue import Load, QueueLimits, QueueSettings
from perdure.model.status import WorkflowState
from perdure.model.talk import (
    Appending,
    Closing,
    NewEvent,
    NewMessage,
    Receiving,
    Sending,
)
from perdure.model.wire import NULL_TOPIC, PORTABLE_JSON
from perdure.model.workflow import (
    Checkpoint,
    Claimant,
    ClaimRequest,
    Fence,
    Finish,
    NewWorkflow,
    QueueShare,
    Release,
    SharedRequest,
    Start,
    WorkflowKey,
)

VERSION = "v1"
QUEUE = "line"
KEY = WorkflowKey("job")
PERIOD_MS = 60_000
"""Far longer than a test that does not let it pass may stand still."""

INPUTS = '{"namedArgs":{},"positionalArgs":[1]}'

_serial = itertools.count(1)


def fresh(prefix: str) -> str:
    """A text no other call returned in this process, sorted behind those of the calls before.

    What two calls made within one millisecond is told apart by such texts.
    """
    return f"{prefix}-{next(_serial):07}"


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


def lease(
    boot: BootId | None = None, period_ms: int = PERIOD_MS, version: str = VERSION
) -> NewLease:
    """The lease of a process start that runs `KEY` in that version, from all queues."""
    boot = boot if boot is not None else boot_id()
    return NewLease(boot, executor_of(boot), period_ms, Serves(version, None, (str(KEY),)))


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


def message(
    destination: NewWorkflow | WorkflowId, text: str = '"hello"', **fields: Any
) -> NewMessage:
    """A message to that workflow, under an id no other has."""
    to = destination.workflow_id if isinstance(destination, NewWorkflow) else destination
    values: dict[str, Any] = {
        "message_id": fresh("message"),
        "destination": to,
        "topic": NULL_TOPIC,
        "message": text,
        "serialization": PORTABLE_JSON,
    }
    return NewMessage(**{**values, **fields})


def sending(*messages: NewMessage, caller: Checkpoint | None = None, **fields: Any) -> Sending:
    """Those messages sent together."""
    return Sending(messages, caller, **fields)


def receiving(
    run: NewWorkflow | Fence, step_id: int = 1, topic: str = NULL_TOPIC, **fields: Any
) -> Receiving:
    """An attempt of that run to receive."""
    bare = {"name": "receive", "output": None, "serialization": None, **fields}
    return Receiving(topic, checkpoint(run, step_id, **bare))


def event(
    run: NewWorkflow | Fence, step_id: int = 1, key: str = "key", value: str = "1", **fields: Any
) -> NewEvent:
    """A value that run publishes in a step."""
    caller = checkpoint(run, step_id, **{"output": None, "serialization": None, **fields})
    return NewEvent(key, value, PORTABLE_JSON, caller)


def appending(
    run: NewWorkflow | Fence, step_id: int = 1, key: str = "key", value: str = "1", **fields: Any
) -> Appending:
    """A value that run appends in its body."""
    caller = checkpoint(run, step_id, **{"output": None, "serialization": None, **fields})
    return Appending(
        caller.workflow_id, caller.owner, caller.step_id, key, value, PORTABLE_JSON, caller
    )


def appending_inside(
    run: NewWorkflow | Fence, step_id: int = 1, key: str = "key", value: str = "1"
) -> Appending:
    """A value that run appends inside a step, in an append of its own."""
    outside = appending(run, step_id, key, value)
    return outside._replace(caller=None, append_id=fresh("append"))


def caller(run: NewWorkflow | Fence, step_id: int = 1, name: str = "command") -> Caller:
    """A step of that run that gives a command; it records the ids, or the refusal's class."""
    bare = checkpoint(run, step_id, name=name, output=None, serialization=None)
    return Caller(bare, _recorded)


def _recorded(managed: Managed) -> Recorded:
    if managed.refusal is None:
        return Recorded(" ".join(managed.ids), None, PORTABLE_JSON)
    return Recorded(None, type(managed.refusal).__name__, PORTABLE_JSON)


def closing(
    run: NewWorkflow | Fence,
    step_id: int = 2,
    openings: tuple[Checkpoint, ...] = (),
    put_back: tuple[int, ...] = (),
    *,
    voids: bool = False,
    **fields: Any,
) -> Closing:
    """A scope of that run closed under that step id."""
    verdict = checkpoint(run, step_id, **{"name": "close", **fields})
    return Closing(verdict, openings, voids, tuple(map(StepId, put_back)))


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


def claimant(executor_id: ExecutorId, **fields: Any) -> Claimant:
    """Who may claim everything `enqueued` makes."""
    values: dict[str, Any] = {
        "executor_id": executor_id,
        "keys": (KEY,),
        "version": VERSION,
        "token": token(),
    }
    return Claimant(**{**values, **fields})


def claim(
    executor_id: ExecutorId, queues: tuple[str, ...] = (QUEUE,), limit: int = 100, **fields: Any
) -> ClaimRequest:
    """A claim of up to `limit` of each of these queues."""
    shares = tuple(QueueShare(name, limit) for name in queues)
    return ClaimRequest(claimant(executor_id, **fields), shares)


def load(name: str = QUEUE, running: int = 0, after_key: str = "", **by_partition: int) -> Load:
    """What a process runs of that queue: in all, and for each partition key."""
    return Load(name, running, tuple(by_partition.items()), after_key)


def shared_claim(
    executor_id: ExecutorId, loads: tuple[Load, ...], limit: int = 100, **fields: Any
) -> SharedRequest:
    """A claim of up to `limit` from queues with limits that the fleet shares."""
    return SharedRequest(claimant(executor_id, **fields), loads, limit)


def queue(name: str = QUEUE, **fields: Any) -> QueueSettings:
    """A queue as it is declared; its limits are named among the fields."""
    names = [field.name for field in fields_of(QueueLimits) if field.name in fields]
    limits = {name: fields.pop(name) for name in names}
    return QueueSettings(name=name, limits=QueueLimits(**limits), **fields)


def by_ids(*ids: WorkflowId, **fields: Any) -> ListingRequest:
    """A listing of exactly these workflows, with payloads."""
    asked = {"ids": ids, "limit": len(ids) or 1, "with_inputs": True, "with_outputs": True}
    return ListingRequest(**{**asked, **fields})
