"""Waiting for what others say: one shared wait for everyone in the process.

Whoever waits subscribes first and looks then, so that nothing arrives in between unseen. A hint
makes a subscriber look again; the truth is a poll that asks about everything that is waited for,
in one statement of each kind, however many wait.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from perdure.engine.committer import Retry
from perdure.engine.services import Loop, Tasks
from perdure.model.ids import WorkflowId
from perdure.model.status import ACTIVE
from perdure.model.talk import Key, Topic
from perdure.ports.store import Store
from perdure.ports.store.hints import EVENT, MESSAGE, STREAM
from perdure.ports.store.streams import Reading

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 1.0


class Interest(NamedTuple):
    """What somebody waits for; of a stream, values from `offset` on or its writer's end."""

    kind: str
    workflow_id: WorkflowId
    name: str
    offset: int = 0

    @property
    def hint(self) -> str:
        """How a hint about it reads."""
        return f"{self.kind}{self.workflow_id}::{self.name}"


class Subscription:
    """One waiter's ear."""

    __slots__ = ("_heard", "interest")

    def __init__(self, interest: Interest) -> None:
        self.interest = interest
        self._heard = asyncio.Event()

    def hear(self) -> None:
        """Look again."""
        self._heard.set()

    def clear(self) -> None:
        """From here on a hint counts: said before looking."""
        self._heard.clear()

    async def wait(self) -> None:
        """Wait until there is reason to look."""
        await self._heard.wait()


class Signals(Loop):
    """Every subscription of the process, and the poll behind them."""

    def __init__(self, tasks: Tasks, store: Store, retry: Retry) -> None:
        super().__init__(tasks, "signals")
        self._store = store
        self._retry = retry
        self._by_hint: dict[str, set[Subscription]] = {}
        self._pause_s = FIRST_PAUSE_S

    @contextmanager
    def listening(self, interest: Interest) -> Iterator[Subscription]:
        """A subscription for as long as the block lasts; look once before waiting."""
        subscription = Subscription(interest)
        hint = interest.hint
        self._by_hint.setdefault(hint, set()).add(subscription)
        self._pause_s = FIRST_PAUSE_S
        self.wake()
        try:
            yield subscription
        finally:
            others = self._by_hint[hint]
            others.discard(subscription)
            if not others:
                del self._by_hint[hint]

    def hear(self, hint: str) -> None:
        """Something was said: whoever waits for it looks."""
        for subscription in self._by_hint.get(hint, ()):
            subscription.hear()

    def hear_all(self) -> None:
        """Hints may have been missed."""
        for subscriptions in self._by_hint.values():
            for subscription in subscriptions:
                subscription.hear()

    async def turn(self) -> float | None:
        """Ask about everything that is waited for."""
        interests = {each.interest for every in self._by_hint.values() for each in every}
        if not interests:
            return None
        for found in await self._ask(interests):
            self.hear(found.hint)
        pause_s = self._pause_s
        self._pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)
        return pause_s

    async def _ask(self, interests: set[Interest]) -> list[Interest]:
        topics = [Topic(each.workflow_id, each.name) for each in interests if each.kind == MESSAGE]
        keys = [Key(each.workflow_id, each.name) for each in interests if each.kind == EVENT]
        streams = [each for each in interests if each.kind == STREAM]
        found: list[Interest] = []
        if topics:
            full = await self._retry(
                lambda: self._store.topics_with_messages(topics), "looking for messages"
            )
            found += [Interest(MESSAGE, *topic) for topic in full]
        if keys:
            events = await self._retry(lambda: self._store.events(keys), "looking for events")
            found += [Interest(EVENT, event.workflow_id, event.key) for event in events]
        if streams:
            readings = [
                Reading(Key(each.workflow_id, each.name), each.offset, 1) for each in streams
            ]
            pages = await self._retry(
                lambda: self._store.stream_pages(readings), "looking for stream values"
            )
            found += [
                interest
                for interest, page in zip(streams, pages, strict=True)
                if page.rows or page.state not in ACTIVE
            ]
        return found
