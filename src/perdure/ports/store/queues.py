"""Registered queues: declared, read, changed, paused; and what is in them."""

from collections.abc import Callable, Sequence
from typing import Protocol

from perdure.model.queue import QueueDepth, QueueRow, QueueSettings

Registration = Callable[[QueueRow | None, bool], QueueSettings | None]
"""Decides what to store, from the row that stands (of any application) and from whether the
engine's version is the latest registered one; None leaves the row as it is."""

Change = Callable[[QueueRow], QueueSettings]
"""Decides what a registered queue becomes."""


class QueueStore(Protocol):
    """The shared `queues` table, and what of a queue it has no columns for, in our own schema.

    The internal queues have no row: one that stands under such a name is ignored everywhere. What
    is decided inside a transaction may raise; nothing is written then and the error passes through.
    """

    async def register_queue(self, name: str, version: str, decide: Registration) -> QueueRow:
        """Insert or change the queue of that name as `decide` says, and return its row.

        `decide` sees the row under its lock, so that two registrations follow one another; it may
        be called again if another process inserted the queue meanwhile. A row that no application
        owns becomes this application's, whatever is decided.
        """
        ...

    async def change_queue(self, name: str, decide: Change) -> QueueRow | None:
        """Change a queue as `decide` says under the row's lock; None if it is not registered.

        The lock is the one claims hold, so that a limit binds every claim that begins after this.
        Only rows of this application or of none are found; such a one becomes this application's.
        """
        ...

    async def pause_queue(self, name: str, *, paused: bool) -> QueueRow | None:
        """Let nothing be claimed from the queue, or again; None if it is not registered.

        Pausing a paused queue keeps the time since when it is.
        """
        ...

    async def delete_queue(self, name: str) -> bool:
        """Delete the queue's row, its settings and its rate log; says whether it was there.

        Its backlog stays.
        """
        ...

    async def queues(self, application: str | None = None) -> list[QueueRow]:
        """Every queue of that application, this one where it is None, or of none, by name.

        Used in no application's name the store finds the queues of all.
        """
        ...

    async def has_keyless(self, name: str) -> bool:
        """Whether something waits in the queue that has no partition key.

        Looks at the first thousand of what is ENQUEUED and of what is DELAYED.
        """
        ...

    async def queue_depths(self, names: Sequence[str]) -> list[QueueDepth]:
        """What is in each of these queues, registered or not, in the order asked."""
        ...
