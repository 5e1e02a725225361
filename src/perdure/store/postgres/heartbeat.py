"""The link of the heartbeat thread: renews a lease and looks around."""

import secrets
from contextlib import suppress

from perdure.errors import DatabaseRejected, LeaseLost
from perdure.model.ids import BootId
from perdure.model.lease import Beat, NewLease
from perdure.model.workflow import WorkflowKey
from perdure.store import rows
from perdure.store.postgres.claims import sought
from perdure.store.postgres.concern import Access
from perdure.store.postgres.lanes import Record
from perdure.store.postgres.link import PostgresLink

PENDING_AT_ONCE = 1000
"""PENDING rows one heartbeat looks at for executors without a lease."""

_LONGEST_OPENING_S = 5.0

_DEADLINES_PER_PERIOD = 4
"""A renewal that takes longer than this part of the lease is given up, while there is time."""


class PostgresHeartbeatLink(PostgresLink):
    """See `perdure.ports.store.leases.HeartbeatLink`.

    `opened` are the boots whose lease stood once: it is not written again if it is gone, for then
    it was taken and everything of the boot's moved.
    """

    def __init__(self, access: Access, opened: set[BootId]) -> None:
        super().__init__(access)
        self._opened = opened
        self._page = _FIRST_PAGE

    async def open(self, lease: NewLease) -> bool:
        """See `HeartbeatLink.open`."""
        await self.close()
        # Nothing runs out before the lease stands.
        self._deadline_s = max(lease.period_ms / 1000, _LONGEST_OPENING_S)
        await self._connect()
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


_FIRST_PAGE = (-(2**63), "")
