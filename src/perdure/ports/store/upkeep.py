"""Forgetting what our own tables keep for longer than anybody needs it."""

from typing import NamedTuple, Protocol

from perdure.model.ids import WorkflowId


class LogPlace(NamedTuple):
    """Where somebody is in the log of appends."""

    workflow_id: WorkflowId
    append_id: str


LOG_BEGIN = LogPlace(WorkflowId(""), "")


class Pruned(NamedTuple):
    """How many appends were forgotten, and where to go on; at the end that is the beginning."""

    forgotten: int
    place: LogPlace


class UpkeepStore(Protocol):
    """Our own tables."""

    async def prune_appends(self, place: LogPlace, limit: int) -> Pruned:
        """Of up to `limit` logged appends behind that place, forget those that nobody repeats.

        These are the appends of workflows that have succeeded or failed, and of workflows that are
        gone. What was cancelled or set aside may be resumed within a step, which would append
        again.
        """
        ...
