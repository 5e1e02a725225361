"""The link of the heartbeat thread: renews a lease and looks around."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from perdure.errors import DatabaseRejected, DatabaseUnavailable, LeaseLost
from perdure.model.ids import BootId
from perdure.model.lease import Beat, NewLease
from perdure.model.workflow import WorkflowKey
from perdure.store import rows
from perdure.store.postgres.claims import sought
from perdure.store.postgres.concern import Access
from perdure.store.postgres.failures import TRANSLATING
from perdure.store.postgres.hints import prefixes
from perdure.store.postgres.lanes import Connection, Record, close_quietly

PENDING_AT_ONCE = 1000
"""PENDING rows one heartbeat looks at for executors without a lease."""

_LONGEST_OPENING_S = 5.0

_DEADLINES_PER_PERIOD = 4
"""A renewal that takes longer than this part of the lease is given up, while there is time."""


class PostgresHeartbeatLink:
    """See `perdure.ports.store.leases.HeartbeatLink`.

    `opened` are the boots whose lease stood once: it is not written again if it is gone, for then
    it was taken and everything of the boot's moved.
    """

    def __init__(self, access: Access, opened: set[BootId]) -> None:
        self._access = access
        self._database = access.database
        self._queries = access.database.queries
        self._opened = opened
        self._prefixes = prefixes(access)
        self._connection: Connection | None = None
        self._when_lost: Callable[[], None] | None = None
        self._when_told: Callable[[str], None] | None = None
        self._deadline_s = 0.0
        self._page = _FIRST_PAGE

    def when_lost(self, callback: Callable[[], None]) -> None:
        """See `HeartbeatLink.when_lost`."""
        self._when_lost = callback

    def listen(self, callback: Callable[[str], None]) -> None:
        """See `HeartbeatLink.listen`."""
        self._when_told = callback

    async def open(self, lease: NewLease) -> bool:
        """See `HeartbeatLink.open`."""
        await self.close()
        # Nothing runs out before the lease stands.
        self._deadline_s = max(lease.period_ms / 1000, _LONGEST_OPENING_S)
        with TRANSLATING:
            self._connection = await self._database.connect_beating(self._deadline_s)
        if self._when_lost is not None:
            self._connection.add_termination_listener(self._on_terminated)
        known = lease.boot_id in self._opened
        opened = await self._fetch(
            "open_lease",
            lease.boot_id,
            lease.executor_id,
            self._access.application,
            lease.period_ms,
            self._database.offset_ms,
            known,
            rows.serves_text(lease.serves),
        )
        if not opened:
            raise LeaseLost(f"the lease of {lease.executor_id} was taken over")
        self._opened.add(lease.boot_id)
        await self._start_listening()
        is_locked = await self._take_lock(lease.boot_id)
        self._deadline_s = lease.period_ms / 1000 / _DEADLINES_PER_PERIOD
        return is_locked

    async def _start_listening(self) -> None:
        if self._when_told is None or not self._database.settings.has_sessions:
            return
        # Refused where the server cannot notify; then nobody is told anything.
        with suppress(DatabaseRejected):
            for channel in self._prefixes:
                async with self._deadline() as connection:
                    await connection.add_listener(channel, self._on_told)

    async def _take_lock(self, boot_id: BootId) -> bool:
        if not self._database.settings.has_sessions:
            return False
        key = secrets.randbits(64) - 2**63
        # Refused where the server has no such locks, or none for this role.
        with suppress(DatabaseRejected):
            (lock,) = await self._fetch("take_lock", key)
            return lock["taken"] and bool(
                await self._fetch("record_lock", boot_id, key, lock["pid"])
            )
        return False

    async def beat(
        self, lease: NewLease, queues: tuple[str, ...], keys: tuple[WorkflowKey, ...]
    ) -> Beat:
        """See `HeartbeatLink.beat`."""
        found = await self._fetch(
            "beat",
            lease.boot_id,
            lease.period_ms,
            *sought(queues, keys, lease.serves.version),
            self._access.application,
            self._database.offset_ms,
            PENDING_AT_ONCE,
            *self._page,
        )
        first = found[0]
        self._turn_page(found)
        return Beat(
            held=first["is_held"],
            now_ms=first["now_ms"],
            suspects=tuple(rows.lease_seen(row) for row in found if row["boot_id"] is not None),
            ready=tuple(first["ready"]),
            next_at_ms=first["next_at_ms"],
            queues=first["queues"],
        )

    def _turn_page(self, found: list[Record]) -> None:
        # Only who is seen on two heartbeats in a row can be judged.
        if any(row["orphaned"] for row in found):
            return
        first = found[0]
        is_last = first["page_rows"] < PENDING_AT_ONCE
        self._page = _FIRST_PAGE if is_last else (first["last_created_at"], first["last_id"])

    async def close(self) -> None:
        """See `HeartbeatLink.close`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await close_quietly(connection)

    def _on_terminated(self, _: object) -> None:
        if self._when_lost is not None:
            self._when_lost()

    def _on_told(self, *notification: object) -> None:
        channel, payload = map(str, notification[-2:])
        if self._when_told is not None:
            self._when_told(self._prefixes[channel] + payload)

    async def _fetch(self, query: str, *arguments: object) -> list[Record]:
        async with self._deadline() as connection:
            return await connection.fetch(self._queries[query], *arguments)

    @asynccontextmanager
    async def _deadline(self) -> AsyncGenerator[Connection]:
        connection = self._connection
        if connection is None:
            raise DatabaseUnavailable("the heartbeat's link is not open")
        with TRANSLATING:
            try:
                async with asyncio.timeout(self._deadline_s):
                    yield connection
            except TimeoutError:
                connection.terminate()
                raise


_FIRST_PAGE = (-(2**63), "")
