"""A fault of the engine or of the database is never a workflow's outcome."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import WorkflowState, step, workflow
from perdure.engine import kernel
from perdure.errors import DatabaseRejected, DatabaseUnavailable, WorkflowError
from tests.support.engines import RELEASED_S, Lab
from tests.support.waiting import eventually
from tests.support.workflows import child, look

pytestmark = pytest.mark.usefixtures("long_release")

FAULTS = [DatabaseRejected("a value no database takes"), TypeError("a bug of ours")]


@workflow(name="plain")
async def plain() -> str:
    await look()
    return "done"


@workflow(name="parent")
async def parent() -> str:
    return await child("x")


@workflow(name="swallows")
async def swallows() -> str:
    for _ in range(2):
        try:
            await look()
        except WorkflowError:
            continue
    return "as if nothing had been"


async def released_then_done(lab: Lab, workflow_id: str) -> None:
    """The run waits for its next attempt, counted, with no outcome; and ends with that attempt."""
    row = await lab.until(workflow_id, WorkflowState.DELAYED)
    assert (row["recovery_attempts"], row["owner_xid"]) == (1, None)
    assert await lab.output(workflow_id) is None
    lab.clock.leap(RELEASED_S)
    row = await lab.until(workflow_id)
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 2)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("method", ["record", "finish"])
async def test_a_write_that_is_refused_for_good_releases_the_run(
    memory_lab: Lab, method: str, fault: Exception
) -> None:
    """Whoever waits is told; the row is no ERROR."""
    await memory_lab.start(plain)
    memory_lab.store.fail(method, fault)
    handle = await plain.options(id="w").start()
    with pytest.raises((WorkflowError, type(fault)), match=r"value no database takes|bug of ours"):
        await handle
    await released_then_done(memory_lab, "w")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
async def test_a_childs_start_that_is_refused_for_good_releases_its_parent(
    memory_lab: Lab, fault: Exception
) -> None:
    """The parent is tried again, and its child with it."""
    await memory_lab.start(parent, child)
    handle = await parent.options(id="w").start()
    await memory_lab.until("w")
    memory_lab.store.forget()
    await memory_lab.cut("w", 1)
    await memory_lab.backdoor.run("DELETE FROM workflow_status WHERE workflow_uuid = 'w-1'")
    memory_lab.store.fail("start", fault)
    assert (await memory_lab.rerun("w"))["status"] == "DELAYED"
    memory_lab.clock.leap(RELEASED_S)
    assert (await memory_lab.until("w"))["status"] == "SUCCESS"
    assert await handle == "X"


async def test_a_fault_that_is_swallowed_stays(memory_lab: Lab) -> None:
    """The body's value is not recorded over a step that was not."""
    await memory_lab.start(swallows)
    memory_lab.store.fail("record", DatabaseRejected("once"))
    await swallows.options(id="w").start()
    await released_then_done(memory_lab, "w")


async def test_a_bug_while_the_result_is_encoded_does_not_strand_the_run(
    memory_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing stays PENDING without a task, and nobody waits for ever."""
    engine = await memory_lab.start(plain)
    codec = engine.kernel.registry.codecs(plain.definition).result
    encode_as = type(codec).encode_as

    def fails_once(self: Any, *args: Any) -> Any:
        if self is not codec:
            return encode_as(self, *args)
        monkeypatch.setattr(type(codec), "encode_as", encode_as)
        raise RecursionError("too deep")

    monkeypatch.setattr(type(codec), "encode_as", fails_once)
    with pytest.raises(RecursionError):
        await plain.options(id="w")()
    await released_then_done(memory_lab, "w")


async def test_a_refused_start_tells_its_caller(memory_lab: Lab) -> None:
    """Outside a workflow there is no run to release."""
    await memory_lab.start(plain)
    memory_lab.store.fail("start", DatabaseRejected("no such value"))
    with pytest.raises(DatabaseRejected, match="no such value"):
        await plain.options(id="w").start()
    assert await memory_lab.count() == 0
    assert await plain.options(id="w")() == "done"


async def test_trouble_of_every_kind_of_statement_is_waited_out(lab: Lab) -> None:
    """Start, record, finish, release, claim, history and settled are all repeated."""

    class Crash(BaseException):
        pass

    crash = True

    @workflow(name="crashes")
    async def crashes() -> str:
        await look()
        if crash:
            raise Crash
        return await child("x")

    await lab.start(crashes, child)
    for method in ("start", "record", "release", "claim", "history", "finish", "settled", "lost"):
        lab.store.fail(method, DatabaseUnavailable("away"), times=2)
    await crashes.options(id="w").start()
    await lab.until("w", WorkflowState.DELAYED)
    crash = False
    lab.clock.leap(RELEASED_S)
    row = await lab.until("w")
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 2)


async def test_stopping_while_the_database_is_away_ends(
    memory_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write in flight fails, every run ends, nothing is left running."""
    monkeypatch.setattr(kernel, "_LAST_WORDS_S", 0.2)

    @step(name="quick")
    async def quick() -> None: ...

    @workflow(name="writes")
    async def writes() -> None:
        task = asyncio.ensure_future(quick())
        await eventually(lambda: memory_lab.store.counts["record"] > 1)
        task.cancel()
        await asyncio.wait([task])
        await look()

    before = asyncio.all_tasks()
    engine = await memory_lab.start(plain, writes)
    for method in ("record", "finish", "release", "end_lease"):
        memory_lab.store.fail(method, DatabaseUnavailable("away"), times=1_000_000)
    for number in range(5):
        await plain.options(id=f"p-{number}").start()
        await writes.options(id=f"w-{number}").start()
    await eventually(lambda: memory_lab.store.counts["record"] > 3)
    async with asyncio.timeout(20):
        await engine.stop()
    assert asyncio.all_tasks() == before
