"""Leases of process starts: taking a dead one over, ending one's own."""

import asyncio

from perdure.model.ids import BootId
from perdure.model.lease import LeaseSeen, Takeover
from perdure.model.wire import INTERNAL_QUEUE
from perdure.ports.store.leases import HeartbeatLink
from perdure.store.sqlite import liveness
from perdure.store.sqlite.concern import Access, Concern
from perdure.store.sqlite.heartbeat import SqliteHeartbeatLink
from perdure.store.sqlite.location import companions
from perdure.store.sqlite.transaction import Transaction

_REFUSED = Takeover(moved=0, finished=False, refused=True)


class Leases(Concern):
    """`LeaseStore`."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._opened: set[BootId] = set()

    def heartbeat_link(self) -> HeartbeatLink:
        """See `perdure.ports.store.LeaseStore.heartbeat_link`."""
        return SqliteHeartbeatLink(self._access, self._opened)

    async def take_over(self, suspect: LeaseSeen, limit: int) -> Takeover:
        """See `perdure.ports.store.LeaseStore.take_over`."""

        def work(transaction: Transaction) -> tuple[Takeover, str | None]:
            return self._take_over(transaction, suspect, limit)

        takeover, lock = await self._database.write(work)
        if takeover.finished:
            await self._remove_lock(lock)
        return takeover

    def _take_over(
        self, transaction: Transaction, suspect: LeaseSeen, limit: int
    ) -> tuple[Takeover, str | None]:
        queries, boot = self._queries, {"boot": suspect.boot_id}
        lease = transaction.row(queries["judged_lease"], boot)
        # A lease that is gone was finished with by somebody: what is left are orphans, if anything.
        if lease is not None and (suspect.orphaned or lease["renewals"] != suspect.renewals):
            return _REFUSED, None
        transaction.change(queries["take_lease"], {**boot, "now": transaction.now_ms})
        moved = transaction.change(
            queries["requeue_runs"],
            {
                "executor": suspect.executor_id,
                "application": self._application,
                "internal": INTERNAL_QUEUE,
                "now": transaction.now_ms,
                "limit": limit,
            },
        )
        if transaction.row(queries["executor_has_runs"], {"executor": suspect.executor_id}):
            return Takeover(moved=moved, finished=False, refused=False), None
        transaction.change(queries["delete_lease"], boot)
        lock = None if lease is None else lease["lock_path"]
        return Takeover(moved=moved, finished=True, refused=False), lock

    async def end_lease(self, boot_id: BootId) -> None:
        """See `perdure.ports.store.LeaseStore.end_lease`."""

        def work(transaction: Transaction) -> str | None:
            queries, boot = self._queries, {"boot": boot_id}
            lease = transaction.row(queries["judged_lease"], boot)
            if lease is None:
                return None
            if transaction.row(queries["executor_has_runs"], {"executor": lease["executor_id"]}):
                return None
            transaction.change(queries["delete_lease"], boot)
            lock: str | None = lease["lock_path"]
            return lock

        await self._remove_lock(await self._database.write(work))

    async def _remove_lock(self, name: str | None) -> None:
        path = self._access.path
        if path is not None and name:
            await asyncio.to_thread(liveness.remove, companions(path), name)
