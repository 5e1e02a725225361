"""The shared wait behind messages, events and streams: when it asks, about what, whom it wakes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from perdure.engine import polling as polling_module
from perdure.engine.committer import Retry
from perdure.engine.services import Tasks
from perdure.engine.signals import Interest, Signals
from perdure.engine.system import SystemClock, SystemIds
from perdure.errors import WaitInterrupted
from perdure.model.ids import StepId, WorkflowId
from perdure.model.status import WorkflowState
from perdure.model.talk import EventRow, Key, StreamRow, Topic
from perdure.ports.store.hints import EVENT, MESSAGE, STREAM
from perdure.ports.store.streams import Reading, StreamPage
from tests.support.waiting import eventually

W = WorkflowId("w")


class FakeStore:
    """Knows what was said, and counts who asks."""

    def __init__(self) -> None:
        self.topics: list[Topic] = []
        self.values: dict[Key, int] = {}
        self.lengths: dict[Key, int] = {}
        self.states: dict[WorkflowId, WorkflowState] = {}
        self.asked: list[tuple[str, int]] = []
        self.held = asyncio.Event()
        self.held.set()

    async def topics_with_messages(self, topics: list[Topic]) -> list[Topic]:
        self.asked.append(("messages", len(topics)))
        await self.held.wait()
        return [each for each in topics if each in self.topics]

    async def events(self, keys: list[Key]) -> list[EventRow]:
        self.asked.append(("events", len(keys)))
        return [EventRow(*key, "1", None) for key in keys if key in self.values]

    async def stream_pages(self, readings: list[Reading]) -> list[StreamPage]:
        self.asked.append(("streams", len(readings)))
        return [self._page(reading) for reading in readings]

    def _page(self, reading: Reading) -> StreamPage:
        rows = range(reading.offset, self.lengths.get(reading.key, 0))[: reading.limit]
        values = tuple(StreamRow(offset, "1", None, StepId(1)) for offset in rows)
        return StreamPage(values, self.states.get(reading.key.workflow_id))


@asynccontextmanager
async def listening(store: FakeStore, *, is_told: bool = False) -> AsyncIterator[Signals]:
    tasks, clock = Tasks(), SystemClock()
    untyped: Any = store
    signals = Signals(tasks, untyped, Retry(clock, SystemIds()), is_told=is_told)
    await signals.start()
    try:
        yield signals
    finally:
        await signals.stop()
        await tasks.end()


async def test_nobody_waits_nobody_asks() -> None:
    store = FakeStore()
    async with listening(store) as signals:
        signals.hear_all()
        signals.hear(">mw::t")
        for _ in range(10):
            await asyncio.sleep(0)
    assert store.asked == []


async def test_a_hint_wakes_whom_it_concerns_and_no_other() -> None:
    """Ids and names may hold the separator."""
    async with listening(FakeStore(), is_told=True) as signals:
        with (
            signals.listening(Interest(MESSAGE, W, "a::b"), is_patient=True) as wanted,
            signals.listening(Interest(EVENT, W, "a::b"), is_patient=True) as other,
        ):
            wanted.clear()
            other.clear()
            signals.hear(">mw::a::b")
            async with asyncio.timeout(5):
                await wanted.wait()
            assert not other.is_heard
        assert signals.waiting == 0


async def test_a_hint_after_the_look_and_before_the_wait_counts() -> None:
    async with listening(FakeStore(), is_told=True) as signals:
        with signals.listening(Interest(EVENT, W, "k"), is_patient=True) as ear:
            ear.clear()
            signals.hear(">ew::k")
            async with asyncio.timeout(5):
                await ear.wait()


async def test_one_who_leaves_takes_nobody_along() -> None:
    interest = Interest(EVENT, W, "k")
    async with listening(FakeStore(), is_told=True) as signals:
        with signals.listening(interest, is_patient=True) as stays:
            stays.clear()
            with signals.listening(interest, is_patient=True):
                assert signals.waiting == 2
            signals.hear(interest.hint)
            assert stays.is_heard


async def test_the_poll_asks_once_about_everything_that_is_waited_for() -> None:
    """However many wait for the same; what is found wakes them."""
    store = FakeStore()
    store.values[Key(W, "k")] = 1
    store.lengths[Key(W, "s")] = 1
    store.topics = [Topic(W, "t")]
    store.states[W] = WorkflowState.PENDING
    interests = [
        *(Interest(MESSAGE, W, name) for name in ("t", "t", "u")),
        *(Interest(EVENT, W, name) for name in ("k", "l", "m")),
        *(Interest(STREAM, W, "s", offset) for offset in (0, 1, 1)),
    ]
    async with listening(store) as signals:
        waits = [signals.listening(each, is_patient=True) for each in interests]
        ears = [wait.__enter__() for wait in waits]
        for ear in ears:
            ear.clear()
        await eventually(lambda: len(store.asked) >= 3)
        assert store.asked[:3] == [("messages", 2), ("events", 3), ("streams", 2)]
        await eventually(lambda: ears[6].is_heard)
        assert [ear.is_heard for ear in ears[:6]] == [True, True, False, True, False, False]
        for wait in waits:
            wait.__exit__(None, None, None)


@pytest.mark.parametrize("state", [None, WorkflowState.CANCELLED])
async def test_the_end_of_a_workflow_wakes_the_readers_of_its_streams(
    state: WorkflowState | None,
) -> None:
    """Found by the poll, or said at once where the workflow ends."""
    store = FakeStore()
    if state is not None:
        store.states[W] = state
    interest = Interest(STREAM, W, "s", 5)
    async with listening(store) as signals:
        with signals.listening(interest, is_patient=True) as ear:
            ear.clear()
            await eventually(lambda: ear.is_heard)
    async with listening(store, is_told=True) as signals:
        with signals.listening(interest, is_patient=True) as ear:
            ear.clear()
            signals.hear_end(W)
            assert ear.is_heard


async def test_whoever_is_told_looks_rarely_and_at_once_after_a_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hints were missed: the poll does not wait for its time."""
    monkeypatch.setattr(polling_module, "LONGEST_PAUSE_S", 3_600.0)
    store = FakeStore()
    async with listening(store, is_told=True) as signals:
        with signals.listening(Interest(EVENT, W, "k"), is_patient=True):
            for _ in range(10):
                await asyncio.sleep(0)
            assert store.asked == []
            signals.hear_all()
            await eventually(lambda: store.asked)


async def test_a_poll_asked_for_during_a_poll_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came after the statement began would be missed otherwise."""
    monkeypatch.setattr(polling_module, "LONGEST_PAUSE_S", 3_600.0)
    store = FakeStore()
    store.held.clear()
    async with listening(store, is_told=True) as signals:
        with signals.listening(Interest(MESSAGE, W, "t"), is_patient=True):
            signals.hear_all()
            await eventually(lambda: len(store.asked) == 1)
            signals.hear_all()
            store.held.set()
            await eventually(lambda: len(store.asked) == 2)


async def test_the_end_of_the_engine_ends_waits_now_and_later() -> None:
    """First of those outside, then of all; a wait that begins afterwards ends at once."""
    interest = Interest(EVENT, W, "k")
    async with listening(FakeStore(), is_told=True) as signals:
        with (
            signals.listening(interest, is_patient=True) as patient,
            signals.listening(interest, is_patient=False) as outside,
        ):
            patient.clear()
            signals.end_waits(WaitInterrupted, patient=False)
            await outside.wait()
            with pytest.raises(WaitInterrupted):
                outside.clear()
            with (
                signals.listening(interest, is_patient=False) as late,
                pytest.raises(WaitInterrupted),
            ):
                late.clear()
            patient.clear()
            assert not patient.is_heard
            signals.end_waits(WaitInterrupted, patient=True)
            with pytest.raises(WaitInterrupted):
                patient.clear()
