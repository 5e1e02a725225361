"""Hints between processes: after a write, coalesced, and never waited for.

A hint makes another process look at once instead of at its next heartbeat; nothing depends on its
arrival. Each begins with its sender, so that nobody acts on his own.
"""

import asyncio
import contextlib
import logging
from enum import StrEnum
from typing import NamedTuple

from perdure.engine.services import Loop, Tasks
from perdure.errors import DatabaseError
from perdure.ports.ids import Ids
from perdure.ports.store import Store
from perdure.ports.store.hints import EVERYTHING

log = logging.getLogger("perdure")

LONGEST_FLUSH_S = 1.0

PAUSE_S = 0.005
"""What is announced within this time of another hint goes out together."""


class HintKind(StrEnum):
    """What a hint is about."""

    WORK = "+"
    """Work arrived in a queue."""

    ROOM = "-"
    """A place was freed in a queue with limits that the fleet shares."""

    WANTED = "?"
    """Somebody waits for such a place."""

    SEEN = "~"
    """Never sent: the store saw work in a queue after somebody's commit, whatever that did."""

    TAKEN = "!"
    """A workflow was cancelled, resumed, rewound or deleted; many, where none is named."""

    ALL = "*"
    """Queues were changed, or many things happened: look everywhere."""


class Hint(NamedTuple):
    """One hint; `about` is the queue or the workflow, empty where it is about all of them."""

    kind: HintKind
    about: str = ""


class Hints(Loop):
    """Sends hints, and reads those of others."""

    def __init__(self, tasks: Tasks, store: Store, ids: Ids) -> None:
        super().__init__(tasks, "hints")
        self._store = store
        self._sender = ids.token()[:8]
        self._waiting: dict[Hint, None] = {}

    def announce(self, kind: HintKind, about: str = "") -> None:
        """Tell the other processes, soon."""
        if self._store.capabilities.listen:
            self._waiting[Hint(kind, about)] = None
            self.wake()

    async def turn(self) -> float | None:
        """Send what was announced; a hint that cannot be sent is dropped."""
        waiting, self._waiting = self._waiting, {}
        if waiting:
            texts = [f"{self._sender}{hint.kind}{hint.about}" for hint in waiting]
            try:
                await self._store.announce(texts)
            except DatabaseError as error:
                log.debug("hints were not sent: %s", error)
            await asyncio.sleep(PAUSE_S)
        return None

    async def flush(self) -> None:
        """Send what is left: before a stop, for nobody will look after it."""
        if self._waiting:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_FLUSH_S):
                    await self.turn()

    def read(self, text: str) -> Hint | None:
        """What a hint says; None for one's own and for what nobody here understands."""
        sender, kind, about = text[:8], text[8:9], text[9:]
        if text == EVERYTHING:
            return Hint(HintKind.ALL)
        if text.startswith(HintKind.WORK):
            # There is no sender.
            return Hint(HintKind.SEEN, text[1:])
        if sender == self._sender or kind not in _KINDS:
            return None
        return Hint(HintKind(kind), about)


_KINDS = frozenset(HintKind)
