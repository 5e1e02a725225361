"""Faults of recovery that befell others: none can happen here, and the right value is a test."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from perdure import (
    AwaitedWorkflowCancelled,
    Engine,
    RecoveryLimitExceeded,
    WorkflowState,
    gather,
    sleep,
    step,
    workflow,
)
from perdure.errors import DatabaseConflict, DatabaseUnavailable, UndecodableValue
from tests.support.deaths import crash
from tests.support.engines import Lab
from tests.support.waiting import eventually

DAY = 86_400

ran: Counter[str] = Counter()
gates: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()
    gates.clear()


@step(name="mark")
async def mark(word: str) -> str:
    ran[word] += 1
    return word.upper()


@workflow(name="naps")
async def naps(word: str) -> str:
    await mark(word)
    await sleep(DAY)
    return await mark(f"{word} awake")


@workflow(name="other")
async def other(word: str) -> str:
    return await naps.fn(word)


async def left_asleep(lab: Lab, *ids: str, of: Any = naps, **options: Any) -> Engine:
    """Workflows of a process that died while they slept."""
    engine = await lab.start(of, **options)
    for each in ids:
        await of.options(id=each, engine=engine).start(each)
    await eventually(lambda: len(lab.clock.sleepers(DAY - 1)) == len(ids))
    await crash(engine)
    return engine


async def test_trouble_with_the_database_delays_a_recovery_and_loses_nothing(
    shared_lab: Lab,
) -> None:
    """The takeover, the claim and the reading of histories fail in turn, after some of the work."""
    lab = shared_lab
    ids = [f"w{number}" for number in range(3)]
    await left_asleep(lab, *ids)
    engine = lab.built(naps)
    await engine.start()
    for trouble in (DatabaseUnavailable("terminated"), DatabaseConflict("deadlock")):
        for method in ("take_over", "claim", "history", "owned", "lost"):
            lab.store.fail(method, trouble)
            lab.store.fail(method, trouble, after=True)
    for each in ids:
        await lab.until_attempts(each, 2)
    await eventually(lambda: len(lab.clock.sleepers(DAY - 60)) == len(ids))
    tries = lab.store.counts
    assert min(tries["take_over"], tries["claim"], tries["history"]) >= 5
    lab.clock.leap(DAY)
    results = await asyncio.gather(*(engine.handle(each, naps) for each in ids))
    assert results == [f"{each.upper()} AWAKE" for each in ids]
    assert {ran[each] for each in ids} == {1}
    assert {ran[f"{each} awake"] for each in ids} == {1}
    rows = await lab.rows("SELECT DISTINCT recovery_attempts AS n FROM workflow_status")
    assert [row["n"] for row in rows] == [2]


async def test_a_row_that_cannot_be_recovered_stops_no_other(shared_lab: Lab) -> None:
    """Ten of a dead process: one over its limit, one unreadable, one that nobody here knows."""
    lab = shared_lab
    ids = [f"w{number}" for number in range(10)]
    await left_asleep(lab, *ids)
    for column, value, bad in (
        ("recovery_attempts", 101, "w3"),
        ("name", "unheard of", "w7"),
    ):
        await lab.backdoor.run(
            f"UPDATE workflow_status SET {column} = ? WHERE workflow_uuid = ?", value, bad
        )
    await lab.backdoor.run("UPDATE workflow_input SET inputs = '{' WHERE workflow_uuid = 'w5'")
    engine = await lab.start(naps)
    with pytest.raises(RecoveryLimitExceeded):
        await engine.handle("w3")
    with pytest.raises(UndecodableValue):
        await engine.handle("w5")
    good = [each for each in ids if each not in {"w3", "w5", "w7"}]
    for each in good:
        await lab.until_attempts(each, 2)
    await eventually(lambda: len(engine.kernel.runner.runs) == len(good))
    lab.clock.leap(DAY)
    for each in good:
        assert await engine.handle(each, naps) == f"{each.upper()} AWAKE"
    row = await lab.status("w7")
    assert (row["status"], row["recovery_attempts"]) == ("ENQUEUED", 1)


async def test_a_rolling_restart_under_one_name_leaves_nothing_behind(shared_lab: Lab) -> None:
    """Both processes are called the same; each row says whose it is all the same."""
    lab = shared_lab
    old = await lab.start(naps, executor_id="local", grace=20)
    for number in range(10):
        await naps.options(id=f"w{number}", engine=old).start(f"w{number}")
    await eventually(lambda: len(lab.clock.sleepers(DAY - 1)) == 10)
    new = await lab.start(naps, executor_id="local", grace=20)
    assert old.executor_id != new.executor_id
    await old.stop()
    for number in range(10):
        await lab.until_attempts(f"w{number}", 1)
    await eventually(lambda: len(new.kernel.runner.runs) == 10)
    lab.clock.leap(DAY)
    for number in range(10):
        assert await new.handle(f"w{number}", naps) == f"W{number} AWAKE"
        assert (await lab.status(f"w{number}"))["executor_id"] == new.executor_id
    assert set(ran.values()) == {1}


async def test_a_run_started_before_the_first_look_around_is_not_recovered(lab: Lab) -> None:
    """Nothing that runs here is taken for a dead process's, however early it began."""
    engine = await lab.start(naps, lease=0.3)
    handle = await naps.options(id="w").start("w")
    await lab.until_asleep(DAY - 1)
    looks = lab.store.counts["owned"]
    await eventually(lambda: lab.store.counts["owned"] >= looks + 3)
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"]) == ("PENDING", 1)
    assert row["executor_id"] == engine.executor_id
    lab.clock.leap(DAY)
    assert await handle == "W AWAKE"
    assert ran["w"] == 1


async def test_many_runs_are_recovered_with_few_threads(shared_lab: Lab) -> None:
    """Five parents that each sleep and wait for a child, two threads, and steps that need one."""
    lab = shared_lab

    @step(name="blocking")
    def blocking(word: str) -> str:
        ran[word] += 1
        return word.upper()

    @workflow(name="child")
    async def child(word: str) -> str:
        await sleep(DAY)
        return await blocking(word)

    @workflow(name="parent")
    async def parent(word: str) -> list[str]:
        await blocking(f"{word} first")
        return await gather(child(f"{word} child"), blocking(f"{word} beside"))

    ids = [f"w{number}" for number in range(5)]
    doomed = await lab.start(parent, child, threads=2)
    for each in ids:
        await parent.options(id=each).start(each)
    await eventually(lambda: len(lab.clock.sleepers(DAY - 1)) == 5)
    await crash(doomed)
    engine = await lab.start(parent, child, threads=2)
    await eventually(lambda: len(engine.kernel.runner.runs) == 10)
    await eventually(lambda: len(lab.clock.sleepers(DAY - 60)) == 5)
    lab.clock.leap(DAY)
    results = await asyncio.gather(*(engine.handle(each, parent) for each in ids))
    assert results == [[f"{w.upper()} CHILD", f"{w.upper()} BESIDE"] for w in ids]
    assert {ran[f"{each} {part}"] for each in ids for part in ("first", "child")} == {1}


async def test_an_engine_started_again_works_as_before(shared_lab: Lab) -> None:
    """The same object, stopped and started: every service of it is back, under another boot."""
    lab = shared_lab
    engine = await lab.start(naps)
    first = engine.executor_id
    await naps.options(id="w").start("w")
    await lab.until_asleep(DAY - 1)
    for _ in range(2):
        await engine.stop()
        await engine.start()
        await lab.until_attempts("w", 1)
        await lab.until_asleep(DAY - 60)
    assert engine.executor_id != first
    assert (await lab.status("w"))["recovery_attempts"] == 1
    lab.clock.leap(DAY)
    assert await engine.handle("w", naps) == "W AWAKE"
    await lab.rerun("w")
    assert ran == {"w": 1, "w awake": 1}


async def test_background_services_outlive_their_own_faults(lab: Lab) -> None:
    """A bug in one turn of each of them: the next turn works."""
    engine = await lab.start(naps, lease=0.3)
    handle = await naps.options(id="w").start("w")
    await lab.until_asleep(DAY - 1)
    for method in ("claim", "history", "lost", "owned", "settled"):
        lab.store.fail(method, RuntimeError("a bug of ours"))
    await lab.hand_back("w")
    # The claim before that gives the row back, which a waiter would hear.
    await eventually(lambda: lab.store.counts["history"] >= 2)
    await lab.until_asleep(DAY - 60)
    lab.clock.leap(DAY)
    assert await engine.handle("w", naps) == "W AWAKE"
    assert await handle == "W AWAKE"


async def test_a_claimed_row_is_its_claimer_s_whoever_starts_it_again(shared_lab: Lab) -> None:
    """Executor and version in the row are those of the process that runs it."""
    lab = shared_lab
    enqueuer = await lab.start(other, naps, version="v1")
    await naps.options(id="w", engine=enqueuer).start("w")
    await lab.until_asleep(DAY - 1)
    await enqueuer.stop()
    await lab.backdoor.run("UPDATE workflow_status SET application_version = NULL")
    runner = await lab.start(naps, version="v2")
    await lab.until_attempts("w", 1)
    again = await lab.start(naps, version="v1")
    for _ in range(3):
        await naps.options(id="w", engine=again).start("w")
    row = await lab.status("w")
    assert (row["executor_id"], row["application_version"]) == (runner.executor_id, "v2")
    assert row["recovery_attempts"] == 1
    lab.clock.leap(DAY)
    assert await again.handle("w", naps) == "W AWAKE"
    assert (await lab.status("w"))["executor_id"] == runner.executor_id
    assert ran["w"] == 1


async def test_a_sleep_that_ended_while_all_were_down_is_over_at_the_restart(
    shared_lab: Lab,
) -> None:
    lab = shared_lab
    await left_asleep(lab, "w")
    before = await lab.steps("w")
    lab.clock.leap(3 * DAY)
    lab.clock.slept.clear()
    engine = await lab.start(naps)
    assert await engine.handle("w", naps) == "W AWAKE"
    assert max(lab.clock.slept, default=0) < 60
    assert (await lab.steps("w"))[:2] == before


async def test_a_delayed_row_that_fell_due_while_all_were_down_runs_at_the_restart(
    shared_lab: Lab,
) -> None:
    lab = shared_lab
    engine = await lab.start(naps)
    await naps.options(id="w").start("w")
    await lab.until_asleep(DAY - 1)
    await engine.stop()
    due = (await lab.status("w"))["updated_at"] + 5_000
    await lab.backdoor.run(
        "UPDATE workflow_status SET status = 'DELAYED', delay_until_epoch_ms = ?", due
    )
    lab.clock.leap(2 * DAY)
    engine = await lab.start(naps)
    assert await engine.handle("w", naps) == "W AWAKE"
    assert (await lab.status("w"))["recovery_attempts"] == 1


async def test_a_workflow_of_an_instance_nobody_configured_is_left_alone(shared_lab: Lab) -> None:
    """It is kept, unclaimed, with its class and instance in its row; others go on."""
    lab = shared_lab
    await left_asleep(lab, "a", "b")
    await lab.backdoor.run(
        "UPDATE workflow_status SET class_name = 'Shop', config_name = 'north'"
        " WHERE workflow_uuid = 'a'"
    )
    engine = await lab.start(naps)
    await lab.until_attempts("b", 2)
    row = await lab.until("a", WorkflowState.ENQUEUED)
    assert (row["recovery_attempts"], row["class_name"], row["config_name"]) == (1, "Shop", "north")
    assert str((await engine.workflows.get("a")).key) == "naps/Shop/north"


async def test_children_that_ended_before_their_parent_died_are_not_run_again(
    shared_lab: Lab,
) -> None:
    lab = shared_lab
    gates["last"] = asyncio.Event()

    @workflow(name="child")
    async def child(number: int) -> int:
        ran[f"child {number}"] += 1
        if number >= 3:
            await gates["last"].wait()
        return number * number

    @workflow(name="parent")
    async def parent() -> list[int]:
        handles = [await child.start(number) for number in range(5)]
        return [await handle for handle in handles]

    doomed = await lab.start(parent, child)
    await parent.options(id="p").start()
    for number in range(3):
        await lab.until(f"p-{number + 1}")
    await eventually(lambda: ran["child 4"])
    before = [await lab.status(f"p-{number + 1}") for number in range(3)]
    await crash(doomed)
    gates["last"].set()
    engine = await lab.start(parent, child)
    assert await engine.handle("p", parent) == [0, 1, 4, 9, 16]
    assert [await lab.status(f"p-{number + 1}") for number in range(3)] == before
    assert [ran[f"child {number}"] for number in range(5)] == [1, 1, 1, 2, 2]
    assert await lab.count() == 6


def noting(fn: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
    """A decorator of the application's own."""

    @functools.wraps(fn)
    async def noted(*args: Any) -> str:
        ran["noted"] += 1
        return await fn(*args)

    return noted


async def test_a_call_and_a_recovery_run_the_same_function(shared_lab: Lab) -> None:
    """With every decorator around it, under the name it was given."""
    lab = shared_lab

    @workflow(name="custom")
    @noting
    async def decorated(word: str) -> str:
        await sleep(DAY)
        return word.upper()

    doomed = await lab.start(decorated)
    await decorated.options(id="w").start("w")
    await lab.until_asleep(DAY - 1)
    assert ran["noted"] == 1
    await crash(doomed)
    engine = await lab.start(decorated)
    await lab.until_attempts("w", 2)
    lab.clock.leap(DAY)
    assert await engine.handle("w", decorated) == "W"
    assert ran["noted"] == 2
    assert (await lab.status("w"))["name"] == "custom"


@pytest.mark.parametrize("ending", ["returns", "raises"])
@pytest.mark.parametrize("resumed", [False, True], ids=["cancelled", "cancelled and resumed"])
async def test_an_execution_that_ends_after_a_cancel_writes_over_nothing(
    shared_lab: Lab, ending: str, resumed: bool
) -> None:
    """The row stays as the cancel left it, or is the execution's that was resumed elsewhere."""
    lab, held = shared_lab, asyncio.Event()

    @workflow(name="works")
    async def works() -> str:
        ran["body"] += 1
        await held.wait()
        if ending == "raises":
            raise RuntimeError("too late")
        return "too late"

    @workflow(name="works")
    async def again() -> str:
        return "resumed"

    await lab.start(works, version="v1")
    handle = await works.options(id="w").start()
    await eventually(lambda: ran["body"])
    waiting = asyncio.ensure_future(handle.result())
    new = await lab.start(again, version="v2")
    if resumed:
        # In one write: who looks between a cancel and a resume rightly hears of the cancel.
        await lab.backdoor.run(
            "UPDATE workflow_status SET status = 'ENQUEUED', owner_xid = NULL,"
            " started_at_epoch_ms = NULL, queue_name = '_dbos_internal_queue',"
            " application_version = 'v2'"
        )
        assert await new.handle("w") == "resumed"
    else:
        await lab.cancel_elsewhere("w")
    before = await lab.status("w")
    held.set()
    if resumed:
        assert await waiting == "resumed"
    else:
        with pytest.raises(AwaitedWorkflowCancelled):
            await waiting
    assert await lab.status("w") == before
    assert before["status"] == ("SUCCESS" if resumed else "CANCELLED")
