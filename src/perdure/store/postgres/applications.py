"""Giving what one application owns to another."""

from typing import Final

from perdure.errors import ApplicationRunning
from perdure.model.application import Moved, MovedBatch, Rename
from perdure.store.postgres.concern import Concern

_AT_ONCE: Final = 10_000
"""Workflows under way that one statement moves: each has a deadline."""


class Applications(Concern):
    """`ApplicationStore`."""

    async def rename_registrations(self, rename: Rename) -> Moved:
        """See `perdure.ports.store.ApplicationStore.rename_registrations`."""
        queries, asked = self._database.queries, _asked(rename)
        async with self._database.transaction() as transaction:
            if rename.old is not None:
                living = await transaction.fetch(
                    queries["living_executors"], rename.old, self._database.offset_ms
                )
                if living:
                    raise ApplicationRunning(rename.old, [row["executor_id"] for row in living])
            (moved,) = await transaction.fetch(queries["rename_registrations"], *asked)
            workflows, number = 0, _AT_ONCE
            while number == _AT_ONCE:
                (row,) = await transaction.fetch(queries["rename_in_flight"], *asked, _AT_ONCE)
                number = row["number"]
                workflows += number
        return Moved(moved["queues"], moved["schedules"], moved["versions"], workflows)

    async def rename_workflows(self, rename: Rename, since_id: str, limit: int) -> MovedBatch:
        """See `perdure.ports.store.ApplicationStore.rename_workflows`."""
        return await self._rename("rename_workflows", rename, since_id, limit)

    async def rename_steps(self, rename: Rename, since_id: str, limit: int) -> MovedBatch:
        """See `perdure.ports.store.ApplicationStore.rename_steps`."""
        return await self._rename("rename_steps", rename, since_id, limit)

    async def _rename(self, query: str, rename: Rename, since_id: str, limit: int) -> MovedBatch:
        # The last one is looked at again as the first of the next batch.
        (row,) = await self._database.fetch(query, *_asked(rename), since_id, limit + 1)
        return MovedBatch(row["number"], row["id"] if row["looked"] > limit else None)


def _asked(rename: Rename) -> tuple[object, ...]:
    return (rename.old, rename.new, rename.unclaimed)
