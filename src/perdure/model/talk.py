"""What workflows say to each other and to the outside: messages, events, stream values.

Payload fields hold encoded text. What a run writes is fenced on it by its checkpoint, and stands or
falls with that.
"""

from typing import NamedTuple

import msgspec

from perdure.model.ids import OwnerToken, StepId, WorkflowId
from perdure.model.workflow import Checkpoint


class NewMessage(NamedTuple):
    """One message to one workflow.

    `message_id` is fixed before the first try: the idempotency key with its destination, or random.
    `topic` is as stored: the default topic has a name of its own.
    """

    message_id: str
    destination: WorkflowId
    topic: str
    message: str
    serialization: str


class Sending(NamedTuple):
    """Messages that are sent together or not at all, and the step of the run that sends them.

    With `to_forks` each also goes to every workflow that was forked from its destination, directly
    or through other forks, under the same id with that workflow as the destination.
    """

    messages: tuple[NewMessage, ...]
    caller: Checkpoint | None = None
    to_forks: bool = False


class Receiving(NamedTuple):
    """One attempt of a run to take the oldest message of a topic.

    `taken` is the step's record as it is to be, without output and label: those are the message's.
    `deadline` is the record of the time limit, which stands beside it.
    """

    topic: str
    taken: Checkpoint
    deadline: Checkpoint | None = None


class NewEvent(NamedTuple):
    """One value a run publishes under a key, with the step that does."""

    key: str
    value: str
    serialization: str
    caller: Checkpoint


class Appending(NamedTuple):
    """One value a run appends to a stream of its own.

    In a body `caller` is the step's record. Inside a step there is none to write: `owner` fences
    it, and `append_id`, which begins with the number of the step, makes an attempt that is made
    again, by the engine or by the step itself, the same one.
    """

    workflow_id: WorkflowId
    owner: OwnerToken
    step_id: StepId
    key: str
    value: str
    serialization: str
    caller: Checkpoint | None = None
    append_id: str | None = None


class EventRow(NamedTuple):
    """A published value."""

    workflow_id: WorkflowId
    key: str
    value: str
    serialization: str | None


class MessageRow(msgspec.Struct, frozen=True):
    """A message to a workflow; `topic` is None for the default one.

    `step_id` is the step that received it, where the row says so.
    """

    message_id: str
    topic: str | None
    message: str
    serialization: str | None
    sent_at_ms: int
    is_consumed: bool
    step_id: StepId | None


class StreamRow(NamedTuple):
    """One value of a stream; `offset` counts from 0."""

    offset: int
    value: str
    serialization: str | None
    step_id: StepId


class Closing(NamedTuple):
    """The verdict of a scope, and what goes with it.

    `openings` are open rows that are not written yet. `voids`: the verdict that stands there rests
    on records that were cut away, and is overwritten. `put_back` are steps that took a message
    which no code has seen: they are forgotten, and their messages can be received again.
    """

    checkpoint: Checkpoint
    openings: tuple[Checkpoint, ...]
    voids: bool
    put_back: tuple[StepId, ...]


class Topic(NamedTuple):
    """Where a run waits for messages."""

    workflow_id: WorkflowId
    topic: str


class Key(NamedTuple):
    """An event or a stream of a workflow."""

    workflow_id: WorkflowId
    key: str
