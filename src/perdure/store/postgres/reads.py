"""Reads for waiters and handles, and what stands around a workflow."""

from collections.abc import Sequence

from perdure.model.circumstances import Circumstances
from perdure.model.ids import WorkflowId
from perdure.model.workflow import Outcome
from perdure.ports.store.reads import Settled
from perdure.store import rows
from perdure.store.postgres.batch import packed_list
from perdure.store.postgres.concern import Concern
from perdure.store.postgres.lanes import SNAPSHOT
from perdure.store.postgres.surroundings import Surroundings


class Reads(Concern):
    """`ReadStore`."""

    async def settled(self, ids: Sequence[WorkflowId]) -> Settled:
        """See `perdure.ports.store.ReadStore.settled`."""
        outcomes: list[Outcome] = []
        missing: list[WorkflowId] = []
        for row in await self._database.kept("settled", *packed_list(list(dict.fromkeys(ids)))):
            if row["missing"]:
                missing.append(WorkflowId(row["workflow_uuid"]))
            else:
                outcomes.append(rows.outcome(row))
        return Settled(tuple(outcomes), tuple(missing))

    async def circumstances(self, workflow_id: WorkflowId) -> Circumstances | None:
        """See `perdure.ports.store.ReadStore.circumstances`."""
        async with self._database.transaction(SNAPSHOT) as transaction:
            return await Surroundings(self._access, transaction).of(workflow_id)

    async def now_ms(self) -> int:
        """See `perdure.ports.store.ReadStore.now_ms`."""
        (row,) = await self._database.fetch("now", self._database.offset_ms)
        now_ms: int = row["now_ms"]
        return now_ms
