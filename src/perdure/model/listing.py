"""Which workflows a reader means, and what it wants to know about them.

All instants are integer milliseconds since the Unix epoch on the database's clock.
"""

from enum import StrEnum
from typing import NamedTuple

import msgspec

from perdure.model.ids import ExecutorId, StepId, WorkflowId
from perdure.model.status import WorkflowState
from perdure.model.workflow import WorkflowRow


class Window(NamedTuple):
    """A span of time, both ends included; None is open."""

    from_ms: int | None = None
    to_ms: int | None = None


ALWAYS = Window()


class WorkflowFilter(msgspec.Struct, frozen=True):
    """Which workflows are meant: those that meet every condition. None is no condition.

    Of several values one is enough; of none nothing is. Without `applications` and
    `any_application` only this application's and unclaimed rows are meant, unless `ids` are given;
    named applications are theirs and unclaimed ones. An id prefix is a text, not a pattern. An
    executor is an executor id, or the name in ids of the form `<name>/<boot id>`. `queued` are
    those on a queue, in the active states unless `states` are given. `attributes` is the JSON text
    of an object that the workflow's contains: each of its keys, with an equal scalar, an object
    that contains the one there, or an array that holds each element of the one there, in any order.
    """

    ids: tuple[WorkflowId, ...] | None = None
    id_prefixes: tuple[str, ...] | None = None
    applications: tuple[str, ...] | None = None
    any_application: bool = False
    names: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None
    config_names: tuple[str, ...] | None = None
    states: tuple[WorkflowState, ...] | None = None
    versions: tuple[str, ...] | None = None
    executors: tuple[str, ...] | None = None
    users: tuple[str, ...] | None = None
    queues: tuple[str, ...] | None = None
    queued: bool = False
    schedules: tuple[str, ...] | None = None
    dedup_ids: tuple[str, ...] | None = None
    is_debounced: bool | None = None
    parents: tuple[WorkflowId, ...] | None = None
    has_parent: bool | None = None
    forked_from: tuple[WorkflowId, ...] | None = None
    is_fork: bool | None = None
    was_forked_from: bool | None = None
    created: Window = ALWAYS
    started: Window = ALWAYS
    completed: Window = ALWAYS
    attributes: str | None = None


class Cursor(NamedTuple):
    """A place in the order of a listing: right behind a workflow, whether it is still there."""

    created_at_ms: int
    workflow_id: WorkflowId

    @classmethod
    def behind(cls, row: WorkflowRow) -> "Cursor":
        """The place behind that row."""
        return cls(row.created_at_ms, row.workflow_id)

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """The place a text names; raises `ValueError`."""
        created, point, workflow_id = text.partition(".")
        if not point:
            raise ValueError(text)
        return cls(int(created), WorkflowId(workflow_id))

    def __str__(self) -> str:
        return f"{self.created_at_ms}.{self.workflow_id}"


class ListingRequest(WorkflowFilter, frozen=True):
    """A page of workflows, in order of (created_at, workflow id), from behind `after` on."""

    newest_first: bool = False
    limit: int = 100
    after: Cursor | None = None
    with_inputs: bool = False
    with_outputs: bool = False


class CountKey(StrEnum):
    """What workflows can be counted by; the instants by the spans of time they lie in."""

    STATE = "state"
    QUEUE = "queue"
    NAME = "name"
    VERSION = "version"
    EXECUTOR = "executor"
    APPLICATION = "application"
    CREATED = "created"
    STARTED = "started"
    COMPLETED = "completed"

    @property
    def is_instant(self) -> bool:
        """Whether it is counted by spans of time."""
        return self.field.endswith("_at_ms")

    @property
    def field(self) -> str:
        """Where a `WorkflowCount` says what it is counted by."""
        return _FIELDS[self]


_FIELDS = {
    CountKey.STATE: "state",
    CountKey.QUEUE: "queue_name",
    CountKey.NAME: "name",
    CountKey.VERSION: "application_version",
    CountKey.EXECUTOR: "executor_id",
    CountKey.APPLICATION: "application_name",
    CountKey.CREATED: "created_at_ms",
    CountKey.STARTED: "started_at_ms",
    CountKey.COMPLETED: "completed_at_ms",
}


class CountRequest(WorkflowFilter, frozen=True):
    """How many workflows there are for each combination of what they are counted by.

    Spans of time are `span_ms` long and begin at multiples of that. The earliest spans come first,
    then the largest numbers; at most `limit`.
    """

    by: tuple[CountKey, ...] = ()
    span_ms: int = 60_000
    limit: int = 1000


class WorkflowCount(msgspec.Struct, frozen=True):
    """How many workflows are alike in what they were counted by; the rest of that is None.

    An instant is the beginning of the span in which theirs lie; None also where they have none.
    `oldest_at_ms` is the creation of the first of them. `longest_wait_ms` is the longest time from
    the creation to the start, `longest_life_ms` to the end, of those that have both.
    """

    number: int
    state: WorkflowState | None = None
    queue_name: str | None = None
    name: str | None = None
    application_version: str | None = None
    executor_id: ExecutorId | None = None
    application_name: str | None = None
    created_at_ms: int | None = None
    started_at_ms: int | None = None
    completed_at_ms: int | None = None
    oldest_at_ms: int | None = None
    longest_wait_ms: int | None = None
    longest_life_ms: int | None = None


class StepKey(StrEnum):
    """What recorded steps can be counted by; their ends by the spans of time they lie in."""

    NAME = "name"
    COMPLETED = "completed"


class StepCountRequest(msgspec.Struct, frozen=True):
    """How many steps were recorded, for each combination of what they are counted by.

    Meant are those that ended within `completed`, of one of the `names` unless that is None, of
    this application's and nobody's workflows unless `any_application`. Spans of time and their
    order are those of a `CountRequest`.
    """

    by: tuple[StepKey, ...] = (StepKey.NAME,)
    names: tuple[str, ...] | None = None
    completed: Window = ALWAYS
    any_application: bool = False
    span_ms: int = 60_000
    limit: int = 1000


class StepCount(msgspec.Struct, frozen=True):
    """How many recorded steps are alike in what they were counted by, and how many of them failed.

    What they were not counted by is None. `completed_at_ms` is the beginning of the span in which
    they ended, `longest_ms` the longest time that one of them took.
    """

    number: int
    failed: int
    name: str | None = None
    completed_at_ms: int | None = None
    longest_ms: int | None = None


class StepsRequest(NamedTuple):
    """The steps of a workflow behind a step id, by step id."""

    workflow_id: WorkflowId
    after: StepId
    limit: int
    with_outputs: bool = True


class StreamSummary(msgspec.Struct, frozen=True):
    """A stream of a workflow: how many values it holds, without the mark of its end."""

    key: str
    values: int
    is_closed: bool


class Branch(msgspec.Struct, frozen=True):
    """A workflow in a tree; the root's depth is 0."""

    depth: int
    workflow: WorkflowRow
