"""Removing workflows that ended long ago."""

from collections.abc import Sequence
from typing import Final

from perdure.model.ids import WorkflowId
from perdure.model.retention import Expired, Purged
from perdure.store.commands import DELETIONS
from perdure.store.postgres.batch import packed_list
from perdure.store.postgres.concern import Concern
from perdure.store.postgres.lanes import Record, Transaction

SIGHT: Final = 10_000
"""How many ended rows one call looks at."""


class Retention(Concern):
    """`RetentionStore`."""

    async def purge(self, wanted: Expired, since_ms: int, limit: int) -> Purged:
        """See `perdure.ports.store.RetentionStore.purge`."""
        queries, asked = self._database.queries, (*self._asked(wanted), since_ms, SIGHT, limit)
        async with self._database.transaction() as transaction:
            horizon, *found = await transaction.fetch(queries["lock_expired"], *asked)
            ids = await self._removable(transaction, found, wanted.before_ms)
            if ids:
                for query in DELETIONS:
                    await transaction.fetch(queries[query], *packed_list(ids))
        if len(found) < limit:
            return _looked(len(ids), horizon["completed_at"], wanted)
        last_ms = found[-1]["completed_at"]
        # What could not be removed stays for another time.
        return Purged(len(ids), last_ms if ids else last_ms + 1)

    async def expired(self, wanted: Expired, since_ms: int) -> Purged:
        """See `perdure.ports.store.RetentionStore.expired`."""
        (row,) = await self._database.fetch("count_expired", *self._asked(wanted), since_ms, SIGHT)
        return _looked(row["number"], row["horizon"], wanted)

    async def kept_since_ms(self, wanted: Expired, number: int) -> int | None:
        """See `perdure.ports.store.RetentionStore.kept_since_ms`."""
        found = await self._database.fetch("kept_since", *self._asked(wanted), number)
        return found[0]["completed_at"] if found else None

    async def forget_claims(self, before_ms: int, limit: int) -> int:
        """See `perdure.ports.store.RetentionStore.forget_claims`."""
        (row,) = await self._database.fetch(
            "forget_claims", before_ms, limit, self._database.offset_ms
        )
        number: int = row["number"]
        return number

    def _asked(self, wanted: Expired) -> tuple[object, ...]:
        states = [state.value for state in wanted.states]
        return (self._application, wanted.before_ms, states, list(wanted.names))

    async def _removable(
        self, transaction: Transaction, found: Sequence[Record], before_ms: int
    ) -> list[WorkflowId]:
        """Those whose parents nobody continues, nor can before this transaction is over."""
        parents = {row["parent_id"] for row in found} - {None}
        over = {None}
        if parents:
            query = self._database.queries["lock_ended_parents"]
            locked = await transaction.fetch(query, list(parents), before_ms)
            over |= {row["workflow_uuid"] for row in locked}
        return [WorkflowId(row["workflow_uuid"]) for row in found if row["parent_id"] in over]


def _looked(number: int, horizon_ms: int, wanted: Expired) -> Purged:
    following_ms = horizon_ms + 1
    return Purged(number, following_ms if following_ms < wanted.before_ms else None)
