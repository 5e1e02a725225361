"""Hints between processes: after a write, coalesced, and never waited for.

A hint makes another process look at once instead of at its next heartbeat; nothing depends on its
arrival. Each begins with its sender, so that nobody acts on his own.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec

from perdure.engine.services import Loop, Tasks
from perdure.errors import DatabaseError
from perdure.model.ids import WorkflowId
from perdure.ports.ids import Ids
from perdure.ports.store import Store
from perdure.ports.store.hints import EVERYTHING

log = logging.getLogger("perdure")

LONGEST_FLUSH_S = 1.0

PAUSE_S = 0.005
"""After a hint that came so soon after another; what is announced meanwhile goes out together. Who
enqueues and waits says two things, and nothing more."""

_TOGETHER_BYTES = 7000
"""Of the ids in one hint; a longer payload could not be sent."""


class HintKind(StrEnum):
    """What a hint is about."""

    WORK = "+"
    """Work arrived in a queue."""

    ROOM = "-"
    """A place was freed in a queue with limits that the fleet shares."""

    WANTED = "?"
    """Somebody waits for such a place."""

    AWAITED = "!"
    """Somebody waits for these workflows to end."""

    ENDED = "."
    """These workflows, for which somebody waited, have ended."""

    LISTENING = "&"
    """A process begins to listen: who waits for workflows says so again."""

    SEEN = "~"
    """Never sent: the store saw work in a queue after somebody's commit, whatever that did."""

    TAKEN = "^"
    """These workflows were cancelled, resumed, rewound or deleted; many, where none is named."""

    ALL = "*"
    """Queues were changed, or many things happened: look everywhere."""


class Hint(NamedTuple):
    """One hint; `queue` is empty where it is about all queues, or about workflows."""

    kind: HintKind
    queue: str = ""
    workflows: tuple[WorkflowId, ...] = ()


class Hints(Loop):
    """Sends hints, and reads those of others."""

    def __init__(self, tasks: Tasks, store: Store, ids: Ids) -> None:
        super().__init__(tasks, "hints")
        self._store = store
        self._sender = ids.token()[:8]
        self._waiting: dict[Hint, None] = {}
        self._workflows: dict[HintKind, dict[WorkflowId, None]] = {}
        self._sent_s = -math.inf

    def announce(self, kind: HintKind, queue: str = "") -> None:
        """Tell the other processes, soon."""
        if self._store.capabilities.listen:
            self._waiting[Hint(kind, queue)] = None
            self.wake()

    def announce_workflow(self, kind: HintKind, workflow_id: WorkflowId) -> None:
        """The same about a workflow; many are named in one hint."""
        if self._store.capabilities.listen:
            self._workflows.setdefault(kind, {})[workflow_id] = None
            self.wake()

    async def turn(self) -> float | None:
        """Send what was announced; a hint that cannot be sent is dropped."""
        texts = self._take()
        if texts:
            try:
                await self._store.announce(texts)
            except DatabaseError as error:
                log.debug("hints were not sent: %s", error)
            before_s, self._sent_s = self._sent_s, asyncio.get_running_loop().time()
            if self._sent_s - before_s < PAUSE_S:
                await asyncio.sleep(PAUSE_S)
        return None

    def _take(self) -> list[str]:
        """What waits to be sent, as it is sent."""
        waiting, self._waiting = self._waiting, {}
        workflows, self._workflows = self._workflows, {}
        bodies = [f"{hint.kind}{hint.queue}" for hint in waiting]
        bodies += [f"{kind}{ids}" for kind, named in workflows.items() for ids in _packed(named)]
        return [self._sender + body for body in bodies]

    async def flush(self) -> None:
        """Send what is left: before a stop, for nobody will look after it."""
        if self._waiting or self._workflows:
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
        if kind in _OF_WORKFLOWS:
            return Hint(HintKind(kind), workflows=_unpacked(about) if about else ())
        return Hint(HintKind(kind), about)


_KINDS = frozenset(HintKind)
_OF_WORKFLOWS = frozenset({HintKind.AWAITED, HintKind.ENDED, HintKind.TAKEN})


def _packed(ids: Iterable[WorkflowId]) -> Iterator[str]:
    """Any text may be an id, hence JSON."""
    together: list[str] = []
    size = 0
    for each in ids:
        text = msgspec.json.encode(each).decode()
        length = len(text.encode()) + 1
        if together and size + length > _TOGETHER_BYTES:
            yield f"[{','.join(together)}]"
            together, size = [], 0
        together.append(text)
        size += length
    yield f"[{','.join(together)}]"


def _unpacked(text: str) -> tuple[WorkflowId, ...]:
    try:
        return tuple(map(WorkflowId, msgspec.json.decode(text, type=list[str])))
    except msgspec.MsgspecError:
        return ()
