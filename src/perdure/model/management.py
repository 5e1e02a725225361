"""What can be done to workflows from outside of them, and what came of it.

Every command is one transaction. Instants are milliseconds since the Unix epoch on the database's
clock.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, TypeAlias

import msgspec

from perdure.errors import WorkflowError
from perdure.model.ids import OwnerToken, WorkflowId
from perdure.model.transfer import Archive
from perdure.model.workflow import Checkpoint, NewWorkflow


class Cancel(msgspec.Struct, frozen=True):
    """End workflows that have not succeeded or failed; with `children`, all their descendants too.

    The result names the ids that became CANCELLED, in the order given, descendants behind.
    """

    ids: tuple[WorkflowId, ...]
    children: bool = False


class Resume(msgspec.Struct, frozen=True):
    """Let workflows go on that were cancelled, dead-lettered, or stand still, on `queue_name`.

    Without a queue on the internal one. Refused as a whole if a workflow does not exist; those that
    succeeded or failed are left alone. The result names the ids that were resumed.
    """

    ids: tuple[WorkflowId, ...]
    queue_name: str | None = None


class LastStep(Enum):
    """A step of a workflow that is found when it is forked or rewound.

    What is recorded behind a step that waits is its time limit, no step of its own.
    """

    FAILED = "failed"
    """The last step that failed; if none did, the last one."""

    RECORDED = "recorded"
    """The last one."""


ForkPoint: TypeAlias = int | str | LastStep
"""The first step to run afresh: a step id of 1 or more, the last step of a name, or a search."""


class ForkItem(msgspec.Struct, frozen=True):
    """One fork of a source. `fork_id` is fixed before the first try.

    `replaced_children` are pairs of a child that the source started and the workflow that stands
    for it in the fork; without one the fork adopts the source's own child.
    """

    source: WorkflowId
    fork_id: WorkflowId
    point: ForkPoint = 1
    replaced_children: tuple[tuple[WorkflowId, WorkflowId], ...] = ()


class Fork(msgspec.Struct, frozen=True):
    """Make copies of workflows that go on from a step, ENQUEUED; refused as a whole or all made.

    `version` None leaves the row's NULL: it runs on the latest version. Queue, partition and
    timeout are never the source's. The result names the forks, in the order of the items.
    """

    items: tuple[ForkItem, ...]
    queue_name: str | None = None
    partition_key: str | None = None
    version: str | None = None
    timeout_ms: int | None = None


class Rewind(msgspec.Struct, frozen=True):
    """Let an ended workflow run again from a step, under its own id.

    `version` None keeps the row's. The partition key becomes the one given, or none. `token` is
    fixed before the first try: a workflow that bears it was rewound by this very command.
    """

    workflow_id: WorkflowId
    token: OwnerToken
    point: ForkPoint = 1
    queue_name: str | None = None
    partition_key: str | None = None
    version: str | None = None


class Delete(msgspec.Struct, frozen=True):
    """Remove workflows with all that belongs to them; with `children`, all their descendants too.

    Whatever state they are in. Refused if the run that asks would be among them. The result names
    the ids removed.
    """

    ids: tuple[WorkflowId, ...]
    children: bool = False


class SetDelay(msgspec.Struct, frozen=True):
    """Move the instant at which DELAYED workflows become ENQUEUED; others are left alone.

    To `until_ms`, or else to `delay_ms` from now. The result names the ids that were moved.
    """

    ids: tuple[WorkflowId, ...]
    delay_ms: int | None = None
    until_ms: int | None = None


class SetAttributes(msgspec.Struct, frozen=True):
    """Replace a workflow's attributes, or merge into them (top-level keys; a null value is stored).

    `attributes` is the JSON text of an object, or None: cleared. Refused if it does not exist.
    """

    workflow_id: WorkflowId
    attributes: str | None
    merge: bool = False


class Bounce(msgspec.Struct, frozen=True):
    """Push a debounced workflow back for a start that finds its deduplication id held.

    The row that holds the id on the queue is pushed back if it is DELAYED and debounced, of the
    start's function, and of its application (this one unless named) or of none. It is due
    `delay_ms` from now, but not after its debounce deadline; its inputs and their serialization,
    the version if the start has one, and whom it runs for become the start's; `updated_at` is now,
    and it becomes the application's. The result names it. Of any other holder nothing changes, and
    `holder` shows it. A row that just became ENQUEUED holds the id no more.
    """

    workflow: NewWorkflow


class Import(msgspec.Struct, frozen=True):
    """Bring workflows here that were exported; with `skip` those whose ids stand are left alone.

    All are written or none. Ids, and all else that must not stand twice, are different among them.
    `creator` is fixed before the first try. The result names the ids written.

    Refused if an id stands that is not to be skipped (`WorkflowIdInUse`; not if it bears the
    creator, from a try before: that is left as it is), a deduplication id is held on its queue
    (`QueueDeduplicated`), or a message's id stands (`MessageIdInUse`). The rows become as the
    archives have them, over what a workflow that was deleted left, with the creator, without an
    owner; payloads in their own tables.
    """

    archives: tuple[Archive, ...]
    creator: OwnerToken
    skip: bool = False


Command: TypeAlias = (
    Cancel | Resume | Fork | Rewind | Delete | SetDelay | SetAttributes | Import | Bounce
)


class Holder(msgspec.Struct, frozen=True):
    """Who holds a deduplication id."""

    workflow_id: WorkflowId
    is_debounced: bool
    name: str
    application_name: str | None


class Managed(msgspec.Struct, frozen=True):
    """What a command did: the workflows it names as its result, or why it was refused."""

    ids: tuple[WorkflowId, ...] = ()
    refusal: WorkflowError | None = None
    holder: Holder | None = None


class Recorded(NamedTuple):
    """The payload of a step row."""

    output: str | None
    error: str | None
    serialization: str | None
    child_workflow_id: WorkflowId | None = None


class Caller(NamedTuple):
    """The step of a run that gives a command; its row is written in the command's transaction.

    `step` lacks its payload, which `record` makes of what came of the command. That must neither
    block nor raise. If it makes None of it the step is not written.
    """

    step: Checkpoint
    record: Callable[[Managed], Recorded | None]
