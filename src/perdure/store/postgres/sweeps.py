"""Moving what is due and ending what is overdue."""

from perdure.model.ids import WorkflowId
from perdure.model.queue import Swept
from perdure.store.postgres.concern import Concern

_BEFORE_ALL_MS = -1


class Sweeps(Concern):
    """`ClaimStore.sweep`."""

    async def sweep(self, limit: int) -> Swept:
        """See `perdure.ports.store.ClaimStore.sweep`."""
        queries = self._database.queries
        async with self._database.transaction() as transaction:
            (now,) = await transaction.fetch(queries["now"], self._database.offset_ms)
            asked = (self._application, now["now_ms"])
            # First: what is overdue should not come up as work.
            expired = await transaction.fetch(queries["cancel_overdue"], *asked, limit)
            moved = await transaction.fetch(queries["enqueue_due"], *asked, limit)
            more = limit in (len(moved), len(expired))
            after_ms = _BEFORE_ALL_MS if more else now["now_ms"]
            (following,) = await transaction.fetch(
                queries["next_sweep"], self._application, after_ms
            )
        return Swept(
            moved=len(moved),
            ready=tuple(dict.fromkeys(row["queue_name"] for row in moved)),
            expired=tuple(WorkflowId(row["workflow_uuid"]) for row in expired),
            next_at_ms=following["next_at"],
            more=more,
        )
