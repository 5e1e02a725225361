"""Faults of other libraries in stopping and continuing workflows: each must be impossible here."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest

from perdure import (
    Client,
    Queue,
    WorkflowError,
    WorkflowNotFound,
    WorkflowState,
    set_event,
    sleep,
    step,
    workflow,
)
from tests.support.engines import Lab
from tests.support.waiting import eventually
from tests.support.workflows import child, look

ACTIVE = "('ENQUEUED', 'DELAYED', 'PENDING')"


async def test_a_loop_that_catches_every_error_ends_when_it_is_cancelled(lab: Lab) -> None:
    """B106: its own cancellation is no `Exception`."""
    turns: list[int] = []

    @workflow(name="keeps_on")
    async def keeps_on() -> None:
        while True:
            try:
                turns.append(1)
                await look()
                await sleep(0.001)
            except Exception:  # noqa: BLE001, S112 - this is what must not help
                continue

    engine = await lab.start(keeps_on)
    await keeps_on.options(id="w").start()
    await eventually(lambda: len(turns) > 3)
    await engine.workflows.cancel("w")
    await lab.until_nothing_runs()
    assert await lab.state("w") == "CANCELLED"


@workflow(name="breeds")
async def breeds(depth: int) -> None:
    """A child every few milliseconds: one that runs, one that is queued, one that is delayed."""
    for number in range(200):
        if depth:
            places: list[dict[str, Any]] = [{}, {"queue": "line"}, {"queue": "line", "delay": 60}]
            await breeds.options(**places[number % 3]).start(depth - 1)
        await sleep(0.005)


async def test_a_tree_that_grows_is_cancelled_whole(lab: Lab) -> None:
    """B107: no descendant is left that is not ended, and none comes afterwards."""
    chance = random.Random(11)
    engine = await lab.start(breeds, queues=[Queue("line", worker_concurrency=2)])
    for number in range(4):
        await breeds.options(id=f"root-{number}").start(2)
        await asyncio.sleep(chance.uniform(0.01, 0.25))
        cancelled = await engine.workflows.cancel(f"root-{number}", children=True)
        assert cancelled[0] == f"root-{number}"
        left = await lab.rows(f"SELECT * FROM workflow_status WHERE status IN {ACTIVE}")
        assert left == []
        count = await lab.count()
        await lab.until_nothing_runs()
        assert await lab.count() == count


async def test_nothing_comes_after_the_step_in_which_a_workflow_was_cancelled(lab: Lab) -> None:
    """B108: that step may finish, unrecorded; the place in the queue is free at the cancel."""
    begun, go = threading.Event(), threading.Event()
    done: list[str] = []

    @step(name="long")
    def long() -> None:
        begun.set()
        assert go.wait(20)
        done.append("long")

    @step(name="next")
    async def next_step() -> None:
        done.append("next")

    @workflow(name="held")
    async def held() -> None:
        await long()
        await next_step()
        await set_event("key", 1)
        await child.start("x")

    engine = await lab.start(held, child, queues=[Queue("line", global_concurrency=1)])
    await held.options(id="w", queue="line").start()
    await eventually(begun.is_set)
    waiting = await child.options(queue="line").start("y")
    await engine.workflows.cancel("w")
    assert await waiting.result(timeout=20) == "Y"
    go.set()
    await lab.until_nothing_runs()
    assert (done, await lab.steps("w")) == (["long"], [])
    assert await lab.rows("SELECT * FROM workflow_events") == []
    assert await lab.count() == 2


@pytest.mark.parametrize("how", ["cancelled", "deleted", "dead-lettered"])
async def test_a_parent_hears_of_every_end_of_its_child(lab: Lab, how: str) -> None:
    """B109: also of a child that was still in its queue."""

    @workflow(name="parent")
    async def parent() -> str:
        handle = await child.options(queue="nobodys").start("x")
        try:
            return await handle.result()
        except WorkflowError as error:
            return type(error).__name__

    engine = await lab.start(parent, child, queues=[Queue("nobodys")], listen=[])
    handle = await parent.options(id="p").start()
    await lab.until("p-1", WorkflowState.ENQUEUED)
    await eventually(lambda: engine.kernel.waiter.waited_for(handle.workflow_id + "-1"))
    if how == "cancelled":
        await engine.workflows.cancel("p-1")
    elif how == "deleted":
        await engine.workflows.delete("p-1")
    else:
        await lab.backdoor.run(
            "UPDATE workflow_status SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'"
            " WHERE workflow_uuid = 'p-1'"
        )
    expected = {
        "cancelled": "AwaitedWorkflowCancelled",
        "deleted": "WorkflowNotFound",
        "dead-lettered": "RecoveryLimitExceeded",
    }
    assert await handle.result(timeout=20) == expected[how]


async def test_a_handle_from_before_sees_what_came_of_a_resume(lab: Lab) -> None:
    """B110: its attempts and its deadline are new, what was recorded is not done again."""
    ran: list[int] = []
    begun, go = asyncio.Event(), asyncio.Event()

    @step(name="once")
    async def once() -> None:
        ran.append(1)

    @step(name="waits", preemptible=True)
    async def waits() -> None:
        begun.set()
        await go.wait()

    @workflow(name="two")
    async def two() -> str:
        await once()
        await waits()
        return "done"

    engine = await lab.start(two, queues=[Queue("line")])
    first = await two.options(id="w", timeout=3_600).start()
    await begun.wait()
    before = await lab.status("w")
    await engine.workflows.cancel("w")
    with pytest.raises(WorkflowError, match="cancelled"):
        await first
    lab.clock.leap(60)
    go.set()
    resumed = await asyncio.gather(
        engine.workflows.resume("w", queue="line"), engine.workflows.resume("w", queue="line")
    )
    for handle in (first, *(each for (each,) in resumed)):
        assert await handle.result(timeout=20) == "done"
    after = await lab.status("w")
    assert ran == [1]
    assert after["queue_name"] == "line"
    assert after["workflow_deadline_epoch_ms"] > before["workflow_deadline_epoch_ms"] + 50_000


async def test_an_unknown_id_is_said_to_be_one(shared_lab: Lab) -> None:
    """B112: at once, where the workflow must exist; otherwise it is passed over."""
    engine = await shared_lab.start(child)
    async with Client(shared_lab.url) as client:
        for on in (engine.workflows, client.workflows):
            needing = [on.resume("none"), on.fork("none"), on.rewind("none"), on.get("none")]
            for call in [*needing, on.set_attributes("none", {}), on.steps("none")]:
                with pytest.raises(WorkflowNotFound):
                    await call
            assert await on.cancel("none") == []
            assert await on.delete(["none"], children=True) == []
            assert await on.set_delay("none", 5) == []
    assert await shared_lab.count() == 0


async def test_what_waits_for_its_time_takes_every_command(lab: Lab) -> None:
    """B093: a resume begins it at once, also after a cancel; a fork and a start do not wait."""
    engine = await lab.start(child, queues=[Queue("line")])
    on = engine.workflows
    late: dict[str, Any] = {"queue": "line", "delay": 3_600}
    ids = ("resumed", "cancelled", "both", "forked")
    for each in ids:
        await child.options(id=each, **late).start(each)
    assert [row.workflow_id for row in await on.list(states="DELAYED")] == list(ids)
    assert await on.cancel(["cancelled", "both"]) == ["cancelled", "both"]
    for each, handle in zip(
        ("resumed", "both"), await on.resume(["resumed", "both"], queue="line"), strict=True
    ):
        assert await handle.result(timeout=20) == each.upper()
    assert await (await on.fork("forked")).result(timeout=20) == "FORKED"
    assert await on.set_delay(["forked", "cancelled"], 1_800) == ["forked"]
    assert (await child.options(id="forked", **late).start("forked")).workflow_id == "forked"
    lab.clock.leap(1_801)
    assert await engine.handle("forked").result(timeout=20) == "FORKED"
    assert await lab.state("cancelled") == "CANCELLED"
