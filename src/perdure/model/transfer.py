"""Workflows as documents: all that belongs to one, to be kept, or brought to another database.

A record is a row of the database as it stands, payloads as the texts that they are stored as; who
owns a run, and when rows are due to be removed, stays behind. Its fields are the document's.
Instants are milliseconds since the Unix epoch.
"""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from perdure.model.ids import WorkflowId

FORMAT: Final = "perdure.workflow"
FORMAT_VERSION: Final = 1

Short: TypeAlias = Annotated[str, Meta(max_length=255)]
Named: TypeAlias = Annotated[str, Meta(min_length=1)]
Small: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Large: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class WorkflowRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The workflow's own row, with its inputs and its outcome."""

    workflow_id: Annotated[WorkflowId, Meta(min_length=1)]
    state: str
    created_at_ms: Large
    updated_at_ms: Large
    name: str | None = None
    class_name: Short | None = None
    config_name: Short | None = None
    inputs: str | None = None
    output: str | None = None
    error: str | None = None
    serialization: str | None = None
    attempts: Large | None = None
    queue_name: str | None = None
    priority: Small = 0
    partition_key: str | None = None
    deduplication_id: str | None = None
    executor_id: str | None = None
    application_name: str | None = None
    application_version: str | None = None
    application_id: str | None = None
    started_at_ms: Large | None = None
    completed_at_ms: Large | None = None
    delay_until_ms: Large | None = None
    timeout_ms: Large | None = None
    deadline_ms: Large | None = None
    parent_workflow_id: str | None = None
    forked_from: str | None = None
    was_forked_from: bool = False
    rate_limited: bool = False
    schedule_name: str | None = None
    is_debounced: bool = False
    debounce_deadline_ms: Large | None = None
    authenticated_user: str | None = None
    authenticated_roles: str | None = None
    assumed_role: str | None = None
    attributes: str | None = None
    request: str | None = None


class StepRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recorded step."""

    step_id: Small
    name: str
    output: str | None = None
    error: str | None = None
    child_workflow_id: str | None = None
    started_at_ms: Large | None = None
    completed_at_ms: Large | None = None
    serialization: str | None = None
    application_name: str | None = None


class EventRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The present value of a key."""

    key: str
    value: str
    serialization: str | None = None


class PublishedRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that a step published under a key."""

    step_id: Small
    key: str
    value: str
    serialization: str | None = None


class StreamRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value of a stream."""

    key: str
    offset: Small
    value: str
    step_id: Small = 0
    serialization: str | None = None


class MessageRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message to the workflow, with the step that received it."""

    message_id: Named
    message: str
    created_at_ms: Large
    topic: str | None = None
    serialization: str | None = None
    consumed: bool = False
    consumed_by_step_id: Small | None = None


class Archive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One workflow. `appends` are what its unfinished steps appended to streams already."""

    format: Literal["perdure.workflow"]
    version: Literal[1]
    workflow: WorkflowRecord
    steps: tuple[StepRecord, ...] = ()
    events: tuple[EventRecord, ...] = ()
    event_history: tuple[PublishedRecord, ...] = ()
    stream_values: tuple[StreamRecord, ...] = ()
    messages: tuple[MessageRecord, ...] = ()
    appends: tuple[Named, ...] = ()
