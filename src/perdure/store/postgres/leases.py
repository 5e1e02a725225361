"""Leases of process starts: taking a dead one over, ending one's own."""

from perdure.model.ids import BootId
from perdure.model.lease import LeaseSeen, Takeover
from perdure.model.wire import INTERNAL_QUEUE
from perdure.ports.store.leases import HeartbeatLink
from perdure.store.postgres.concern import Access, Concern
from perdure.store.postgres.heartbeat import PostgresHeartbeatLink
from perdure.store.postgres.lanes import Transaction

_REFUSED = Takeover(moved=0, finished=False, refused=True)


class Leases(Concern):
    """`LeaseStore`."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._opened: set[BootId] = set()

    def heartbeat_link(self) -> HeartbeatLink:
        """See `perdure.ports.store.LeaseStore.heartbeat_link`."""
        return PostgresHeartbeatLink(self._access, self._opened)

    async def take_over(self, suspect: LeaseSeen, limit: int) -> Takeover:
        """See `perdure.ports.store.LeaseStore.take_over`."""
        queries, offset_ms = self._database.queries, self._database.offset_ms
        async with self._database.transaction() as transaction:
            if not await self._is_as_judged(transaction, suspect):
                return _REFUSED
            await transaction.fetch(queries["take_lease"], suspect.boot_id, offset_ms)
            moved = await transaction.fetch(
                queries["requeue_runs"],
                suspect.executor_id,
                self._application,
                limit,
                INTERNAL_QUEUE,
                offset_ms,
            )
            left = await transaction.fetch(queries["executor_has_runs"], suspect.executor_id)
            if not left:
                await transaction.fetch(queries["delete_lease"], suspect.boot_id)
            return Takeover(moved=len(moved), finished=not left, refused=False)

    async def _is_as_judged(self, transaction: Transaction, suspect: LeaseSeen) -> bool:
        """Lock the suspect's lease; False if it renewed, or if another process has it.

        A lease that is gone was finished with by somebody, who left nothing, or never stood: what
        there is to move are orphans.
        """
        queries = self._database.queries
        lease = await transaction.fetch(queries["lock_judged_lease"], suspect.boot_id)
        if not lease:
            return not await transaction.fetch(queries["lease_stands"], suspect.boot_id)
        return not suspect.orphaned and bool(lease[0]["renewals"] == suspect.renewals)

    async def end_lease(self, boot_id: BootId) -> None:
        """See `perdure.ports.store.LeaseStore.end_lease`."""
        queries = self._database.queries
        async with self._database.transaction() as transaction:
            own = await transaction.fetch(queries["lock_own_lease"], boot_id)
            if not own:
                return
            executor_id = own[0]["executor_id"]
            if not await transaction.fetch(queries["executor_has_runs"], executor_id):
                await transaction.fetch(queries["delete_lease"], boot_id)
