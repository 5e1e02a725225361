"""Reads for waiters and handles, and what stands around a workflow."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from perdure.model.circumstances import Circumstances
from perdure.model.ids import WorkflowId
from perdure.model.workflow import Outcome


class Settled(msgspec.Struct, frozen=True):
    """Of the workflows asked about: the terminal ones with outcomes, and the ids with no row."""

    outcomes: tuple[Outcome, ...]
    missing: tuple[WorkflowId, ...]


class ReadStore(Protocol):
    """Plain reads; none takes a lock."""

    async def settled(self, ids: Sequence[WorkflowId]) -> Settled:
        """Which of these have left the active states. One statement whatever the number."""
        ...

    async def circumstances(self, workflow_id: WorkflowId) -> Circumstances | None:
        """All that decides when a workflow runs, read at one moment; None if there is no such row.

        Processes and counts are of the row's application (this one where it has none). Counts of
        PENDING rows are by executor, the largest first; usage and executors of the partition are
        those of the row's partition key. `ahead` counts ENQUEUED rows of the queue that come before
        it, up to 1,000.
        """
        ...

    async def now_ms(self) -> int:
        """The database's clock plus the clock port's offset."""
        ...
