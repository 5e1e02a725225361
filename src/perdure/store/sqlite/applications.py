"""Giving what one application owns to another."""

from perdure.errors import ApplicationRunning
from perdure.model.application import Moved, MovedBatch, Rename
from perdure.store.sqlite.concern import Concern
from perdure.store.sqlite.transaction import Transaction

_REGISTRATIONS = ("rename_queues", "rename_schedules", "rename_versions", "rename_in_flight")


class Applications(Concern):
    """`ApplicationStore`."""

    async def rename_registrations(self, rename: Rename) -> Moved:
        """See `perdure.ports.store.ApplicationStore.rename_registrations`."""

        def work(transaction: Transaction) -> Moved:
            queries, asked = self._queries, _asked(rename)
            living = transaction.rows(
                queries["living_executors"], {"old": rename.old, "now": transaction.now_ms}
            )
            if rename.old is not None and living:
                raise ApplicationRunning(rename.old, [row["executor_id"] for row in living])
            transaction.change(queries["rename_leases"], asked)
            return Moved(*(transaction.change(queries[query], asked) for query in _REGISTRATIONS))

        return await self._database.write(work)

    async def rename_workflows(self, rename: Rename, since_id: str, limit: int) -> MovedBatch:
        """See `perdure.ports.store.ApplicationStore.rename_workflows`."""
        return await self._rename("workflows", rename, since_id, limit)

    async def rename_steps(self, rename: Rename, since_id: str, limit: int) -> MovedBatch:
        """See `perdure.ports.store.ApplicationStore.rename_steps`."""
        return await self._rename("steps", rename, since_id, limit)

    async def _rename(self, what: str, rename: Rename, since_id: str, limit: int) -> MovedBatch:
        def work(transaction: Transaction) -> MovedBatch:
            # The last one is looked at again as the first of the next batch.
            page = {"since": since_id, "limit": limit + 1}
            row = transaction.row(self._queries[f"{what}_from"], page)
            last_id = None if row is None else row["workflow_uuid"]
            asked = {**_asked(rename), "since": since_id, "last": last_id}
            number = transaction.change(self._queries[f"rename_{what}"], asked)
            return MovedBatch(number, last_id)

        return await self._database.write(work)


def _asked(rename: Rename) -> dict[str, object]:
    return {"old": rename.old, "new": rename.new, "unclaimed": rename.unclaimed}
