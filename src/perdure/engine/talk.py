"""The lanes of what workflows say, and who hears it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import ClassVar, TypeVar

from perdure.engine.committer import Lane, OpenClose, Retry
from perdure.engine.doubts import Doubts
from perdure.engine.services import Loop, Service, Tasks
from perdure.engine.signals import Signals
from perdure.errors import DatabaseError, DatabaseUnavailable, NotRunning, WaitInterrupted
from perdure.model.answer import Answer
from perdure.model.ids import WorkflowId
from perdure.model.talk import Appending, Closing, Key, NewEvent, Receiving, Sending
from perdure.model.workflow import StepRow
from perdure.ports.clock import Clock
from perdure.ports.store import Store
from perdure.ports.store.hints import EVENT, STREAM
from perdure.serialization import Serialization

T = TypeVar("T")

PAUSE_S = 0.005
"""What is said within this time of another announcement goes out with it."""

LAST_WORDS_S = 1.0
"""How long a stop waits for announcements to be sent."""


class Speaker:
    """What it takes to talk to workflows, from inside or outside of them.

    With `is_told` the hints of other processes are passed on to `signals`.
    """

    records: ClassVar[bool] = False
    """Whether what a body says or asks through it is a step; that of an engine."""

    def __init__(
        self,
        tasks: Tasks,
        store: Store,
        clock: Clock,
        retry: Retry,
        serialization: Serialization,
        *,
        is_told: bool,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.tasks = tasks
        self.store = store
        self.clock = clock
        self.retry = retry
        self.serialization = serialization
        self.sends: Lane[Sending, Answer[StepRow | frozenset[WorkflowId]]] = Lane(
            "messages", store.send, retry, max_batch=store.capabilities.max_batch
        )
        self.signals = Signals(tasks, store, retry, is_told=is_told)
        self._is_over = False
        self._is_closed = False

    def check_open(self, *, is_patient: bool = False) -> None:
        """Raise `NotRunning` once nobody would answer any more."""
        if self._is_closed or (self._is_over and not is_patient):
            raise NotRunning("the engine or client this belongs to was stopped")

    async def ask(self, operation: Callable[[], Awaitable[T]], what: str, *, is_patient: bool) -> T:
        """What the store answers, asked again until it does; not after the end."""

        async def tried() -> T:
            self.check_open(is_patient=is_patient)
            return await operation()

        return await self.retry(tried, what)

    async def open(self) -> None:
        """Begin to send and to listen."""
        self.sends.open(self.tasks)
        await self.signals.start()

    async def close(self) -> None:
        """End every wait and all that is under way."""
        self.end_waits(patient=True)
        await self.sends.close(DatabaseUnavailable("the connection was closed"))
        await self.signals.stop()
        await self.tasks.end()

    def end_waits(self, *, patient: bool) -> None:
        """End the waits from outside of workflows, or all: the engine stops."""
        self._is_over = True
        self._is_closed = self._is_closed or patient
        self.signals.end_waits(WaitInterrupted, patient=patient)


class Talk(Speaker):
    """Messages, events and streams of one engine."""

    records: ClassVar[bool] = True

    def __init__(
        self,
        tasks: Tasks,
        store: Store,
        clock: Clock,
        retry: Retry,
        serialization: Serialization,
    ) -> None:
        listens = store.capabilities.listen
        super().__init__(tasks, store, clock, retry, serialization, is_told=listens)
        batch = store.capabilities.max_batch
        self.doubts = Doubts(tasks, clock, self.signals, store.receive)
        self.receives: Lane[Receiving, Answer[StepRow]] = Lane(
            "received messages", self.doubts.receive, retry, max_batch=batch
        )
        self.events: Lane[NewEvent, Answer[StepRow]] = Lane(
            "events", store.publish, retry, max_batch=batch
        )
        self.appends: Lane[Appending, Answer[StepRow]] = Lane(
            "stream values", store.append, retry, max_batch=batch
        )
        self.closings: Lane[Closing, Answer[StepRow]] = Lane(
            "verdicts", store.close_scopes, retry, max_batch=batch
        )
        self.announcements = Announcements(tasks, store, self.signals)

    @property
    def lanes(self) -> tuple[OpenClose, ...]:
        """Every lane, to open and close."""
        return self.sends, self.receives, self.events, self.appends, self.closings

    @property
    def services(self) -> tuple[Service, ...]:
        """What works in the background."""
        return self.signals, self.doubts, self.announcements


class Announcements(Loop):
    """Tells who waits for events and streams, here at once and elsewhere soon after the commit."""

    def __init__(self, tasks: Tasks, store: Store, signals: Signals) -> None:
        super().__init__(tasks, "announcements")
        self._store = store
        self._signals = signals
        self._events: dict[Key, None] = {}
        self._streams: dict[Key, None] = {}

    def event(self, key: Key) -> None:
        """An event was published."""
        self._signals.hear(f"{EVENT}{key.workflow_id}::{key.key}")
        self._later(self._events, key)

    def stream(self, key: Key) -> None:
        """A stream has one more value."""
        self._signals.hear(f"{STREAM}{key.workflow_id}::{key.key}")
        self._later(self._streams, key)

    def _later(self, waiting: dict[Key, None], key: Key) -> None:
        if self._store.capabilities.listen:
            waiting[key] = None
            self.wake()

    async def turn(self) -> float | None:
        """Send what was said; what cannot be sent is found by the polls of those who wait."""
        events, streams = self._take()
        if events or streams:
            with suppress(DatabaseError):
                await self._store.announce_talk(events, streams)
            await asyncio.sleep(PAUSE_S)
        return None

    async def stop(self) -> None:
        """Send what is left, for nobody will look after it, and stop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await self.finish(LAST_WORDS_S)
                await self.turn()

    def _take(self) -> tuple[Sequence[Key], Sequence[Key]]:
        events, streams = list(self._events), list(self._streams)
        self._events, self._streams = {}, {}
        return events, streams
