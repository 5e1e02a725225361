"""Registered queues: declared, read, changed, paused; and what is in them."""

import uuid
from collections.abc import Mapping, Sequence

from perdure.logic.queues import is_foreign
from perdure.model.queue import COMPLETED_WINDOW_MS, QueueDepth, QueueRow, QueueSettings
from perdure.model.wire import INTERNAL_QUEUES
from perdure.ports.store.queues import Change, Registration
from perdure.store import rows
from perdure.store.sqlite.concern import Concern
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.instants import wall_clock_ms
from perdure.store.sqlite.transaction import Transaction


class Queues(Concern):
    """`QueueStore`."""

    async def register_queue(self, name: str, version: str, decide: Registration) -> QueueRow:
        """See `perdure.ports.store.QueueStore.register_queue`."""

        def work(transaction: Transaction) -> QueueRow:
            standing = standing_queue(transaction, self._queries, name)
            ((is_latest,),) = transaction.rows(
                self._queries["is_latest_version"],
                {"application": self._application, "version": version},
            )
            wanted = decide(standing, bool(is_latest))
            if wanted is not None:
                self._store(transaction, wanted, is_new=standing is None)
            else:
                adopted = (name, self._application, transaction.now_ms)
                transaction.change(self._queries["adopt_queue"], adopted)
            return self._stored(transaction, name)

        return await self._database.write(work)

    async def change_queue(self, name: str, decide: Change) -> QueueRow | None:
        """See `perdure.ports.store.QueueStore.change_queue`."""

        def work(transaction: Transaction) -> QueueRow | None:
            queue = self._registered(transaction, name)
            if queue is None:
                return None
            self._store(transaction, decide(queue), is_new=False)
            return self._stored(transaction, name)

        return await self._database.write(work)

    async def pause_queue(self, name: str, *, paused: bool) -> QueueRow | None:
        """See `perdure.ports.store.QueueStore.pause_queue`."""

        def work(transaction: Transaction) -> QueueRow | None:
            standing = self._registered(transaction, name)
            if standing is None:
                return None
            if standing.is_paused != paused:
                since_ms = transaction.now_ms if paused else None
                transaction.change(self._queries["pause_queue"], (name, since_ms))
                transaction.change(self._queries["touch_queue"], (name, transaction.now_ms))
            return self._stored(transaction, name)

        return await self._database.write(work)

    async def delete_queue(self, name: str) -> bool:
        """See `perdure.ports.store.QueueStore.delete_queue`."""

        def work(transaction: Transaction) -> bool:
            if self._registered(transaction, name) is None:
                return False
            for query in ("delete_queue_settings", "delete_rate_log", "delete_queue"):
                transaction.change(self._queries[query], (name,))
            return True

        return await self._database.write(work)

    async def queues(self, application: str | None = None) -> list[QueueRow]:
        """See `perdure.ports.store.QueueStore.queues`."""

        def work(connection: Connection) -> list[QueueRow]:
            asked = {"application": application or self._application}
            found = map(rows.queue_row, connection.rows(self._queries["queues"], asked))
            return [queue for queue in found if queue.name not in INTERNAL_QUEUES]

        return await self._database.read(work)

    async def has_keyless(self, name: str) -> bool:
        """See `perdure.ports.store.QueueStore.has_keyless`."""
        asked = {"name": name, "application": self._application}

        def work(connection: Connection) -> bool:
            return bool(connection.rows(self._queries["keyless_waiting"], asked))

        return await self._database.read(work)

    async def queue_depths(self, names: Sequence[str]) -> list[QueueDepth]:
        """See `perdure.ports.store.QueueStore.queue_depths`."""
        since_ms = wall_clock_ms(self._access.clock) - COMPLETED_WINDOW_MS

        def work(connection: Connection) -> list[QueueDepth]:
            asked = {"application": self._application, "since": since_ms}
            found = [
                connection.rows(self._queries["queue_depths"], {**asked, "name": name})
                for name in names
            ]
            return [rows.queue_depth(row) for (row,) in found]

        return await self._database.read(work)

    def _registered(self, transaction: Transaction, name: str) -> QueueRow | None:
        return registered_queue(transaction, self._queries, name, self._application)

    def _store(self, transaction: Transaction, settings: QueueSettings, *, is_new: bool) -> None:
        if is_new:
            # Another program may have deleted a queue of that name, which knew nothing of ours.
            transaction.change(self._queries["delete_queue_settings"], (settings.name,))
        transaction.change(
            self._queries["upsert_queue"],
            (
                str(uuid.uuid4()),
                settings.name,
                *rows.limit_values(settings),
                self._application,
                transaction.now_ms,
            ),
        )
        transaction.change(
            self._queries["upsert_queue_settings"],
            (settings.name, settings.partitioned, settings.max_polling_interval_s),
        )

    def _stored(self, transaction: Transaction, name: str) -> QueueRow:
        queue = standing_queue(transaction, self._queries, name)
        if queue is None:
            raise ValueError(f"queue {name!r} is not registered and nothing is to be stored")
        return queue


def standing_queue(
    source: Transaction | Connection, queries: Mapping[str, str], name: str
) -> QueueRow | None:
    """The queue of that name, of whatever application; the internal ones have none."""
    if name in INTERNAL_QUEUES:
        return None
    row = source.row(queries["queue"], {"name": name})
    return None if row is None else rows.queue_row(row)


def registered_queue(
    source: Transaction | Connection, queries: Mapping[str, str], name: str, application: str | None
) -> QueueRow | None:
    """The queue of that name, unless it is another application's."""
    queue = standing_queue(source, queries, name)
    if queue is None or is_foreign(queue, application):
        return None
    return queue
