"""Looking at queues and changing them while they are served."""

import builtins
from collections.abc import Callable, Sequence
from typing import Unpack

import msgspec
from msgspec.structs import replace

from perdure.api.options import refuse_unknown
from perdure.api.queue import Queue, QueueChanges, options_of
from perdure.engine.committer import Retry
from perdure.engine.queues import register_queue, warn_of_keyless
from perdure.errors import ConfigurationError, InvalidArgument, UnknownQueue
from perdure.logic.queues import OnConflict, check_name, check_settings, refuse_foreign
from perdure.model.queue import QueueDepth, QueueRow, QueueSettings
from perdure.ports.store import Store


def _tell_nobody() -> None:
    """A process that serves no queue: those that do see a change at their next heartbeat."""


class Operator(msgspec.Struct, frozen=True):
    """Who looks at queues and changes them: an application in some version, or a client in none.

    A client may be in no application's name: then it sees and changes those of all.
    """

    application: str | None
    version: str | None = None
    changed: Callable[[], None] = _tell_nobody


class Queues:
    """The registered queues of this application and of none.

    What is changed here holds for the whole fleet, from the next claim on. The internal queues are
    not among them.
    """

    def __init__(self, store: Store, retry: Retry, operator: Operator) -> None:
        self._store = store
        self._retry = retry
        self._operator = operator

    async def register(self, queue: Queue) -> QueueRow:
        """Register a queue, and return what is registered then.

        `queue.on_conflict` decides where one of that name is registered already. Raises
        `QueueOwnedByAnother` if it is another application's.
        """
        if not isinstance(queue, Queue):
            raise InvalidArgument(f"{queue!r:.40} is no Queue: write Queue(name)")
        operator = self._operator
        if operator.version is None and queue.on_conflict is OnConflict.UPDATE_IF_LATEST_VERSION:
            raise ConfigurationError(
                f"queue {queue.name!r}: a client has no version that could be the latest; give the "
                "queue on_conflict=OnConflict.ALWAYS_UPDATE or OnConflict.NEVER_UPDATE"
            )
        row = await register_queue(
            self._store,
            self._retry,
            queue.declaration,
            operator.application,
            operator.version or "",
        )
        operator.changed()
        return row

    async def get(self, name: str) -> QueueRow:
        """The queue of that name; raises `UnknownQueue`."""
        check_name(name)
        rows = await self.list()
        for row in rows:
            if row.name == name:
                return row
        raise _unknown(name, rows)

    async def list(self) -> builtins.list[QueueRow]:
        """Every registered queue, by name."""
        return await self._retry(self._store.queues, "reading the queues")

    async def update(self, name: str, **changes: Unpack[QueueChanges]) -> QueueRow:
        """Change options of a queue and leave the others as they are; None lifts a limit.

        Raises `ConfigurationError` if the queue could not be what it would become, and
        `UnknownQueue`. A queue stays partitioned without limits of its partitions until it is given
        `partitioned=False`. What waits without a key in a queue that becomes partitioned is never
        begun: a warning says so.
        """
        check_name(name)
        refuse_unknown(changes, QueueChanges, ConfigurationError)

        was_partitioned = False

        def decide(standing: QueueRow) -> QueueSettings:
            nonlocal was_partitioned
            was_partitioned = standing.settings.partitioned
            refuse_foreign(standing, self._operator.application)
            return _changed(standing.settings, changes)

        row = await self._retry(
            lambda: self._store.change_queue(name, decide), f"changing queue {name!r}"
        )
        changed = await self._told(name, row)
        if changed.settings.partitioned and not was_partitioned:
            await warn_of_keyless(self._store, self._retry, name)
        return changed

    async def pause(self, name: str) -> QueueRow:
        """Let nothing more be started from a queue; what runs goes on, and calls may be enqueued.

        Pausing a paused queue changes nothing. Raises `UnknownQueue`.
        """
        return await self._pause(name, paused=True)

    async def resume(self, name: str) -> QueueRow:
        """Let a paused queue be served again; raises `UnknownQueue`."""
        return await self._pause(name, paused=False)

    async def delete(self, name: str) -> bool:
        """Delete a queue; says whether it was registered.

        What waits in it stays, and goes on when a queue of that name is registered again.
        """
        check_name(name)
        deleted = await self._retry(
            lambda: self._store.delete_queue(name), f"deleting queue {name!r}"
        )
        if deleted:
            self._operator.changed()
        return deleted

    async def depth(self, name: str) -> QueueDepth:
        """What is in a queue now, whether or not one of that name is registered."""
        return (await self._depths([name]))[0]

    async def depths(self) -> builtins.list[QueueDepth]:
        """What is in each registered queue now, by name."""
        return await self._depths([row.name for row in await self.list()])

    async def _depths(self, names: Sequence[str]) -> builtins.list[QueueDepth]:
        return await self._retry(lambda: self._store.queue_depths(names), "looking into queues")

    async def _pause(self, name: str, *, paused: bool) -> QueueRow:
        check_name(name)
        row = await self._retry(
            lambda: self._store.pause_queue(name, paused=paused), f"pausing queue {name!r}"
        )
        return await self._told(name, row)

    async def _told(self, name: str, row: QueueRow | None) -> QueueRow:
        """The row of a queue that was changed, once everybody was told; None is none of ours."""
        if row is None:
            raise _unknown(name, await self.list())
        self._operator.changed()
        return row


def _changed(standing: QueueSettings, changes: QueueChanges) -> QueueSettings:
    options: QueueChanges = {**options_of(standing), **changes}
    changed = Queue(standing.name, **options).settings
    if changes.get("partitioned") is False:
        # A limit that the queue has, or is given here, would make it partitioned again.
        changed = check_settings(replace(changed, partitioned=False))
    return changed


def _unknown(name: str, rows: Sequence[QueueRow]) -> UnknownQueue:
    return UnknownQueue(name, [row.name for row in rows])
