"""The registered queues, as this process knows them, and what it runs of each."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from perdure.engine.committer import Retry
from perdure.errors import UnknownQueue
from perdure.logic.queues import OnConflict, registered
from perdure.model.queue import QueueRow, QueueSettings
from perdure.model.wire import INTERNAL_QUEUES
from perdure.ports.clock import Clock
from perdure.ports.store import QueueStore

log = logging.getLogger("perdure")


class QueueDeclaration(NamedTuple):
    """A queue to register, and what is to happen if one of that name is registered already."""

    settings: QueueSettings
    on_conflict: OnConflict


async def register_queue(
    store: QueueStore,
    retry: Retry,
    declared: QueueDeclaration,
    application: str | None,
    version: str,
) -> QueueRow:
    """Register a queue for an application in whose name a process of that version works."""
    was_partitioned = False

    def decide(standing: QueueRow | None, is_latest: bool) -> QueueSettings | None:  # noqa: FBT001 - the port's
        nonlocal was_partitioned
        was_partitioned = standing is not None and standing.settings.partitioned
        return registered(
            declared.settings,
            standing,
            declared.on_conflict,
            is_latest=is_latest,
            application=application,
        )

    name = declared.settings.name
    row = await retry(
        lambda: store.register_queue(name, version, decide), f"registering queue {name!r}"
    )
    if row.settings.partitioned and not was_partitioned:
        await warn_of_keyless(store, retry, name)
    return row


async def warn_of_keyless(store: QueueStore, retry: Retry, name: str) -> None:
    """A queue has partitions from now on: what waits in it without a key would do so in silence."""
    if await retry(lambda: store.has_keyless(name), f"looking into queue {name!r}"):
        log.warning(
            "queue %r is partitioned now, and workflows wait in it that have no partition key: "
            "nothing begins them; cancel them and enqueue them with partition_key=",
            name,
        )


class RegisteredQueues:
    """What the database says of the queues; read again whenever a heartbeat shows that it changed.

    `listen` narrows which of them this process serves; the internal queues always are.
    """

    def __init__(self, store: QueueStore, retry: Retry, listen: Iterable[str] | None) -> None:
        self._store = store
        self._retry = retry
        self._listen = None if listen is None else frozenset(listen)
        self._rows: dict[str, QueueRow] = {}
        self._served: tuple[str, ...] = INTERNAL_QUEUES
        self._news: dict[str, None] = {}
        self._strange: set[str] = set()
        self._digest = ""
        self._changes = 1
        self._read = 0
        self._reading = asyncio.Lock()

    @property
    def served(self) -> tuple[str, ...]:
        """The queues this process claims from: neither paused nor left out."""
        return self._served

    @property
    def is_stale(self) -> bool:
        """Whether the database is known to say something else by now."""
        return self._read < self._changes

    def known(self, name: str) -> QueueRow | None:
        """The queue of that name as it was last read."""
        return self._rows.get(name)

    def is_known(self, name: str) -> bool:
        """Whether there is such a queue, as far as this process knows."""
        return name in self._rows or name in INTERNAL_QUEUES

    def may_be(self, name: str) -> bool:
        """Whether that is a queue of this application, or may be one that was registered since.

        What may be is read, once: much may be heard of a queue of another application.
        """
        if self.is_known(name):
            return True
        if name in self._strange:
            return False
        self._strange.add(name)
        self._changes += 1
        return True

    def see(self, digest: str) -> None:
        """Compare with what a heartbeat saw."""
        if digest != self._digest:
            self._digest = digest
            self.distrust()

    def distrust(self) -> None:
        """Somebody changed a queue."""
        self._changes += 1
        self._strange.clear()

    def news(self) -> list[str]:
        """The queues that are served since the last call and were not, or were otherwise."""
        news, self._news = self._news, {}
        return [name for name in news if name in self._served]

    async def refresh(self) -> None:
        """Read every queue, whoever else is about to."""
        async with self._reading:
            # What changes during the read is read again.
            changes = self._changes
            rows = await self._retry(self._store.queues, "reading the queues")
            self._read = changes
            before, was_served = self._rows, frozenset(self._served)
            self._rows = {row.name: row for row in rows}
            served = [row for row in rows if self._is_served(row)]
            self._served = (*INTERNAL_QUEUES, *(row.name for row in served))
            for row in served:
                if row.name not in was_served or before[row.name].settings != row.settings:
                    self._news[row.name] = None

    async def require(self, name: str) -> QueueRow:
        """The queue of that name; the database is asked once before `UnknownQueue` is raised."""
        row = self._rows.get(name)
        if row is None:
            await self.refresh()
            row = self._rows.get(name)
        if row is None:
            raise UnknownQueue(name, sorted(self._rows))
        return row

    def _is_served(self, row: QueueRow) -> bool:
        return not row.is_paused and (self._listen is None or row.name in self._listen)


class RecentQueues(RegisteredQueues):
    """What a process knows that serves no queue and hears of no change: it asks every second."""

    def __init__(self, store: QueueStore, retry: Retry, clock: Clock) -> None:
        super().__init__(store, retry, ())
        self._clock = clock
        self._read_at_s = -math.inf

    @property
    def is_stale(self) -> bool:
        """Whether what is known is too old to go by."""
        return self._clock.monotonic() - self._read_at_s > _TRUSTED_S

    async def refresh(self) -> None:
        """Read every queue."""
        asked_at_s = self._clock.monotonic()
        await super().refresh()
        self._read_at_s = asked_at_s


_TRUSTED_S: Final = 1.0


class Tally:
    """How many workflows of each queue, and of each partition of it, this process has claimed."""

    def __init__(self) -> None:
        self._by_queue: Counter[str] = Counter()
        self._by_partition: dict[str, Counter[str]] = {}

    def running(self, queue: str) -> int:
        """How many of the queue."""
        return self._by_queue[queue]

    def by_partition(self, queue: str) -> Mapping[str, int]:
        """How many of each of its partitions; those with none are left out."""
        return self._by_partition.get(queue, {})

    def add(self, queue: str, partition: str | None) -> None:
        """One was claimed."""
        self._by_queue[queue] += 1
        if partition is not None:
            self._by_partition.setdefault(queue, Counter())[partition] += 1

    def remove(self, queue: str, partition: str | None) -> None:
        """One is not this process's any more."""
        _take_one(self._by_queue, queue)
        if partition is not None:
            partitions = self._by_partition[queue]
            _take_one(partitions, partition)
            if not partitions:
                del self._by_partition[queue]


def _take_one(counter: Counter[str], name: str) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]
