"""What a heartbeat finds around it, and who in it is a suspect."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Row
from typing import Any

from perdure.model.ids import BOOT_PREFIX, BootId, ExecutorId
from perdure.model.lease import LeaseSeen, LockState
from perdure.model.wire import INTERNAL_QUEUES
from perdure.store.sqlite import liveness
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.sweeps import PENDING_GRACE_MS


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The leases of the application, executors without one, and how the queues stand."""

    leases: tuple[Row, ...]
    orphans: tuple[ExecutorId, ...]
    ready: tuple[str, ...]
    next_at_ms: int | None
    queues: str

    @classmethod
    def read(
        cls, connection: Connection, queries: Mapping[str, str], asked: dict[str, Any]
    ) -> "Surroundings":
        """Look now; `asked` names the application, and a version, queues and functions of it."""
        application = {"application": asked["application"]}
        leases = connection.rows(queries["leases"], application)
        pending = connection.rows(
            queries["orphaned_executors"], {**application, "prefix": BOOT_PREFIX}
        )
        ((next_at_ms,),) = connection.rows(
            queries["next_sweep"], {**application, "grace": PENDING_GRACE_MS}
        )
        registered = connection.rows(queries["queues"], application)
        return cls(
            leases=tuple(leases),
            orphans=tuple(
                executor_id
                for (executor_id,) in pending
                if boot_of(executor_id).startswith(BOOT_PREFIX)
            ),
            ready=ready_queues(connection, queries, asked),
            next_at_ms=next_at_ms,
            queues=_digest(registered),
        )

    def lease_of(self, boot_id: BootId) -> Row | None:
        """The boot's lease, if it stands."""
        return next((row for row in self.leases if row["boot_id"] == boot_id), None)


def ready_queues(
    connection: Connection, queries: Mapping[str, str], asked: dict[str, Any]
) -> tuple[str, ...]:
    """Those of the queues `asked` about in which something claimable waits."""
    return tuple(name for (name,) in connection.rows(queries["ready_queues"], asked))


def suspects(
    seen: Surroundings, mine: BootId, folder: Path | None, now_ms: int
) -> tuple[LeaseSeen, ...]:
    """The boots but one's own whose lease looks suspicious at that instant."""
    found = [_seen(row, folder, now_ms) for row in seen.leases if row["boot_id"] != mine]
    return (
        *(lease for lease in found if lease.overdue or lease.lock is LockState.FREE),
        *(_orphan(executor_id) for executor_id in seen.orphans if boot_of(executor_id) != mine),
    )


def boot_of(executor_id: str) -> BootId:
    """The boot an executor id names last."""
    return BootId(executor_id.rpartition("/")[2])


def _digest(registered: Iterable[Row]) -> str:
    told = repr([tuple(row) for row in registered if row["name"] not in INTERNAL_QUEUES])
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()


def _seen(row: Row, folder: Path | None, now_ms: int) -> LeaseSeen:
    return LeaseSeen(
        boot_id=BootId(row["boot_id"]),
        executor_id=ExecutorId(row["executor_id"]),
        renewals=row["renewals"],
        overdue=row["expires_at"] < now_ms,
        lock=liveness.look(folder, row["lock_path"]) if folder else LockState.UNKNOWN,
    )


def _orphan(executor_id: ExecutorId) -> LeaseSeen:
    return LeaseSeen(
        boot_id=boot_of(executor_id),
        executor_id=executor_id,
        renewals=-1,
        overdue=False,
        lock=LockState.UNKNOWN,
        orphaned=True,
    )
