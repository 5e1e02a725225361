"""The lease of a process start, and what a heartbeat brings back."""

from enum import Enum

import msgspec

from perdure.model.ids import BootId, ExecutorId


class LockState(Enum):
    """What the liveness lock of a lease shows: the session lock on Postgres, a file's on SQLite."""

    HELD = "held"
    """Somebody holds it: the process lives."""

    FREE = "free"
    """Recorded, now free, and the server has not restarted since it was taken."""

    UNKNOWN = "unknown"
    """Not recorded, or recorded before the server restarted: only the lease's time counts."""


class Serves(msgspec.Struct, frozen=True):
    """What a process can run: of which version, from which queues (None: from all), and which
    functions, by their keys as texts."""

    version: str
    queues: tuple[str, ...] | None
    functions: tuple[str, ...]


class NewLease(msgspec.Struct, frozen=True):
    """What a process writes before the first row it owns."""

    boot_id: BootId
    executor_id: ExecutorId
    period_ms: int
    serves: Serves


class ProcessSeen(msgspec.Struct, frozen=True):
    """A process whose lease stands, was not taken and has not run out.

    `serves` is None where the lease does not say.
    """

    executor_id: ExecutorId
    serves: Serves | None


class LeaseSeen(msgspec.Struct, frozen=True):
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


class Beat(msgspec.Struct, frozen=True):
    """The answer of one heartbeat statement.

    `held` False: somebody took this boot's lease, or it is gone; the boot id is dead.
    `now_ms` is the database's clock (offset included) at the statement. `ready` names the queues
    asked about in which a claimable row waits; `next_at_ms` is when a sweep has something to do
    next. `queues` is a digest of every registered queue of this application or of none: the same
    one twice means that nothing about them changed.
    """

    held: bool
    now_ms: int
    suspects: tuple[LeaseSeen, ...]
    ready: tuple[str, ...]
    next_at_ms: int | None
    queues: str


class Takeover(msgspec.Struct, frozen=True):
    """What one bounded batch of taking over a dead boot did.

    `refused`: the boot renewed after it was judged, or another process is taking it over.
    `finished`: no PENDING row names the boot any more and its lease row is gone.
    """

    moved: int
    finished: bool
    refused: bool
