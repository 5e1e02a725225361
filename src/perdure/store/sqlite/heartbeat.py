"""The link of the heartbeat thread: renews a lease and looks around.

The lease is renewed only when a third of its period has passed; beats between only read. That is
enough, because death is decided by the lock of a file beside the database: a lease whose lock is
held and whose time has not run out is no suspect at all, however old its last renewal. Where the
lock is free its holder has ended, so its `renewals` stand still; a process that lives on renews
before its time runs out, and the count then differs from what a judge saw.
"""

from collections.abc import Callable
from typing import Any

from perdure.errors import DatabaseConflict, DatabaseUnavailable, LeaseLost
from perdure.model.ids import BootId
from perdure.model.lease import Beat, NewLease
from perdure.model.workflow import WorkflowKey
from perdure.store import rows
from perdure.store.sqlite import liveness
from perdure.store.sqlite.commit_watch import CommitWatch
from perdure.store.sqlite.concern import Access, packed
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.instants import wall_clock_ms
from perdure.store.sqlite.location import companions
from perdure.store.sqlite.session import OwnSession, Session, SharedSession
from perdure.store.sqlite.surroundings import Surroundings, suspects
from perdure.store.sqlite.transaction import Transaction

_RENEWALS_PER_PERIOD = 3


class SqliteHeartbeatLink:
    """See `perdure.ports.store.leases.HeartbeatLink`.

    `opened` are the boots whose lease stood once: it is not written again if it is gone, for then
    it was taken and everything of the boot's moved.
    """

    def __init__(self, access: Access, opened: set[BootId]) -> None:
        self._access = access
        self._opened = opened
        self._folder = None if access.path is None else companions(access.path)
        self._session: Session | None = None
        self._lock: liveness.LivenessLock | None = None
        self._renewed_ms = 0
        self._seen: tuple[int, dict[str, Any], Surroundings] | None = None
        self._callback: Callable[[str], None] | None = None
        self._watch: CommitWatch | None = None

    def when_lost(self, callback: Callable[[], None]) -> None:
        """See `HeartbeatLink.when_lost`; nothing is between us and a file."""

    def listen(self, callback: Callable[[str], None]) -> None:
        """See `HeartbeatLink.listen`; in memory there is nobody to hear."""
        self._callback = callback

    async def open(self, lease: NewLease) -> bool:
        """See `HeartbeatLink.open`."""
        await self.close()
        self._session = session = self._connect()
        # Before the lease names it: nobody may ever find a living process's lock free.
        self._take_lock(lease.boot_id)
        patience_s = self._access.settings.busy_timeout_s
        if not await self._renew(session, "open_lease", lease, patience_s):
            raise LeaseLost(f"the lease of {lease.executor_id} was taken over")
        self._opened.add(lease.boot_id)
        await self._sweep_locks(session)
        if isinstance(session, OwnSession) and self._callback is not None:
            writer = self._access.database.writer()
            await writer.look()
            self._watch = CommitWatch(session, writer, self._access.queries, self._callback)
        return self._lock is not None

    async def beat(
        self, lease: NewLease, queues: tuple[str, ...], keys: tuple[WorkflowKey, ...]
    ) -> Beat:
        """See `HeartbeatLink.beat`."""
        session = self._session
        if session is None:
            raise DatabaseUnavailable("the heartbeat's link is not open")
        await self._renew_if_due(session, lease)
        asked = {
            "application": self._access.application,
            "queues": packed(queues),
            "keys": packed(keys),
            "version": lease.serves.version,
        }
        seen = await self._look(session, asked)
        now_ms = wall_clock_ms(self._access.clock)
        mine = seen.lease_of(lease.boot_id)
        return Beat(
            held=mine is not None and mine["taken_at"] is None,
            now_ms=now_ms,
            suspects=suspects(seen, lease.boot_id, self._folder, now_ms),
            ready=seen.ready,
            next_at_ms=seen.next_at_ms,
            queues=seen.queues,
        )

    async def close(self) -> None:
        """See `HeartbeatLink.close`."""
        session, self._session = self._session, None
        lock, self._lock = self._lock, None
        watch, self._watch = self._watch, None
        self._seen = None
        if watch is not None:
            watch.stop()
        if session is not None:
            session.close()
        if lock is not None:
            lock.close()

    def _connect(self) -> Session:
        if self._access.path is None:
            return SharedSession(self._access.database)
        return OwnSession(self._access.path, self._access)

    def _take_lock(self, boot_id: BootId) -> None:
        if self._folder is not None:
            self._lock = liveness.take(self._folder, boot_id)

    async def _sweep_locks(self, session: Session) -> None:
        if self._folder is not None:
            query = self._access.queries["recorded_locks"]
            recorded = await session.read(lambda connection: connection.rows(query))
            liveness.sweep(self._folder, {row["lock_path"] for row in recorded})

    async def _renew(
        self, session: Session, query: str, lease: NewLease, patience_s: float
    ) -> bool:
        """Write the lease anew; False if it is not this boot's any more."""
        parameters = {
            "boot": lease.boot_id,
            "executor": lease.executor_id,
            "application": self._access.application,
            "period": lease.period_ms,
            "lock": self._lock.name if self._lock else None,
            "known": lease.boot_id in self._opened,
            "serves": rows.serves_text(lease.serves),
        }

        def work(transaction: Transaction) -> int | None:
            named = {**parameters, "now": transaction.now_ms}
            changed = transaction.change(self._access.queries[query], named)
            return transaction.now_ms if changed else None

        renewed_ms = await session.write(work, patience_s)
        if renewed_ms is None:
            return False
        self._renewed_ms = renewed_ms
        self._seen = None
        return True

    async def _renew_if_due(self, session: Session, lease: NewLease) -> None:
        ineffective = self._lock is not None and not self._lock.is_effective()
        if ineffective and self._lock is not None:
            self._lock.close()
            self._take_lock(lease.boot_id)
        share_ms = lease.period_ms / _RENEWALS_PER_PERIOD
        age_ms = wall_clock_ms(self._access.clock) - self._renewed_ms
        # A negative age is a clock that was set back.
        if 0 <= age_ms < share_ms and not ineffective:
            return
        try:
            # One that does not get its turn is tried again at the next beat, still in time.
            await self._renew(session, "renew_lease", lease, share_ms / 2000)
        except DatabaseConflict as error:
            if age_ms < 2 * share_ms:
                return
            # Who cannot renew must not believe that it renewed without a gap and judge others.
            raise DatabaseUnavailable(f"the lease could not be renewed: {error}") from error

    async def _look(self, session: Session, asked: dict[str, Any]) -> Surroundings:
        before = self._seen

        def work(connection: Connection) -> tuple[int, dict[str, Any], Surroundings]:
            version = session.version(connection)
            if before is not None and before[:2] == (version, asked):
                return before
            return version, asked, Surroundings.read(connection, self._access.queries, asked)

        self._seen = version, _, seen = await session.read(work)
        if self._watch is not None:
            self._watch.go_on(asked, version)
        return seen
