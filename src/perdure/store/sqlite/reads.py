"""Reads for waiters and handles, and what stands around a workflow."""

from collections.abc import Sequence

from perdure.model.circumstances import Circumstances
from perdure.model.ids import WorkflowId
from perdure.model.workflow import Outcome
from perdure.ports.store.reads import Settled
from perdure.store import rows
from perdure.store.sqlite.circumstances import read_circumstances
from perdure.store.sqlite.concern import Concern, packed
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.instants import wall_clock_ms


class Reads(Concern):
    """`ReadStore`."""

    async def settled(self, ids: Sequence[WorkflowId]) -> Settled:
        """See `perdure.ports.store.ReadStore.settled`."""
        asked = {"ids": packed(dict.fromkeys(ids))}

        def work(connection: Connection) -> Settled:
            outcomes: list[Outcome] = []
            missing: list[WorkflowId] = []
            for row in connection.rows(self._queries["settled"], asked):
                if row["missing"]:
                    missing.append(WorkflowId(row["workflow_uuid"]))
                else:
                    outcomes.append(rows.outcome(row))
            return Settled(tuple(outcomes), tuple(missing))

        return await self._database.read(work)

    async def circumstances(self, workflow_id: WorkflowId) -> Circumstances | None:
        """See `perdure.ports.store.ReadStore.circumstances`."""

        def work(connection: Connection) -> Circumstances | None:
            with connection.snapshot():
                return read_circumstances(connection, self._access, workflow_id)

        return await self._database.read(work)

    async def now_ms(self) -> int:
        """See `perdure.ports.store.ReadStore.now_ms`."""
        return await self._database.read(lambda _connection: wall_clock_ms(self._access.clock))
