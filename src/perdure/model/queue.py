"""Queues: what is stored about one, and what a claim learns about it.

A limit that is None does not bind. Instants are milliseconds since the Unix epoch on the database's
clock, durations are seconds as in the shared table.
"""

import msgspec

from perdure.model.ids import WorkflowId


class Rate(msgspec.Struct, frozen=True):
    """At most `limit` claims in any window of `period_s` seconds."""

    limit: int
    period_s: float


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that bounds how many workflows of a queue run.

    `worker` counts in one process, `concurrency` and `rate` in the whole fleet; those of a
    partition do so for each partition key by itself.
    """

    worker: int | None = None
    concurrency: int | None = None
    rate: Rate | None = None
    partition_worker: int | None = None
    partition_concurrency: int | None = None
    partition_rate: Rate | None = None

    @property
    def of_partitions(self) -> bool:
        """Whether any limit is one of each partition."""
        return (self.partition_worker, self.partition_concurrency, self.partition_rate) != (
            None,
            None,
            None,
        )

    @property
    def are_shared(self) -> bool:
        """Whether a limit is one that the processes of a fleet share, so that claims exclude each
        other."""
        shared = (self.concurrency, self.rate, self.partition_concurrency, self.partition_rate)
        return any(limit is not None for limit in shared)


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as it is declared.

    On a `partitioned` queue every workflow has a partition key. `priority_enabled` says whether
    workflows may be given a priority. The polling intervals bound how often a process looks where
    nothing tells it that work has arrived.
    """

    name: str
    limits: QueueLimits = QueueLimits()
    priority_enabled: bool = True
    partitioned: bool = False
    base_polling_interval_s: float = 1.0
    max_polling_interval_s: float = 120.0


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A registered queue. `paused_at_ms` is None unless it is paused."""

    settings: QueueSettings
    application_name: str | None
    paused_at_ms: int | None
    created_at_ms: int
    updated_at_ms: int

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.settings.name

    @property
    def is_paused(self) -> bool:
        """Whether nothing is claimed from it at present."""
        return self.paused_at_ms is not None


class QueueDepth(msgspec.Struct, frozen=True):
    """What is in a queue now, of this application and of none.

    `oldest_at_ms` is when the oldest ENQUEUED workflow was enqueued; `completed` counts what ended
    in the last `COMPLETED_WINDOW_MS`.
    """

    name: str
    enqueued: int
    delayed: int
    pending: int
    oldest_at_ms: int | None
    completed: int


COMPLETED_WINDOW_MS = 60_000
"""Over which time completions are counted."""


class Usage(msgspec.Struct, frozen=True):
    """How much of a limit is used: by PENDING workflows, and by the claims in a rate's window.

    `frees_at_ms` is when the window has room for one more claim if it has none now.
    """

    pending: int = 0
    claims: int = 0
    frees_at_ms: int | None = None


class PartitionHead(msgspec.Struct, frozen=True):
    """A partition with waiting work and what its limits are used by."""

    key: str
    usage: Usage


class Load(msgspec.Struct, frozen=True):
    """What this process runs of a queue, in all and for each partition key, and where it goes on.

    `after_key` is the last partition key the claim before looked at, so that no partition waits
    for ever behind others.
    """

    queue_name: str
    running: int
    by_partition: tuple[tuple[str, int], ...] = ()
    after_key: str = ""


class QueueTurn(msgspec.Struct, frozen=True):
    """What a claim found in one queue of limits the fleet shares.

    `contended`: another process was claiming from it, so nothing was looked at. `is_full`: a limit
    left no room; `frees_at_ms` says when there is some if that is known. `has_more`: there may be
    claimable work beyond what was taken or looked at, and room for it. `after_key` goes into the
    next `Load`.
    """

    queue_name: str
    taken: int = 0
    contended: bool = False
    is_full: bool = False
    frees_at_ms: int | None = None
    has_more: bool = False
    after_key: str = ""


class Swept(msgspec.Struct, frozen=True):
    """What one bounded sweep did.

    `moved` DELAYED workflows became ENQUEUED, in the queues named in `ready`; `expired` workflows,
    past their deadline, became CANCELLED. `next_at_ms` is when the next of either is due. `more`:
    there was more to do than one sweep does.
    """

    moved: int
    ready: tuple[str, ...]
    expired: tuple[WorkflowId, ...]
    next_at_ms: int | None
    more: bool
