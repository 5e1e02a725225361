"""Reads for waiters, handles and operators."""

from collections.abc import Sequence

from perdure.model.circumstances import Circumstances
from perdure.model.ids import WorkflowId
from perdure.model.workflow import Outcome, WorkflowFilter, WorkflowRow
from perdure.ports.store.reads import Settled
from perdure.store import compose, rows
from perdure.store.sqlite.circumstances import read_circumstances
from perdure.store.sqlite.concern import Concern, packed
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.instants import wall_clock_ms

_DIALECT = compose.Dialect(
    tables="",
    mark=lambda number: f"?{number}",
    member="{column} IN (SELECT value FROM json_each({mark}))",
    pack=packed,
)


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

    async def list_workflows(self, wanted: WorkflowFilter) -> list[WorkflowRow]:
        """See `perdure.ports.store.ReadStore.list_workflows`."""
        composed = compose.list_workflows(wanted, self._application, _DIALECT)

        def work(connection: Connection) -> list[WorkflowRow]:
            found = connection.rows(composed.text, composed.parameters)
            return [rows.workflow_row(row, with_payloads=wanted.with_payloads) for row in found]

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
