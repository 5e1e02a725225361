"""Ends of a process that are no deaths of its work: stops, loops that close, restarts."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from perdure import sleep, step, workflow
from perdure.errors import WaitInterrupted
from tests.support.engines import Lab
from tests.support.held import AT_ITS_END, AT_ONCE, DAY, Held, held_in
from tests.support.process import ChildProcess
from tests.support.waiting import eventually

ran: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()


@step(name="mark")
async def mark(word: str) -> str:
    ran[word] += 1
    return word.upper()


@workflow(name="held")
async def finishes() -> str:
    """What a next deployment makes of a workflow that was held."""
    return "later"


@pytest.mark.parametrize("kind", [*AT_ONCE, *AT_ITS_END])
async def test_a_stop_gives_each_run_and_its_attempt_back(shared_lab: Lab, kind: str) -> None:
    """Wherever it is held: nothing is cancelled or recorded, and a next engine goes on."""
    lab, held = shared_lab, Held()
    await held_in(lab, held, kind)
    waiting = asyncio.ensure_future(lab.engine.handle("w").result())
    recorded = await lab.history("w")
    await lab.engine.stop()
    with pytest.raises(WaitInterrupted):
        await waiting
    held.go.set()
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"], row["owner_xid"]) == ("ENQUEUED", 0, None)
    assert (row["queue_name"], row["started_at_epoch_ms"]) == ("_perdure_internal_queue", None)
    assert row["completed_at"] is None
    assert (await lab.history("w"), held.after) == (recorded, [])
    await lab.cut("w", 1)
    successor = await lab.start(finishes)
    assert await successor.handle("w") == "later"
    assert (await lab.status("w"))["recovery_attempts"] == 1


async def test_a_parent_and_its_child_are_both_given_back_and_meet_again(shared_lab: Lab) -> None:
    lab = shared_lab

    @workflow(name="naps")
    async def naps() -> str:
        await sleep(DAY)
        return await mark("child")

    @workflow(name="parent")
    async def parent() -> str:
        return f"{await mark('parent')} of {await naps()}"

    engine = await lab.start(parent, naps)
    await parent.options(id="p").start()
    await lab.until_asleep(DAY - 1)
    await engine.stop()
    rows = await lab.rows(
        "SELECT workflow_uuid AS id, status, recovery_attempts FROM workflow_status"
    )
    assert {(row["status"], row["recovery_attempts"]) for row in rows} == {("ENQUEUED", 0)}
    assert {row["id"] for row in rows} == {"p", "p-2"}
    successor = await lab.start(parent, naps)
    await lab.until_attempts("p-2", 1)
    lab.clock.leap(DAY)
    assert await successor.handle("p", parent) == "PARENT of CHILD"
    assert ran == {"parent": 1, "child": 1}


async def test_work_that_ends_within_the_grace_time_is_not_interrupted(shared_lab: Lab) -> None:
    lab, begun, gate = shared_lab, asyncio.Event(), asyncio.Event()

    @workflow(name="works")
    async def works() -> str:
        begun.set()
        await gate.wait()
        return await mark("last")

    engine = await lab.start(works, grace=20)
    handle = await works.options(id="w").start()
    waiting = asyncio.ensure_future(handle.result())
    await begun.wait()
    kernel = engine.kernel
    stopping = asyncio.ensure_future(engine.stop())
    await eventually(lambda: kernel.stopping)
    gate.set()
    assert await waiting == "LAST"
    await stopping
    assert (await lab.status("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == '"LAST"'


async def test_a_process_that_is_stopping_claims_nothing_more(shared_lab: Lab) -> None:
    """What it had goes on while it may; what waits in queues is for others."""
    lab, begun, gate = shared_lab, asyncio.Event(), asyncio.Event()

    @workflow(name="works")
    async def works() -> str:
        begun.set()
        await gate.wait()
        return "worked"

    @workflow(name="brief")
    async def brief() -> str:
        return await mark("brief")

    engine = await lab.start(works, brief, grace=20)
    ids = [f"b{number}" for number in range(20)]
    for each in ids:
        await brief.options(id=each, engine=engine)()
    await works.options(id="w", engine=engine).start()
    await begun.wait()
    kernel, store = engine.kernel, lab.store
    # Its first looks, which are claims, are over.
    await lab.until_queues_are_read()
    stopping = asyncio.ensure_future(engine.stop())
    await eventually(lambda: kernel.stopping)
    store.forget()
    for each in ids:
        await lab.hand_back(each)
    other = await lab.start(brief)
    for each in ids:
        assert (await lab.until(each))["executor_id"] == other.executor_id
    gate.set()
    await stopping
    assert store.counts["claim"] == 0
    assert await lab.state("w") == "SUCCESS"


@pytest.mark.parametrize("block", ["in", "out"], ids=["in the block", "never stopped"])
async def test_a_loop_that_cancels_everything_at_its_end_cancels_no_workflow(
    shared_lab: Lab, block: str
) -> None:
    """As `asyncio.run` does with whatever still runs when the main coroutine ends.

    The process lives on, as a notebook or a test run does, and lets go of its runs all the same.
    """
    lab = shared_lab

    @workflow(name="works")
    async def goes_on(word: str) -> str:
        return f"{await begin(word)} {await mark(word)}"

    @step(name="begin")
    async def begin(word: str) -> str:
        raise AssertionError("it is recorded")

    with ChildProcess("-m", "tests.acceptance.loop_program", lab.url, block) as process:
        await process.reaches("loop ended")
        for word in ("sleeps", "idles"):
            row = await lab.status(word)
            assert row["status"] in {"PENDING", "ENQUEUED"}
            assert row["completed_at"] is None
        await lab.cut("sleeps", 2)
        engine = await lab.start(goes_on)
        for word in ("sleeps", "idles"):
            assert await engine.handle(word) == f"{word} {word.upper()}"
        assert process.running
