"""The shared wait for outcomes: whom it asks about, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from perdure.engine import polling as polling_module
from perdure.engine.committer import Retry
from perdure.engine.services import Tasks
from perdure.engine.system import SystemClock, SystemIds
from perdure.engine.waiter import Around, Settlement, Waiter
from perdure.model.ids import WorkflowId
from perdure.model.status import WorkflowState
from perdure.model.workflow import Outcome
from perdure.ports.store.reads import Settled
from tests.support.waiting import eventually

A, B, LOCAL = map(WorkflowId, ("a", "b", "local"))


def outcome(workflow_id: WorkflowId) -> Outcome:
    return Outcome(workflow_id, WorkflowState.SUCCESS, "1", None, None, 1)


class FakeStore:
    """Knows which have ended, and what it was asked about."""

    def __init__(self) -> None:
        self.ended: set[WorkflowId] = set()
        self.asked: list[list[WorkflowId]] = []

    async def settled(self, ids: list[WorkflowId]) -> Settled:
        self.asked.append(list(ids))
        return Settled(tuple(outcome(each) for each in ids if each in self.ended), ())


class Bench:
    """A waiter, its store, and what it told."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.waits: list[WorkflowId] = []
        self.ends: list[WorkflowId] = []
        self.local = {LOCAL}
        tasks, untyped = Tasks(), self.store
        around = Around(lambda each: each in self.local, self.waits.append, self.ends.append)
        store: Any = untyped
        self.tasks = tasks
        self.waiter = Waiter(tasks, store, Retry(SystemClock(), SystemIds()), around)

    def wait(self, workflow_id: WorkflowId) -> asyncio.Future[Settlement]:
        return asyncio.ensure_future(self.waiter.outcome(workflow_id, fail_if_missing=False))


@asynccontextmanager
async def waiting() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.waiter.start()
    try:
        yield bench
    finally:
        await bench.waiter.stop()
        await bench.tasks.end()


@pytest.fixture(autouse=True)
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not ask by itself while a test lasts."""
    monkeypatch.setattr(polling_module, "FIRST_PAUSE_S", 3_600.0)
    monkeypatch.setattr(polling_module, "LONGEST_PAUSE_S", 3_600.0)


async def test_a_new_wait_asks_about_itself_alone() -> None:
    async with waiting() as bench:
        first = bench.wait(A)
        await eventually(lambda: bench.store.asked == [[A]])
        bench.store.ended.add(B)
        assert (await bench.wait(B)).outcome == outcome(B)
        assert bench.store.asked == [[A], [B]]
        assert (bench.waits, bench.ends) == ([A, B], [B])
        first.cancel()


async def test_what_is_heard_of_is_asked_about_alone_and_at_once() -> None:
    async with waiting() as bench:
        waits = [bench.wait(each) for each in (A, B)]
        await eventually(lambda: bench.store.asked)
        bench.store.asked.clear()
        bench.store.ended.update((A, B))
        bench.waiter.hear([B, WorkflowId("nobody waits for it")])
        assert (await waits[1]).outcome == outcome(B)
        assert bench.store.asked == [[B]]
        waits[0].cancel()


async def test_when_hints_may_be_missing_all_are_asked_about_together() -> None:
    async with waiting() as bench:
        waits = [bench.wait(each) for each in (A, B, LOCAL)]
        await eventually(lambda: bench.store.asked)
        bench.store.asked.clear()
        bench.store.ended.update((A, B))
        bench.waiter.hear_all()
        await asyncio.gather(*waits[:2])
        assert bench.store.asked == [[A, B]]
        waits[2].cancel()


async def test_a_run_that_left_this_process_is_asked_about() -> None:
    """As `hear_all` is called then."""
    async with waiting() as bench:
        wait = bench.wait(LOCAL)
        for _ in range(5):
            await asyncio.sleep(0)
        assert (bench.store.asked, bench.waits) == ([], [])
        bench.local.clear()
        bench.store.ended.add(LOCAL)
        bench.waiter.hear_all()
        assert (await wait).outcome == outcome(LOCAL)


async def test_nobody_waits_nobody_asks() -> None:
    async with waiting() as bench:
        bench.waiter.hear([A])
        bench.waiter.hear_all()
        for _ in range(10):
            await asyncio.sleep(0)
        assert bench.store.asked == []
