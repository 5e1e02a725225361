"""Several engines in one process, and the loops they belong to."""

from __future__ import annotations

import asyncio

import pytest

from perdure import Engine, workflow
from perdure.errors import (
    AmbiguousEngine,
    NotRegistered,
    NotRunning,
    WrongPlace,
)
from tests.support.database import SqliteDatabase
from tests.support.engines import Lab
from tests.support.workflows import child, look, naps


async def test_two_engines_in_one_process_each_run_their_own(lab: Lab) -> None:
    """A call goes to the one that registered it; with several it must say which."""
    one = await lab.start(child)
    two = lab.built(naps, child)
    await two.start()
    assert await naps.options(id="n")(0.001) == "awake"
    with pytest.raises(AmbiguousEngine, match=r"options\(engine="):
        await child("x")
    assert await child.options(id="one", engine=one)("x") == "X"
    assert await child.options(id="two", engine=two)("x") == "X"
    with pytest.raises(NotRegistered, match=r"workflows=\[\.\.\.\]"):
        await naps.options(engine=one).start(0)
    await two.stop()
    assert await child("x") == "X"
    with pytest.raises(NotRunning, match="no running engine registered it"):
        await naps(0)


async def test_inside_a_run_the_runs_own_engine_is_used(shared_lab: Lab) -> None:
    """However many others registered the function."""

    @workflow(name="parent")
    async def parent() -> str:
        return await child("x")

    one = await shared_lab.start(parent, child)
    await shared_lab.start(parent, child)
    assert await parent.options(id="p", engine=one)() == "X"
    assert (await shared_lab.status("p-1"))["executor_id"] == one.executor_id


async def test_calls_from_another_loop_are_refused(memory_lab: Lab) -> None:
    """At once, saying whose loop it is."""
    engine = await memory_lab.start(child)
    handle = await child.options(id="c").start("x")
    await handle

    async def elsewhere() -> None:
        for call in (
            child("x"),
            child.start("x"),
            handle.result(),
            handle.status(),
            handle.cancel(),
        ):
            with pytest.raises(WrongPlace, match="another event loop"):
                await call
        with pytest.raises(WrongPlace):
            await engine.handle("c")

    await asyncio.to_thread(asyncio.run, elsewhere())
    assert await memory_lab.count() == 1


def test_an_engine_may_be_used_in_one_loop_after_the_other(
    sqlite_database: SqliteDatabase,
) -> None:
    """`asyncio.run` twice with one engine; the second goes on where the first left off."""
    engine = Engine(sqlite_database.url, workflows=[naps, child], heartbeat=0.1, grace=0)

    async def begin() -> None:
        async with engine:
            await child.options(id="c")("x")
            await naps.options(id="n").start(0.2)

    async def go_on() -> tuple[str, str]:
        async with engine:
            return await engine.handle("n", naps), await engine.handle("c", child)

    asyncio.run(begin())
    assert asyncio.run(go_on()) == ("awake", "X")


def test_an_engine_whose_loop_was_closed_under_it_counts_no_more(
    sqlite_database: SqliteDatabase,
) -> None:
    """The next engine of the process is the only one that runs."""

    async def leave_it() -> None:
        await Engine(sqlite_database.url, workflows=[child], heartbeat=0.1).start()
        assert await child("x") == "X"

    async def use_another() -> str:
        async with Engine(sqlite_database.url, workflows=[child], heartbeat=0.1):
            return await child("y")

    asyncio.run(leave_it())
    with pytest.raises(NotRunning, match="no engine is running"):
        asyncio.run(child_of_nobody())
    assert asyncio.run(use_another()) == "Y"


async def child_of_nobody() -> str:
    return await child("x")


async def test_a_workflow_of_a_function_unknown_here_waits_for_who_knows_it(
    shared_lab: Lab,
) -> None:
    """It is not claimed, and others are."""
    engine = await shared_lab.start(naps, child)
    await naps.options(id="n").start(3_600)
    await child.options(id="c")("x")
    await engine.stop()
    await shared_lab.start(child)
    await shared_lab.hand_back("c")
    await shared_lab.until("c")
    row = await shared_lab.status("n")
    assert (row["status"], row["owner_xid"]) == ("ENQUEUED", None)


async def test_a_workflow_without_steps_needs_no_engine_of_its_own(memory_lab: Lab) -> None:
    """The plain function is always there, and steps run plainly in it."""

    @workflow(name="tested")
    async def tested(word: str) -> str:
        await look()
        return word

    assert await tested.fn("x") == "x"
    await memory_lab.start(tested)
    assert await tested.fn("y") == "y"
    assert await memory_lab.count() == 0
