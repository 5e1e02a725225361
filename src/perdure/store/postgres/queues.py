"""Registered queues: declared, read, changed, paused; and what is in them."""

from collections.abc import Sequence
from typing import Final

from perdure.errors import DatabaseConflict
from perdure.logic.queues import is_foreign
from perdure.model.queue import COMPLETED_WINDOW_MS, QueueDepth, QueueRow, QueueSettings
from perdure.model.wire import INTERNAL_QUEUES
from perdure.ports.store.queues import Change, Registration
from perdure.store import rows
from perdure.store.postgres.concern import Access, Concern
from perdure.store.postgres.lanes import Record, Transaction

_TRIES: Final = 20
"""How often a queue may come or go between two statements of one registration."""


class Queues(Concern):
    """`QueueStore`."""

    async def register_queue(self, name: str, version: str, decide: Registration) -> QueueRow:
        """See `perdure.ports.store.QueueStore.register_queue`."""
        for _ in range(_TRIES):
            async with self._database.transaction() as transaction:
                found = await _Registry(self._access, transaction).registered(name, version, decide)
            if found is not None:
                return found
        raise DatabaseConflict(f"others keep inserting and deleting the queue {name!r}")

    async def change_queue(self, name: str, decide: Change) -> QueueRow | None:
        """See `perdure.ports.store.QueueStore.change_queue`."""
        async with self._database.transaction() as transaction:
            registry = _Registry(self._access, transaction)
            standing = await registry.own(name)
            if standing is None:
                return None
            await registry.update(name, decide(standing))
            return await registry.read(name)

    async def pause_queue(self, name: str, *, paused: bool) -> QueueRow | None:
        """See `perdure.ports.store.QueueStore.pause_queue`."""
        async with self._database.transaction() as transaction:
            registry = _Registry(self._access, transaction)
            standing = await registry.own(name)
            if standing is None:
                return None
            if standing.is_paused != paused:
                await registry.fetch("pause_queue", name, paused, self._database.offset_ms)
                await registry.fetch("touch_queue", name, self._database.offset_ms)
            return await registry.read(name)

    async def delete_queue(self, name: str) -> bool:
        """See `perdure.ports.store.QueueStore.delete_queue`."""
        async with self._database.transaction() as transaction:
            registry = _Registry(self._access, transaction)
            deleted = await registry.fetch("delete_queue", name, self._application)
            if deleted:
                await registry.fetch("delete_queue_settings", name)
                await registry.fetch("delete_rate_log", name)
            return bool(deleted)

    async def queues(self, application: str | None = None) -> list[QueueRow]:
        """See `perdure.ports.store.QueueStore.queues`."""
        found = await self._database.fetch("queues", application or self._application)
        return [rows.queue_row(row) for row in found]

    async def has_keyless(self, name: str) -> bool:
        """See `perdure.ports.store.QueueStore.has_keyless`."""
        return bool(await self._database.fetch("keyless_waiting", name, self._application))

    async def queue_depths(self, names: Sequence[str]) -> list[QueueDepth]:
        """See `perdure.ports.store.QueueStore.queue_depths`."""
        found = await self._database.fetch(
            "queue_depths",
            list(names),
            self._application,
            COMPLETED_WINDOW_MS,
            self._database.offset_ms,
        )
        return [rows.queue_depth(row) for row in found]


class _Registry:
    """The queues inside one transaction."""

    def __init__(self, access: Access, transaction: Transaction) -> None:
        self._queries = access.database.queries
        self._offset_ms = access.database.offset_ms
        self._application = access.application
        self._transaction = transaction

    async def fetch(self, query: str, *arguments: object) -> list[Record]:
        return await self._transaction.fetch(self._queries[query], *arguments)

    async def registered(self, name: str, version: str, decide: Registration) -> QueueRow | None:
        """The queue as it is afterwards; None if another process inserted it meanwhile."""
        (latest,) = await self.fetch("is_latest_version", version, self._application)
        standing = await self._locked(name)
        wanted = decide(standing, latest["is_latest"])
        if standing is not None:
            await self._write(standing, wanted)
        elif wanted is None:
            raise ValueError(f"the queue {name!r} is not registered and nothing is to be stored")
        elif not await self._insert(wanted):
            return None
        return await self.read(name)

    async def own(self, name: str) -> QueueRow | None:
        """The queue under its lock, unless it is another application's."""
        standing = None if name in INTERNAL_QUEUES else await self._locked(name)
        if standing is None or is_foreign(standing, self._application):
            return None
        return standing

    async def read(self, name: str) -> QueueRow | None:
        """The queue as it stands."""
        found = await self.fetch("queue", name)
        return rows.queue_row(found[0]) if found else None

    async def update(self, name: str, settings: QueueSettings) -> None:
        """Make the queue what is wanted."""
        await self.fetch("update_queue", *self._values(name, settings))
        await self._store_settings(name, settings)

    async def _locked(self, name: str) -> QueueRow | None:
        if not await self.fetch("lock_queue", name):
            return None
        return await self.read(name)

    async def _write(self, standing: QueueRow, wanted: QueueSettings | None) -> None:
        if wanted is not None:
            await self.update(standing.name, wanted)
        elif standing.application_name is None:
            await self.fetch("adopt_queue", standing.name, self._application, self._offset_ms)

    async def _insert(self, settings: QueueSettings) -> bool:
        name = settings.name
        if not await self.fetch("insert_queue", *self._values(name, settings)):
            return False
        # Another program may have deleted a queue of that name without knowing of these.
        await self.fetch("delete_queue_settings", name)
        await self._store_settings(name, settings)
        return True

    async def _store_settings(self, name: str, settings: QueueSettings) -> None:
        await self.fetch(
            "upsert_queue_settings", name, settings.partitioned, settings.max_polling_interval_s
        )

    def _values(self, name: str, settings: QueueSettings) -> tuple[object, ...]:
        return (name, self._application, self._offset_ms, *rows.limit_values(settings))
