"""Engines start, stop, start again, and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest

from perdure import WorkflowState, sleep, step, workflow
from perdure.engine import kernel
from perdure.errors import (
    NotRunning,
    WaitInterrupted,
    WrongPlace,
)
from tests.support.engines import Lab, our_threads, settle
from tests.support.waiting import eventually
from tests.support.workflows import child, naps


async def test_an_engine_starts_and_stops_as_often_as_one_likes(shared_lab: Lab) -> None:
    """Twice in a row is once; each start is a new boot with the same configured name."""
    engine = shared_lab.built(child, executor_id="worker")
    assert not engine.is_running
    boots = set()
    for number in range(3):
        await engine.start()
        await engine.start()
        assert engine.is_running
        boots.add(engine.executor_id)
        assert await child.options(id=f"c-{number}")("x") == "X"
        await engine.stop()
        await engine.stop()
        with pytest.raises(NotRunning):
            _ = engine.executor_id
        with pytest.raises(NotRunning, match="no engine is running"):
            await child("x")
    assert len(boots) == 3
    assert {str(boot).split("/")[0] for boot in boots} == {"worker"}


async def test_a_run_goes_on_in_the_next_start_of_the_engine(shared_lab: Lab) -> None:
    """Steps recorded before the stop are not repeated."""
    ran: list[str] = []

    @step(name="effect")
    async def effect(word: str) -> None:
        ran.append(word)

    @workflow(name="long")
    async def long() -> str:
        await effect("before")
        await sleep(3_600)
        await effect("after")
        return "done"

    engine = await shared_lab.start(long)
    await long.options(id="w").start()
    await shared_lab.until_asleep(3_000)
    await engine.stop()
    await engine.start()
    await shared_lab.until_asleep(3_000)
    shared_lab.clock.leap(3_600)
    row = await shared_lab.until("w")
    assert (row["status"], row["recovery_attempts"], ran) == ("SUCCESS", 1, ["before", "after"])


async def test_a_stop_lets_running_work_finish_within_the_grace_time(shared_lab: Lab) -> None:
    """What works is waited for; what only waits is not."""
    begun, go = asyncio.Event(), asyncio.Event()

    @step(name="works")
    async def works() -> None:
        begun.set()
        await go.wait()

    @workflow(name="worker")
    async def worker() -> str:
        await works()
        return "finished"

    engine = await shared_lab.start(worker, naps, grace=30)
    await worker.options(id="w").start()
    await naps.options(id="n").start(3_600)
    await begun.wait()
    await shared_lab.until_asleep(3_000)
    stopping = asyncio.ensure_future(engine.stop())
    await shared_lab.until("n", WorkflowState.ENQUEUED)
    assert not stopping.done()
    go.set()
    await stopping
    assert (await shared_lab.state("w"), await shared_lab.output("w")) == ("SUCCESS", '"finished"')


async def test_a_claim_in_flight_at_a_stop_is_given_back(shared_lab: Lab) -> None:
    """Rows claimed by the last claim of a stopping engine are not left to their lease."""
    engine = await shared_lab.start(naps)
    await naps.options(id="n").start(3_600)
    await shared_lab.until_asleep(3_000)
    gate = shared_lab.store.hold("claim", after=True)
    await shared_lab.hand_back("n")
    await gate.reached()
    stopping = asyncio.ensure_future(engine.stop())
    await asyncio.sleep(0)
    gate.open()
    await stopping
    row = await shared_lab.status("n")
    assert (row["status"], row["owner_xid"], row["recovery_attempts"]) == ("ENQUEUED", None, 1)


async def test_a_stopped_engine_leaves_no_task_no_thread_and_no_lease(lab: Lab) -> None:
    """Everything it began has ended when `stop` returns."""
    tasks, threads = asyncio.all_tasks(), our_threads()
    engine = await lab.start(child, naps)
    await child("x")
    await naps.start(3_600)
    leases = await lab.rows(f"SELECT * FROM {LEASES[lab.kind]}")
    assert len(leases) == 1
    if lab.kind != "memory":
        await engine.stop()
        assert await lab.rows(f"SELECT * FROM {LEASES[lab.kind]}") == []
    await engine.stop()
    assert asyncio.all_tasks() == tasks
    await eventually(lambda: our_threads() <= threads)


LEASES = {"sqlite": "perdure_leases", "memory": "perdure_leases", "postgres": "leases"}


async def test_whoever_waits_for_a_workflow_hears_of_the_stop(lab: Lab) -> None:
    """Waits on workflows here, elsewhere and not yet begun all end."""
    engine = await lab.start(naps)
    here = asyncio.ensure_future((await naps.start(3_600)).result())
    nowhere = asyncio.ensure_future(engine.handle("not there").result())
    await lab.until_asleep(3_000)
    await engine.stop()
    for waiting in (here, nowhere):
        with pytest.raises(WaitInterrupted):
            await waiting


async def test_whoever_waits_for_a_workflow_that_ends_in_time_gets_its_result(lab: Lab) -> None:
    """A stop gives running work its grace, and those who wait for it too."""
    begun, go = asyncio.Event(), asyncio.Event()

    @workflow(name="works")
    async def works() -> str:
        begun.set()
        await go.wait()
        return "in time"

    engine = await lab.start(works, grace=30)
    waiting = asyncio.ensure_future((await works.start()).result())
    await begun.wait()
    kernel = engine.kernel
    stopping = asyncio.ensure_future(engine.stop())
    await eventually(lambda: kernel.stopping)
    go.set()
    assert await waiting == "in time"
    await stopping


async def test_a_step_that_waits_for_a_workflow_is_not_failed_by_a_stop(shared_lab: Lab) -> None:
    """The interrupted wait is no outcome: the step runs again when the engine is back."""
    waits: list[str] = []

    @step(name="waits")
    async def waits_for_it() -> str:
        waits.append("begun")
        return await shared_lab.engine.handle("n", naps)

    @workflow(name="outer")
    async def outer() -> str:
        return await waits_for_it()

    engine = await shared_lab.start(outer, naps, grace=0.2)
    await naps.options(id="n").start(3_600)
    await outer.options(id="o").start()
    await eventually(lambda: waits)
    await shared_lab.until_asleep(3_000)
    await engine.stop()
    assert (await shared_lab.state("o"), await shared_lab.steps("o")) == ("ENQUEUED", [])
    await engine.start()
    await shared_lab.until_asleep(3_000)
    shared_lab.clock.leap(3_600)
    assert (await shared_lab.until("o"))["status"] == "SUCCESS"


@pytest.mark.usefixtures("long_release")
async def test_a_step_that_waits_for_another_engine_which_stops_is_not_failed_by_it(
    memory_lab: Lab,
) -> None:
    """Trouble with another engine releases the run; it is no outcome of the step."""
    other = await memory_lab.start(naps)
    await naps.options(id="n").start(3_600)

    @step(name="waits")
    async def waits_there() -> str:
        return await other.handle("n", naps)

    @workflow(name="outer")
    async def outer() -> str:
        return await waits_there()

    engine = memory_lab.built(outer)
    await engine.start()
    handle = await outer.options(id="o").start()
    waiting = asyncio.ensure_future(handle.result())
    await memory_lab.until_asleep(3_000)
    await other.stop()
    with pytest.raises(WaitInterrupted):
        await waiting
    assert (await handle.status()).state is WorkflowState.DELAYED
    assert await engine.workflows.steps("o") == []


async def test_a_workflow_cannot_stop_its_own_engine(memory_lab: Lab) -> None:
    """It would wait for itself; neither its body nor a step of it may."""

    @step(name="stops")
    async def stops() -> None:
        await memory_lab.engine.stop()

    @workflow(name="tries")
    async def tries() -> str:
        with pytest.raises(WrongPlace, match="cannot be stopped from a workflow"):
            await memory_lab.engine.stop()
        with pytest.raises(WrongPlace):
            await stops()
        return "still here"

    await memory_lab.start(tries)
    assert await tries() == "still here"
    assert memory_lab.engine.is_running


async def test_a_cancelled_stop_still_ends_everything(shared_lab: Lab) -> None:
    """Whoever loses patience with the grace time leaves nothing running either."""
    tasks, threads = asyncio.all_tasks(), our_threads()
    begun = asyncio.Event()

    @workflow(name="busy")
    async def busy() -> None:
        begun.set()
        await asyncio.Event().wait()

    engine = await shared_lab.start(busy, grace=3_600)
    await busy.options(id="b").start()
    await begun.wait()
    kernel = engine.kernel
    stopping = asyncio.ensure_future(engine.stop())
    await eventually(lambda: kernel.stopping)
    stopping.cancel()
    await asyncio.wait([stopping])
    assert not engine.is_running
    assert asyncio.all_tasks() == tasks
    await eventually(lambda: our_threads() <= threads)


async def test_a_step_that_takes_no_notice_of_its_end_holds_up_no_stop(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """B094: what it returns later is recorded nowhere, and its workflow goes on elsewhere."""
    monkeypatch.setattr(kernel, "_LAST_WORDS_S", 0.05)
    begun, go = asyncio.Event(), asyncio.Event()
    ended: list[int] = []

    @step(name="stubborn")
    async def stubborn() -> str:
        begun.set()
        while not go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await go.wait()
        ended.append(1)
        return "late"

    @workflow(name="held")
    async def held() -> str:
        return await stubborn()

    engine = await lab.start(held)
    await held.options(id="w").start()
    await begun.wait()
    rows = await lab.status("w"), await lab.steps("w")
    with caplog.at_level(logging.WARNING, "perdure"):
        await asyncio.wait_for(engine.stop(), 20)
    assert "workflow w takes no notice of its end" in caplog.text
    assert "1 workflows could not be given back" in caplog.text
    go.set()
    await eventually(lambda: ended)
    await settle(20)
    if lab.kind != "memory":
        assert (await lab.status("w"), await lab.steps("w")) == rows
        await engine.start()
        assert await engine.handle("w").result(timeout=30) == "late"
        assert ended == [1, 1]
