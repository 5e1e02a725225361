"""Engines start, stop, start again, live beside each other, and leave nothing behind."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from perdure import ConfigurationError, Engine, WorkflowState, sleep, step, workflow
from perdure.errors import (
    AmbiguousEngine,
    DatabaseError,
    DatabaseRejected,
    DatabaseUnavailable,
    NotRegistered,
    NotRunning,
    VersionOwnedByAnother,
    WaitInterrupted,
    WrongPlace,
)
from tests.support.database import SQLITE_PREFIX, SqliteDatabase
from tests.support.engines import Lab
from tests.support.waiting import eventually
from tests.support.workflows import child, look


@workflow(name="naps")
async def naps(seconds: float) -> str:
    await sleep(seconds)
    return "awake"


def ours(threads: list[threading.Thread]) -> set[str]:
    return {thread.name for thread in threads if thread.name.startswith("perdure")}


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
    tasks, threads = asyncio.all_tasks(), ours(threading.enumerate())
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
    await eventually(lambda: ours(threading.enumerate()) <= threads)


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
    tasks, threads = asyncio.all_tasks(), ours(threading.enumerate())
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
    await eventually(lambda: ours(threading.enumerate()) <= threads)


@pytest.mark.parametrize("method", ["migrate", "open", "now_ms", "register_version"])
async def test_an_engine_that_cannot_start_leaves_nothing_running_and_can_be_started_again(
    shared_lab: Lab, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the start fails; the error is what went wrong."""
    tasks, threads = asyncio.all_tasks(), ours(threading.enumerate())
    wrap, failing = shared_lab.wrap, [True]

    def wrap_failing(store: Any) -> Any:
        watched = wrap(store)
        if failing:
            failing.clear()
            watched.fail(method, DatabaseRejected("not today"))
        return watched

    monkeypatch.setattr(shared_lab, "wrap", wrap_failing)
    engine = shared_lab.built(child)
    with pytest.raises(DatabaseError, match="not today"):
        await engine.start()
    assert not engine.is_running
    assert asyncio.all_tasks() == tasks
    await eventually(lambda: ours(threading.enumerate()) <= threads)
    await engine.start()
    assert await child("x") == "X"


async def test_an_engine_whose_heartbeat_cannot_begin_does_not_start(
    shared_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease precedes every row; without one nothing runs."""
    tasks = asyncio.all_tasks()
    wrap = shared_lab.wrap

    class Dead:
        async def open(self, *_: Any) -> bool:
            raise DatabaseUnavailable("no lease today")

        async def close(self) -> None: ...

    def wrap_dead(store: Any) -> Any:
        watched = wrap(store)
        monkeypatch.setattr(watched, "heartbeat_link", Dead, raising=False)
        return watched

    monkeypatch.setattr(shared_lab, "wrap", wrap_dead)
    engine = shared_lab.built(child)
    with pytest.raises(DatabaseUnavailable, match="no lease today"):
        await engine.start()
    assert asyncio.all_tasks() == tasks


async def test_a_cancelled_start_leaves_nothing_running(shared_lab: Lab) -> None:
    """As any other failure of it."""
    tasks, threads = asyncio.all_tasks(), ours(threading.enumerate())
    for turns in (1, 3, 10, 30, 100):
        engine = shared_lab.built(child)
        starting = asyncio.ensure_future(engine.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        await engine.stop()
        assert asyncio.all_tasks() == tasks
    await eventually(lambda: ours(threading.enumerate()) <= threads)


async def test_a_version_of_another_application_ends_the_start(shared_lab: Lab) -> None:
    """The message names the holder; the first application goes on."""
    await shared_lab.start(child, name="shop", version="v1")
    other = shared_lab.built(child, name="bank", version="v1")
    with pytest.raises(VersionOwnedByAnother, match="'v1' is registered by application 'shop'"):
        await other.start()
    assert await child("x") == "X"


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


async def test_starting_without_a_schema_and_without_migrating_says_what_to_do(
    tmp_path: Path,
) -> None:
    """Nothing is created by an engine that may not migrate."""
    path = tmp_path / "empty.db"
    sqlite3.connect(path).close()
    engine = Engine(f"{SQLITE_PREFIX}{path}", workflows=[child], migrate=False)
    with pytest.raises(DatabaseError, match="migrate"):
        await engine.start()
    assert not engine.is_running


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("", {}, "DBOS_SYSTEM_DATABASE_URL"),
        ("memory:", {"name": "Shop"}, "lower-case"),
        ("memory:", {"name": "ab"}, "3 to 256"),
        ("memory:", {"version": " "}, "version"),
        ("memory:", {"executor_id": "a/b"}, "'/'"),
        ("memory:", {"schema": ""}, "schema"),
        ("memory:", {"threads": 0}, "threads"),
        ("memory:", {"heartbeat": 0}, "heartbeat"),
        ("memory:", {"heartbeat": 1, "lease": 2}, "three heartbeats"),
        ("memory:", {"grace": -1}, "grace"),
        ("memory:", {"max_value_bytes": 0}, "max_value_bytes"),
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused_before_connecting(
    url: str, options: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the setting."""
    monkeypatch.delenv("DBOS_SYSTEM_DATABASE_URL", raising=False)
    with pytest.raises(ConfigurationError, match=words):
        Engine(url, workflows=[child], **options)


async def test_a_url_of_an_unknown_kind_is_refused_at_the_start() -> None:
    """Naming the kinds there are."""
    engine = Engine("mysql://localhost/x", workflows=[child])
    with pytest.raises(ConfigurationError, match=r"'mysql'.*postgresql://.*sqlite:///.*memory:"):
        await engine.start()
    assert not engine.is_running


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
