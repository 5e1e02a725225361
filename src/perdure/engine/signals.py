"""Waiting for what others say: one shared wait for everyone in the process.

Whoever waits subscribes first and looks then, so that nothing arrives in between unseen. A hint
makes a subscriber look again; the truth is a poll that asks about everything that is waited for,
in one statement of each kind, however many wait.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from perdure.engine.committer import Retry
from perdure.engine.polling import Polling
from perdure.engine.services import Loop, Tasks
from perdure.model.ids import WorkflowId
from perdure.model.status import ACTIVE
from perdure.model.talk import Key, Topic
from perdure.ports.store import Store
from perdure.ports.store.hints import EVENT, MESSAGE, STREAM
from perdure.ports.store.streams import Reading


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

    @property
    def hints(self) -> tuple[str, ...]:
        """All that makes its subscribers look."""
        return (self.hint, _end_of(self.workflow_id)) if self.is_followed else (self.hint,)

    @property
    def is_followed(self) -> bool:
        """Whether the end of the workflow matters as well."""
        return self.kind == STREAM


def _end_of(workflow_id: WorkflowId) -> str:
    """The hint within the process that a workflow has ended; for another key it costs a look."""
    return f"{STREAM}{workflow_id}"


class Subscription:
    """One waiter's ear. A patient one hears on while the engine stops: its run ends by itself."""

    __slots__ = ("_failure", "_heard", "interest", "is_patient")

    def __init__(self, interest: Interest, *, is_patient: bool) -> None:
        self.interest = interest
        self.is_patient = is_patient
        self._heard = asyncio.Event()
        self._failure: BaseException | None = None

    @property
    def is_heard(self) -> bool:
        """Whether there is reason to look."""
        return self._heard.is_set()

    def hear(self) -> None:
        """Look again."""
        self._heard.set()

    def fail(self, error: BaseException) -> None:
        """Nobody will say anything any more."""
        self._failure = error
        self._heard.set()

    def clear(self) -> None:
        """From here on a hint counts: said before looking."""
        if self._failure is not None:
            raise self._failure
        self._heard.clear()

    async def wait(self) -> None:
        """Wait until there is reason to look."""
        await self._heard.wait()


class _End(NamedTuple):
    """Who hears nothing any more, and why."""

    error: Callable[[WorkflowId], BaseException]
    of_all: bool

    def tell(self, subscription: Subscription) -> None:
        if self.of_all or not subscription.is_patient:
            subscription.fail(self.error(subscription.interest.workflow_id))


class Signals(Loop):
    """Every subscription of the process, and the poll behind them.

    With `is_told` hints of other processes arrive, so that the poll need not be frequent.
    """

    def __init__(self, tasks: Tasks, store: Store, retry: Retry, *, is_told: bool) -> None:
        super().__init__(tasks, "signals")
        self._store = store
        self._retry = retry
        self._by_hint: dict[str, set[Subscription]] = {}
        self._polling = Polling(is_told=is_told)
        self._on_begin: Callable[[Interest], None] | None = None
        self._end: _End | None = None

    def when_begun(self, callback: Callable[[Interest], None]) -> None:
        """Have `callback` called whenever somebody begins to wait."""
        self._on_begin = callback

    @property
    def followed(self) -> set[WorkflowId]:
        """The workflows whose streams are followed."""
        return {
            each.interest.workflow_id
            for every in self._by_hint.values()
            for each in every
            if each.interest.is_followed
        }

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len({each for every in self._by_hint.values() for each in every})

    @contextmanager
    def listening(self, interest: Interest, *, is_patient: bool) -> Iterator[Subscription]:
        """A subscription for as long as the block lasts; look once before waiting."""
        subscription = Subscription(interest, is_patient=is_patient)
        if self._end is not None:
            self._end.tell(subscription)
        for hint in interest.hints:
            self._by_hint.setdefault(hint, set()).add(subscription)
        if self._on_begin is not None:
            self._on_begin(interest)
        if self._polling.begin_anew():
            self.wake()
        try:
            yield subscription
        finally:
            for hint in interest.hints:
                others = self._by_hint[hint]
                others.discard(subscription)
                if not others:
                    del self._by_hint[hint]

    def hear(self, hint: str) -> None:
        """Something was said: whoever waits for it looks."""
        for subscription in self._by_hint.get(hint, ()):
            subscription.hear()

    def hear_all(self) -> None:
        """Hints may have been missed: the poll finds what they would have said."""
        if self._polling.within(0.0):
            self.wake()

    def hear_every(self, kind: str) -> None:
        """Whoever waits for something of that kind looks."""
        for subscriptions in self._by_hint.values():
            for each in subscriptions:
                if each.interest.kind == kind:
                    each.hear()

    def hear_end(self, workflow_id: WorkflowId) -> None:
        """A workflow has ended: whoever follows its streams looks."""
        self.hear(_end_of(workflow_id))

    def end_waits(self, error: Callable[[WorkflowId], BaseException], *, patient: bool) -> None:
        """End the waits of those who are not patient, or of all, and those that begin later."""
        self._end = _End(error, patient)
        for subscriptions in self._by_hint.values():
            for each in subscriptions:
                self._end.tell(each)

    async def turn(self) -> float | None:
        """Ask about everything that is waited for, if it is time."""
        interests = {each.interest for every in self._by_hint.values() for each in every}
        if not interests:
            self._polling.pause()
            return None
        left_s = self._polling.left_s()
        if left_s > 0:
            return left_s
        with self._polling.asking():
            for found in await self._ask(interests):
                self.hear(found.hint)
        return self._polling.left_s()

    async def _ask(self, interests: set[Interest]) -> list[Interest]:
        topics = [Topic(each.workflow_id, each.name) for each in interests if each.kind == MESSAGE]
        keys = [Key(each.workflow_id, each.name) for each in interests if each.kind == EVENT]
        streams = [each for each in interests if each.is_followed]
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
