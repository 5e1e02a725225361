"""Moving what is due and ending what is overdue."""

from sqlite3 import Row

from perdure.model.ids import WorkflowId
from perdure.model.queue import Swept
from perdure.store.sqlite.concern import Concern, packed
from perdure.store.sqlite.transaction import Transaction

PENDING_GRACE_MS = 2000
"""A process ends what it runs exactly when its time is up; this long it is left to do so."""


class Sweeps(Concern):
    """`ClaimStore.sweep`."""

    async def sweep(self, limit: int) -> Swept:
        """See `perdure.ports.store.ClaimStore.sweep`."""

        def work(transaction: Transaction) -> Swept:
            # First: what is overdue should not come up as work.
            expired = self._expire(transaction, limit)
            moved = self._enqueue_due(transaction, limit)
            next_at = transaction.row(
                self._queries["next_sweep"],
                {"application": self._application, "grace": PENDING_GRACE_MS},
            )
            next_at_ms = None if next_at is None else next_at["next_at"]
            return Swept(
                moved=len(moved),
                ready=tuple(dict.fromkeys(row["queue_name"] for row in moved if row["queue_name"])),
                expired=expired,
                next_at_ms=next_at_ms,
                more=next_at_ms is not None and next_at_ms <= transaction.now_ms,
            )

        return await self._database.write(work)

    def _expire(self, transaction: Transaction, limit: int) -> tuple[WorkflowId, ...]:
        found = transaction.rows(
            self._queries["overdue_workflows"],
            {
                "application": self._application,
                "now": transaction.now_ms,
                "grace": PENDING_GRACE_MS,
                "limit": limit,
            },
        )
        ids = tuple(WorkflowId(row["workflow_uuid"]) for row in found)
        if ids:
            overdue = {"ids": packed(ids), "now": transaction.now_ms}
            transaction.change(self._queries["cancel"], overdue)
        return ids

    def _enqueue_due(self, transaction: Transaction, limit: int) -> list[Row]:
        asked = {"application": self._application, "now": transaction.now_ms, "limit": limit}
        due = transaction.rows(self._queries["due_workflows"], asked)
        if due:
            places = packed(row["place"] for row in due)
            transaction.change(self._queries["enqueue_due"], {"places": places})
        return due
