"""What both stores know about a command before they look at a row, and what they see there."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from perdure.errors import WorkflowNotFound
from perdure.model.ids import WorkflowId
from perdure.model.management import (
    Bounce,
    Command,
    Fork,
    Holder,
    Import,
    Managed,
    Rewind,
    SetAttributes,
)
from perdure.model.status import WorkflowState
from perdure.model.workflow import NewWorkflow
from perdure.store.rows import Row

DELETIONS: Final = (
    "delete_workflows",
    "delete_inputs",
    "delete_outputs",
    "delete_steps",
    "delete_stream_log",
)
"""The queries that remove a workflow: what does not go by itself when its row goes, as do messages,
events and streams."""


BOUNCES: Final = 5
"""How often who holds a deduplication id may change between two statements."""


class Standing(NamedTuple):
    """How a workflow stands; the state is a word, for a newer schema may have others than ours."""

    state: str
    owner: str | None
    creator: str | None


_OUTCOMES: Final = frozenset({WorkflowState.SUCCESS.value, WorkflowState.ERROR.value})


def without_outcome(found: Mapping[WorkflowId, Standing]) -> tuple[WorkflowId, ...]:
    """Those that can be cancelled and resumed."""
    return tuple(each for each, standing in found.items() if standing.state not in _OUTCOMES)


def delayed(found: Mapping[WorkflowId, Standing]) -> tuple[WorkflowId, ...]:
    """Those that wait for an instant."""
    return tuple(
        each for each, standing in found.items() if standing.state == WorkflowState.DELAYED
    )


def missing(ids: Iterable[WorkflowId], found: Mapping[WorkflowId, Standing]) -> Managed | None:
    """The refusal if one of them does not exist."""
    for workflow_id in ids:
        if workflow_id not in found:
            return Managed(refusal=WorkflowNotFound(workflow_id))
    return None


def named(command: Command) -> tuple[WorkflowId, ...]:
    """The workflows a command names, each once, in the order given, also before they exist."""
    if isinstance(command, Fork):
        pairs = ((item.source, item.fork_id) for item in command.items)
        return tuple(dict.fromkeys(workflow_id for pair in pairs for workflow_id in pair))
    if isinstance(command, Import):
        return tuple(archive.workflow.workflow_id for archive in command.archives)
    if isinstance(command, Rewind | SetAttributes):
        return (command.workflow_id,)
    if isinstance(command, Bounce):
        return ()
    return tuple(dict.fromkeys(command.ids))


def holder_of(rows: Sequence[Row]) -> Holder | None:
    """Who holds a deduplication id, from the row found under it."""
    for row in rows:
        return Holder(
            workflow_id=WorkflowId(row["workflow_uuid"]),
            is_debounced=bool(row["is_debounced"]),
            name=row["name"] or "",
            application_name=row["application_name"],
        )
    return None


def may_be_bounced(holder: Holder | None, new: NewWorkflow, application: str | None) -> bool:
    """Whether a holder looks like one that would have been pushed back, had it been there."""
    return (
        holder is not None
        and holder.is_debounced
        and holder.name == new.name
        and (application is None or holder.application_name in (None, application))
    )
