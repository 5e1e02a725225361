"""Rows of workflows: what a start writes, what a claim returns, what a reader sees.

The values written on the hot path are named tuples: a batch of them is transposed into columns
as it stands, and building one costs a fraction of a dataclass. Payload fields hold encoded text.
All instants are integer milliseconds since the Unix epoch on the database's clock.
"""

from typing import NamedTuple

import msgspec

from perdure.model.ids import ExecutorId, OwnerToken, StepId, WorkflowId
from perdure.model.principal import NOBODY, Principal
from perdure.model.queue import Load, QueueTurn
from perdure.model.status import WorkflowState


class WorkflowKey(NamedTuple):
    """What a row names as its function: the registry's key. Absent parts are ''."""

    name: str
    class_name: str = ""
    config_name: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in self if part)


class Checkpoint(NamedTuple):
    """One step row to record, fenced on the run that records it.

    `completed_at_ms` together with `name` is how a repeated write recognises its own row, so it
    is fixed before the first try. Exactly one of `output` and `error` is set for an ordinary
    step; a child's start has neither, and `child_workflow_id`.
    """

    workflow_id: WorkflowId
    owner: OwnerToken
    step_id: StepId
    name: str
    output: str | None
    error: str | None
    child_workflow_id: WorkflowId | None
    started_at_ms: int
    completed_at_ms: int
    serialization: str | None


class Together(NamedTuple):
    """A step row and the open rows of scopes that are written with it, never apart."""

    checkpoint: Checkpoint
    openings: tuple[Checkpoint, ...]


class Finish(NamedTuple):
    """One terminal ending of an owned run.

    SUCCESS carries `output`, ERROR carries `error`; CANCELLED (the run's deadline passed) and
    MAX_RECOVERY_ATTEMPTS_EXCEEDED (dead-lettered) carry neither.
    """

    workflow_id: WorkflowId
    owner: OwnerToken
    state: WorkflowState
    output: str | None
    error: str | None


class Release(NamedTuple):
    """One owned run given back to the queue it came from, else to the internal one.

    `delay_ms` None means ENQUEUED at once; a number means DELAYED until the database's clock
    plus that. `give_back` takes the attempt off the recovery counter (never below zero).
    """

    workflow_id: WorkflowId
    owner: OwnerToken
    delay_ms: int | None
    give_back: bool


class Fence(NamedTuple):
    """An execution's claim on a row: what every write for it checks."""

    workflow_id: WorkflowId
    owner: OwnerToken


class NewWorkflow(NamedTuple):
    """Everything a start or an enqueue decides about a row.

    `state` is PENDING (direct start: `owner_xid` becomes `creator`, `recovery_attempts` 1),
    ENQUEUED or DELAYED (owner NULL, attempts 0). `creator` is fixed before the first try.
    For PENDING, `timeout_ms` without `deadline_ms` sets the deadline to the database's clock
    plus the timeout (saturating at 2**63 - 1); otherwise the timeout only waits for the claim.
    `delay_ms` is relative to the database's clock and only for DELAYED. `application_name` None is
    the application in whose name the store is used, and that may be none. `debounce_ms` is set for
    one whose delay may be pushed back: to that long from now at most, 0 for any time.
    """

    workflow_id: WorkflowId
    name: str
    class_name: str | None
    config_name: str | None
    state: WorkflowState
    inputs: str | None
    serialization: str
    application_version: str | None
    creator: OwnerToken
    queue_name: str | None = None
    priority: int = 0
    deduplication_id: str | None = None
    partition_key: str | None = None
    delay_ms: int | None = None
    timeout_ms: int | None = None
    deadline_ms: int | None = None
    parent_workflow_id: WorkflowId | None = None
    attributes: str | None = None
    authenticated_user: str | None = None
    authenticated_roles: str | None = None
    assumed_role: str | None = None
    application_name: str | None = None
    debounce_ms: int | None = None


class Start(NamedTuple):
    """A new workflow and, for a child, its parent's step row: written together or not at all.

    `caller.child_workflow_id` is the workflow's id and `caller` is fenced on the parent.
    """

    workflow: NewWorkflow
    caller: Checkpoint | None = None


class StandingWorkflow(msgspec.Struct, frozen=True):
    """The row found under an id that a start wanted: enough to join it or to refuse."""

    workflow_id: WorkflowId
    state: WorkflowState
    key: WorkflowKey
    queue_name: str | None
    creator: OwnerToken | None
    serialization: str | None


class Outcome(NamedTuple):
    """How a workflow stands, with its encoded result if it has one.

    `attempts` is the recovery counter, which the dead-letter error names.
    """

    workflow_id: WorkflowId
    state: WorkflowState
    output: str | None
    error: str | None
    serialization: str | None
    attempts: int


class QueueShare(NamedTuple):
    """A queue to claim from, and how many to take from it at most."""

    queue_name: str
    limit: int


class Claimant(msgspec.Struct, frozen=True):
    """Who claims, and what it can run.

    `keys` are the functions the process registered; rows of other functions are left alone. `token`
    is the owner token every row of the claim gets. A row is eligible if its application is this one
    or none, and its version is `version`, or none when `version` is the latest registered.
    """

    executor_id: ExecutorId
    keys: tuple[WorkflowKey, ...]
    version: str
    token: OwnerToken


class ClaimRequest(msgspec.Struct, frozen=True):
    """What one process can start now from queues without limits that the fleet shares.

    A queue is named once.
    """

    claimant: Claimant
    shares: tuple[QueueShare, ...]


class SharedRequest(msgspec.Struct, frozen=True):
    """What one process can start now from queues with limits that the fleet shares.

    At most `limit` of each queue and of all together; a queue is named once.
    """

    claimant: Claimant
    loads: tuple[Load, ...]
    limit: int


class ClaimedRun(msgspec.Struct, frozen=True, gc=False):
    """One claimed row with all that running it needs.

    `deadline_left_ms` is measured by the database at the claim, so no clocks are compared. Unless
    it `may_have_steps` it has no history to read: nothing was recorded before this claim.
    """

    workflow_id: WorkflowId
    owner: OwnerToken
    key: WorkflowKey
    inputs: str | None
    serialization: str | None
    attempts: int
    may_have_steps: bool
    queue_name: str | None
    partition_key: str | None
    timeout_ms: int | None
    deadline_ms: int | None
    deadline_left_ms: int | None
    parent_workflow_id: WorkflowId | None
    created_at_ms: int
    principal: Principal = NOBODY


class SharedClaim(msgspec.Struct, frozen=True):
    """What was claimed, and what was found in each queue, in the order of the request."""

    runs: tuple[ClaimedRun, ...]
    turns: tuple[QueueTurn, ...]


class WorkflowRow(msgspec.Struct, frozen=True):
    """A workflow as a reader sees it: every column of the listing, payloads if asked.

    NULL and '' texts are alike None; payloads prefer the payload tables over the legacy columns.
    """

    workflow_id: WorkflowId
    state: WorkflowState
    key: WorkflowKey
    attempts: int
    queue_name: str | None
    priority: int
    partition_key: str | None
    deduplication_id: str | None
    executor_id: str | None
    application_name: str | None
    application_version: str | None
    application_id: str | None
    created_at_ms: int
    updated_at_ms: int
    started_at_ms: int | None
    completed_at_ms: int | None
    delay_until_ms: int | None
    timeout_ms: int | None
    deadline_ms: int | None
    parent_workflow_id: WorkflowId | None
    forked_from: WorkflowId | None
    was_forked_from: bool
    schedule_name: str | None
    authenticated_user: str | None
    authenticated_roles: str | None
    assumed_role: str | None
    attributes: str | None
    serialization: str | None
    owner: OwnerToken | None
    inputs: str | None = None
    output: str | None = None
    error: str | None = None


class StepRow(msgspec.Struct, frozen=True):
    """One recorded step."""

    workflow_id: WorkflowId
    step_id: StepId
    name: str
    output: str | None
    error: str | None
    child_workflow_id: WorkflowId | None
    started_at_ms: int | None
    completed_at_ms: int | None
    serialization: str | None
