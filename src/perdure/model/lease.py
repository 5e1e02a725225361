"""The lease of a process start, and what a heartbeat brings back."""

from dataclasses import dataclass
from enum import Enum

from perdure.model.ids import BootId, ExecutorId


class LockState(Enum):
    """What the liveness lock of a lease shows: the session lock on Postgres, a file's on SQLite."""

    HELD = "held"
    """Somebody holds it: the process lives."""

    FREE = "free"
    """Recorded, now free, and the server has not restarted since it was taken."""

    UNKNOWN = "unknown"
    """Not recorded, or recorded before the server restarted: only the lease's time counts."""


@dataclass(frozen=True, slots=True)
class NewLease:
    """What a process writes before the first row it owns."""

    boot_id: BootId
    executor_id: ExecutorId
    period_ms: int


@dataclass(frozen=True, slots=True)
class LeaseSeen:
    """Another boot's lease that looks suspicious: overdue, or its lock is free, or it is gone.

    `renewals` counts its renewals: the same number seen twice means none happened between.
    `overdue` says that the lease ran out by the database's clock. A boot that owns PENDING rows
    without a lease row appears with `orphaned` set (and `renewals` -1).
    """

    boot_id: BootId
    executor_id: ExecutorId
    renewals: int
    overdue: bool
    lock: LockState
    orphaned: bool = False


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer of one heartbeat statement.

    `held` False: somebody took this boot's lease, or it is gone; the boot id is dead.
    `now_ms` is the database's clock (offset included) at the statement. `ready` says that a
    claimable row waits in a queue this process serves; `next_due_ms` is the earliest
    `delay_until` of a DELAYED row, if any.
    """

    held: bool
    now_ms: int
    suspects: tuple[LeaseSeen, ...]
    ready: bool
    next_due_ms: int | None


@dataclass(frozen=True, slots=True)
class Takeover:
    """What one bounded batch of taking over a dead boot did.

    `refused`: the boot renewed after it was judged, or another process is taking it over.
    `finished`: no PENDING row names the boot any more and its lease row is gone.
    """

    moved: int
    finished: bool
    refused: bool
