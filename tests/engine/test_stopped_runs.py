"""Signals that stop a run are sticky: whatever its code makes of them, it records nothing more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import ControlSignal, WorkflowCancelled, WorkflowState, gather, sleep, step, workflow
from perdure.errors import ForeignCancellation, RunInterrupted, RunLost
from tests.support.engines import Lab
from tests.support.waiting import eventually
from tests.support.workflows import child, look


class Stubborn:
    """A body that swallows everything, and notes what it swallowed."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.swallowed: list[type[BaseException]] = []
        self.ended = False

        @step(name="held")
        async def held() -> str:
            self.begun.set()
            await self.go.wait()
            return "held"

        @workflow(name="stubborn")
        async def stubborn() -> str:
            calls: list[Any] = [held, look, lambda: sleep(3_600), lambda: child("x")]
            for call in calls:
                try:
                    await call()
                except BaseException as error:  # noqa: BLE001 - this is what must not help
                    self.swallowed.append(type(error))
            self.ended = True
            return "as if nothing had been"

        self.workflow = stubborn


@pytest.fixture
def stubborn() -> Stubborn:
    return Stubborn()


async def test_a_cancelled_run_that_swallows_it_records_nothing(
    lab: Lab, stubborn: Stubborn
) -> None:
    """Each later durable call raises it again, and the returned value is nobody's."""
    await lab.start(stubborn.workflow, child)
    handle = await stubborn.workflow.options(id="w").start()
    await stubborn.begun.wait()
    await lab.cancel_elsewhere("w")
    stubborn.go.set()
    await lab.until_nothing_runs()
    assert stubborn.ended
    assert stubborn.swallowed == [WorkflowCancelled] * 4
    assert (await lab.state("w"), await lab.steps("w")) == ("CANCELLED", [])
    assert (await lab.output("w"), await lab.count()) == (None, 1)
    with pytest.raises(Exception, match="'w' was cancelled"):
        await handle


async def test_a_run_taken_over_that_swallows_it_records_nothing(
    lab: Lab, stubborn: Stubborn
) -> None:
    """Another execution owns the row: this one hears `RunLost` at each call."""
    await lab.start(stubborn.workflow, child)
    await stubborn.workflow.options(id="w").start()
    await stubborn.begun.wait()
    await lab.backdoor.run("UPDATE workflow_status SET owner_xid = 'somebody else'")
    stubborn.go.set()
    await lab.until_nothing_runs()
    assert stubborn.swallowed == [RunLost] * 4
    row = await lab.status("w")
    assert (row["status"], row["owner_xid"]) == ("PENDING", "somebody else")
    assert (await lab.steps("w"), await lab.output("w")) == ([], None)


async def test_an_interrupted_run_that_swallows_it_is_released(
    shared_lab: Lab, stubborn: Stubborn
) -> None:
    """The stop goes on, and the run with it."""
    engine = await shared_lab.start(stubborn.workflow, child)
    await stubborn.workflow.options(id="w").start()
    await stubborn.begun.wait()
    await engine.stop()
    assert stubborn.swallowed == [RunInterrupted] * 4
    row = await shared_lab.status("w")
    assert (row["status"], row["recovery_attempts"]) == ("ENQUEUED", 0)
    assert await shared_lab.steps("w") == []


async def test_a_step_that_turns_its_interruption_into_an_error_records_none(
    shared_lab: Lab,
) -> None:
    """What a step raises because it was stopped is not its failure."""
    begun = asyncio.Event()

    @step(name="converts", max_attempts=3, interval=0)
    async def converts() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("while stopping") from None

    @workflow(name="runs")
    async def runs() -> None:
        await converts()

    engine = await shared_lab.start(runs)
    await runs.options(id="w").start()
    await begun.wait()
    await engine.stop()
    assert (await shared_lab.state("w"), await shared_lab.steps("w")) == ("ENQUEUED", [])


async def test_a_cancellation_elsewhere_is_noticed_by_a_waiting_run_within_a_second_or_two(
    lab: Lab,
) -> None:
    """By the shared poll, without any write of the run's own."""

    @workflow(name="waits")
    async def waits() -> None:
        await gather(sleep(3_600), sleep(7_200))

    await lab.start(waits)
    await waits.options(id="w").start()
    await lab.until_asleep(7_000)
    await lab.cancel_elsewhere("w")
    await lab.until_nothing_runs()
    assert lab.clock.sleepers(3_000) == []


async def test_a_body_that_is_in_no_durable_call_is_stopped_where_it_is(lab: Lab) -> None:
    """A cancelled run that waits for something of its own does not wait for ever."""
    begun, ends = asyncio.Event(), []

    @workflow(name="idles")
    async def idles() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("stopped")

    await lab.start(idles)
    handle = await idles.options(id="w").start()
    await begun.wait()
    await handle.cancel()
    await lab.until_nothing_runs()
    assert (ends, await lab.state("w")) == (["stopped"], "CANCELLED")


async def test_a_workflow_may_cancel_itself(lab: Lab) -> None:
    """The cancellation ends it at that call."""
    after: list[str] = []

    @workflow(name="gives_up")
    async def gives_up() -> None:
        await lab.engine.handle("w").cancel()
        after.append("went on")

    await lab.start(gives_up)
    with pytest.raises(Exception, match="'w' was cancelled"):
        await gives_up.options(id="w")()
    await lab.until_nothing_runs()
    assert (after, await lab.state("w")) == ([], "CANCELLED")
    assert await lab.history("w") == [(1, "DBOS.cancelWorkflow")]


async def test_a_lost_run_stops_before_its_next_effect(lab: Lab) -> None:
    """At most the step in flight runs in both executions."""
    begun, go, ran = asyncio.Event(), asyncio.Event(), []

    @step(name="effect")
    async def effect(word: str) -> None:
        ran.append(word)
        if word == "first":
            begun.set()
            await go.wait()

    @workflow(name="runs")
    async def runs() -> str:
        for word in ("first", "second", "third"):
            await effect(word)
        return "done"

    await lab.start(runs)
    await runs.options(id="w").start()
    await begun.wait()
    await lab.hand_back("w")
    await lab.until_attempts("w", 2)
    go.set()
    assert (await lab.until("w"))["status"] == "SUCCESS"
    assert ran == ["first", "first", "second", "third"]


@pytest.mark.usefixtures("long_release")
async def test_a_body_cancelled_by_its_own_code_is_tried_again_with_a_back_off(lab: Lab) -> None:
    """Nobody of the engine asked for it: the attempt counts, so it cannot go on for ever."""

    @workflow(name="cancels_its_task")
    async def cancels_its_task() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    await lab.start(cancels_its_task)
    with pytest.raises(ForeignCancellation, match="the body was cancelled"):
        await cancels_its_task.options(id="w")()
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"]) == ("DELAYED", 1)


@pytest.mark.usefixtures("long_release")
async def test_a_signal_raised_by_user_code_is_no_outcome(lab: Lab) -> None:
    """A body cannot end a workflow as cancelled by raising the class."""

    @workflow(name="pretends")
    async def pretends() -> None:
        raise WorkflowCancelled("w")

    await lab.start(pretends)
    await pretends.options(id="w").start()
    await lab.until_nothing_runs()
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"]) == ("DELAYED", 1)
    assert await lab.rows("SELECT * FROM workflow_output") == []


async def test_a_run_whose_row_was_deleted_stops(lab: Lab, stubborn: Stubborn) -> None:
    """It records nothing and waits for nothing."""
    await lab.start(stubborn.workflow, child)
    await stubborn.workflow.options(id="w").start()
    await stubborn.begun.wait()
    await lab.backdoor.run("DELETE FROM workflow_status WHERE workflow_uuid = 'w'")
    stubborn.go.set()
    await lab.until_nothing_runs()
    assert all(issubclass(each, ControlSignal) for each in stubborn.swallowed)
    assert await lab.find("w") is None
    assert await lab.rows("SELECT * FROM workflow_output") == []


async def test_a_run_is_left_alone_by_the_poll_while_it_is_ours(memory_lab: Lab) -> None:
    """The poll asks about it again and again, and stops nothing."""

    @workflow(name="waits")
    async def waits() -> str:
        await sleep(3_600)
        return "woke"

    await memory_lab.start(waits)
    handle = await waits.options(id="w").start()
    await memory_lab.until_asleep(3_000)
    await eventually(lambda: memory_lab.store.counts["lost"] >= 2)
    assert await memory_lab.until("w", WorkflowState.PENDING)
    memory_lab.clock.leap(3_600)
    assert await handle == "woke"
