"""Where forks and rewinds go on: how both stores ask for it, and judge what they find."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from perdure.errors import (
    NoForkPoint,
    WorkflowError,
    WorkflowIdInUse,
    WorkflowNotEnded,
    WorkflowNotFound,
)
from perdure.model.ids import StepId, WorkflowId
from perdure.model.management import ForkItem, ForkPoint, LastStep, Rewind
from perdure.model.wire import GET_EVENT, GET_EVENTS, RECV
from perdure.store.commands import Standing
from perdure.store.rows import Row, awaited_state

WAITS: Final = (RECV, GET_EVENT, GET_EVENTS)
"""The steps behind which their time limit is recorded, under the next id and as a sleep."""

COPIES: Final = ("copy_event_history", "copy_events", "copy_streams", "copy_stream_log")
"""What copies the rest of a source, the history of events before the events made of it."""

CUTS: Final = (
    "delete_late_events",
    "restore_events",
    "delete_late_history",
    "delete_late_steps",
    "forget_late_appends",
    "delete_late_messages",
)
"""What cuts a history from a step on; events become what theirs says before it is cut."""

POINT_NUMBERS: Final = frozenset({2})
"""The fields of a question that are whole numbers."""


class Question(NamedTuple):
    """What is asked of the database about a point: its step id, or a name, or a word to search."""

    source: WorkflowId
    fork_id: WorkflowId | None
    step_id: int | None
    name: str | None
    word: str | None


class Copy(NamedTuple):
    """A fork that is to be made: everything of the source below the point."""

    source: WorkflowId
    fork_id: WorkflowId
    point: StepId


class Replacement(NamedTuple):
    """In a fork, what stands for a child of its source."""

    fork_id: WorkflowId
    child_id: WorkflowId
    by_id: WorkflowId


def question(source: WorkflowId, point: ForkPoint, fork_id: WorkflowId | None = None) -> Question:
    """How to ask for a point of the source, and for what stands under the fork's id."""
    if isinstance(point, LastStep):
        return Question(source, fork_id, None, None, point.value)
    if isinstance(point, str):
        return Question(source, fork_id, None, point, None)
    return Question(source, fork_id, point, None, None)


def copies(
    items: Sequence[ForkItem], answers: Sequence[Row], standing: Collection[WorkflowId]
) -> list[Copy] | WorkflowError:
    """What is left to be made of these, or why none is; `standing` are the workflows that exist.

    A fork that stands as one of that source was made by a try before, and is not asked about again.
    """
    wanted: dict[WorkflowId, Copy] = {}
    for item, answer in zip(items, answers, strict=True):
        fork_id = item.fork_id
        if answer["stands"] and answer["forked_from"] == item.source:
            continue
        if item.source not in standing:
            return WorkflowNotFound(item.source)
        if answer["stands"] or fork_id in wanted:
            return WorkflowIdInUse(fork_id)
        if answer["point"] is None:
            return no_point(item.source, item.point)
        wanted[fork_id] = Copy(item.source, fork_id, StepId(answer["point"]))
    return list(wanted.values())


def replacements(items: Sequence[ForkItem]) -> list[Replacement]:
    """Every child that is replaced in a fork."""
    return [Replacement(item.fork_id, *pair) for item in items for pair in item.replaced_children]


def no_point(source: WorkflowId, point: ForkPoint) -> NoForkPoint:
    """The refusal of a point that the source has not recorded."""
    return NoForkPoint(source, "step" if isinstance(point, LastStep) else f"step named {point!r}")


def was_rewound(command: Rewind, standing: Mapping[WorkflowId, Standing]) -> bool:
    """Whether an earlier try of the command got through, whatever became of the workflow since."""
    found = standing.get(command.workflow_id)
    return found is not None and found.creator == command.token


def not_ended(
    workflow_id: WorkflowId, standing: Mapping[WorkflowId, Standing]
) -> WorkflowError | None:
    """The refusal of a rewind of what does not exist or has not ended."""
    if workflow_id not in standing:
        return WorkflowNotFound(workflow_id)
    state = standing[workflow_id].state
    return None if awaited_state(state).is_terminal else WorkflowNotEnded(workflow_id, state)
