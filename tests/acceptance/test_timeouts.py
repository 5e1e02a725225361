"""The timeout of a step: it bounds one attempt, and running out of it is an ordinary failure."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from perdure import (
    CancellationToken,
    StepRetriesExhausted,
    StepTimeout,
    WorkflowCancelled,
    current,
    gather,
    step,
    workflow,
)
from perdure.errors import AwaitedWorkflowCancelled
from tests.support.engines import Lab, settle
from tests.support.waiting import eventually
from tests.support.workflows import calling

SHORT = 0.02


async def test_a_step_past_its_timeout_fails_naming_itself_and_the_limit(lab: Lab) -> None:
    """The failure is an outcome: checkpointed, and replayed without the body."""
    runs: list[int] = []

    @step(name="slow", timeout=SHORT)
    async def slow() -> None:
        runs.append(1)
        await asyncio.Event().wait()

    calls = calling(slow)
    await lab.start(calls)
    for _ in range(2):
        with pytest.raises(
            StepTimeout, match=r"'slow': an attempt ran longer than 0.02 s"
        ) as error:
            await calls.options(id="w")()
        assert (error.value.step, error.value.timeout) == ("slow", SHORT)
    (row,) = await lab.steps("w")
    assert json.loads(row["error"])["name"] == "StepTimeout"
    assert (await lab.rerun("w"))["status"] == "ERROR"
    assert runs == [1]


async def test_the_body_that_ran_out_of_time_is_stopped(memory_lab: Lab) -> None:
    """It does not go on in the background; its clean-up runs before the failure is raised."""
    events: list[str] = []

    @step(name="slow", timeout=SHORT)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            events.append("stopped")

    @workflow(name="calls")
    async def calls() -> None:
        with pytest.raises(StepTimeout):
            await slow()
        events.append("failed")

    await memory_lab.start(calls)
    await calls()
    assert events == ["stopped", "failed"]


async def test_the_token_fires_before_the_body_is_stopped(memory_lab: Lab) -> None:
    """Work that the step handed to a thread hears of the end first."""
    events: list[str] = []

    @step(name="slow", timeout=SHORT)
    async def slow() -> None:
        current().cancellation.on_cancel(lambda: events.append("token"))
        try:
            await asyncio.Event().wait()
        finally:
            events.append("stopped")

    calls = calling(slow)
    await memory_lab.start(calls)
    with pytest.raises(StepTimeout):
        await calls()
    assert events == ["token", "stopped"]


async def test_an_attempt_that_ran_out_of_time_is_retried_with_a_fresh_timeout(lab: Lab) -> None:
    """The limit is per attempt; the back-off between them is not charged."""

    @step(name="slow_once", timeout=SHORT, max_attempts=3, interval=2 * SHORT, jitter=False)
    async def slow_once() -> int | None:
        if current().attempt == 1:
            await asyncio.Event().wait()
        return current().attempt

    calls = calling(slow_once)
    await lab.start(calls)
    assert await calls.options(id="w")() == 2
    assert await lab.history("w") == [(1, "slow_once")]


async def test_all_attempts_out_of_time_are_one_error_with_a_timeout_each(lab: Lab) -> None:
    """Retries exhausted carries one `StepTimeout` per attempt."""

    @step(name="slow", timeout=SHORT, max_attempts=3, interval=0)
    async def slow() -> None:
        await asyncio.Event().wait()

    calls = calling(slow)
    await lab.start(calls)
    with pytest.raises(StepRetriesExhausted) as raised:
        await calls.options(id="w")()
    assert [type(error) for error in raised.value.errors] == [StepTimeout] * 3
    assert await lab.history("w") == [(1, "slow")]


async def test_a_step_inside_its_timeout_is_not_touched(memory_lab: Lab) -> None:
    """Its value is recorded and its token left alone."""
    tokens: list[CancellationToken] = []

    @step(name="quick", timeout=60)
    async def quick() -> str:
        tokens.append(current().cancellation)
        return "done"

    calls = calling(quick)
    await memory_lab.start(calls)
    assert await calls() == "done"
    assert not tokens[0].is_cancelled


@pytest.mark.parametrize("reaction", ["returns", "raises", "times out itself"])
async def test_whatever_a_stopped_body_does_its_attempt_ran_out_of_time(
    memory_lab: Lab, reaction: str
) -> None:
    """A swallowed cancel, and an error raised in its place, are still a timeout."""

    @step(name="stubborn", timeout=SHORT)
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if reaction == "raises":
                raise ValueError("while stopping") from None
            if reaction == "times out itself":
                raise TimeoutError("mine") from None
        return "late"

    calls = calling(stubborn)
    await memory_lab.start(calls)
    with pytest.raises(StepTimeout):
        await calls()


async def test_a_timeout_error_of_the_bodys_own_is_its_own(memory_lab: Lab) -> None:
    """Only the engine's limit is a `StepTimeout`."""

    @step(name="fails", timeout=60)
    async def fails() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    calls = calling(fails)
    await memory_lab.start(calls)
    with pytest.raises(TimeoutError) as raised:
        await calls()
    assert not isinstance(raised.value, StepTimeout)


async def test_a_thread_out_of_time_is_retried_only_when_it_has_ended(memory_lab: Lab) -> None:
    """A thread cannot be stopped: two attempts never run at the same time."""
    told, release = threading.Event(), threading.Event()
    running, most = [0], [0]

    @step(name="blocking", timeout=SHORT, max_attempts=100, interval=0)
    def blocking() -> str:
        running[0] += 1
        most[0] = max(most[0], running[0])
        try:
            if current().attempt == 1:
                assert current().cancellation.wait(20)
                told.set()
                release.wait(20)
            return f"attempt {current().attempt}"
        finally:
            running[0] -= 1

    calls = calling(blocking)
    await memory_lab.start(calls)
    handle = await calls.start()
    await eventually(told.is_set)
    await settle()
    assert running == most == [1]
    release.set()
    # A busy machine may not get a thread to its end in that time, and try again.
    assert await handle != "attempt 1"
    assert most[0] == 1


async def test_a_thread_out_of_time_on_its_last_attempt_fails_at_once_and_records_nothing_late(
    lab: Lab,
) -> None:
    """The failure does not wait for the thread, and its late result is nobody's."""
    release, ended = threading.Event(), threading.Event()

    @step(name="blocking", timeout=SHORT)
    def blocking() -> str:
        release.wait(20)
        ended.set()
        return "late"

    calls = calling(blocking)
    await lab.start(calls)
    with pytest.raises(StepTimeout):
        await calls.options(id="w")()
    before = await lab.steps("w")
    release.set()
    await eventually(ended.is_set)
    assert await lab.steps("w") == before
    assert len(before) == 1


async def test_a_preemptible_step_stops_when_its_workflow_is_cancelled_elsewhere(
    lab: Lab,
) -> None:
    """It is stopped wherever it is, and nothing is recorded for it."""
    begun, tokens, ends = asyncio.Event(), [], []

    @step(name="long", preemptible=True)
    async def long() -> None:
        tokens.append(current().cancellation)
        begun.set()
        try:
            await asyncio.Event().wait()
        except BaseException as error:
            ends.append(type(error))
            raise

    calls = calling(long)
    await lab.start(calls)
    handle = await calls.options(id="w").start()
    waiting = asyncio.ensure_future(handle.result())
    await begun.wait()
    await lab.cancel_elsewhere("w")
    with pytest.raises(AwaitedWorkflowCancelled):
        await waiting
    await lab.until_nothing_runs()
    assert ends == [asyncio.CancelledError]
    assert tokens[0].is_cancelled
    assert await lab.steps("w") == []


async def test_a_preemptible_step_that_swallows_its_stop_records_nothing(lab: Lab) -> None:
    """What it returns after it was stopped is not recorded, and its body goes no further."""
    begun, raised = asyncio.Event(), []

    @step(name="stubborn", preemptible=True)
    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "swallowed"
        return "never"

    @workflow(name="calls")
    async def calls() -> str:
        try:
            return await stubborn()
        except BaseException as error:
            raised.append(type(error))
            raise

    await lab.start(calls)
    handle = await calls.options(id="w").start()
    await begun.wait()
    await handle.cancel()
    await lab.until_nothing_runs()
    assert raised == [WorkflowCancelled]
    assert await lab.steps("w") == []
    assert await lab.state("w") == "CANCELLED"


async def test_by_default_a_step_of_a_cancelled_workflow_runs_to_its_end(lab: Lab) -> None:
    """Preemption is off unless asked for; the result of such a step is not recorded."""
    begun, go, events = asyncio.Event(), asyncio.Event(), []

    @step(name="whole")
    async def whole() -> str:
        begun.set()
        await go.wait()
        events.append(current().cancellation.is_cancelled)
        return "done"

    calls = calling(whole)
    await lab.start(calls)
    handle = await calls.options(id="w").start()
    await begun.wait()
    await handle.cancel()
    assert lab.engine.kernel.runner.runs
    go.set()
    await lab.until_nothing_runs()
    assert events == [False]
    assert await lab.steps("w") == []


async def test_a_step_whose_caller_is_gone_fires_its_token(memory_lab: Lab) -> None:
    """A step stopped in the middle, by whatever, tells its detached work."""
    begun, tokens = asyncio.Event(), []

    @step(name="long")
    async def long() -> None:
        tokens.append(current().cancellation)
        begun.set()
        await asyncio.Event().wait()

    @workflow(name="drops")
    async def drops() -> str:
        task = asyncio.ensure_future(long())
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        return "dropped"

    await memory_lab.start(drops)
    assert await drops.options(id="w")() == "dropped"
    assert tokens[0].is_cancelled
    assert await memory_lab.steps("w") == []


async def test_a_finished_step_leaves_its_token_alone(memory_lab: Lab) -> None:
    """Plain, in a thread, and with a watchdog that it finished inside."""
    tokens: list[CancellationToken] = []

    @step(name="plain")
    async def plain() -> None:
        tokens.append(current().cancellation)

    @step(name="threaded", timeout=60)
    def threaded() -> None:
        tokens.append(current().cancellation)

    @step(name="watched", timeout=60)
    async def watched() -> None:
        tokens.append(current().cancellation)
        await asyncio.sleep(0)

    @workflow(name="all")
    async def calls() -> None:
        await gather(plain(), threaded(), watched())

    await memory_lab.start(calls)
    await calls()
    assert [token.is_cancelled for token in tokens] == [False] * 3


@pytest.mark.parametrize("threaded", [False, True], ids=["async", "thread"])
async def test_a_step_that_ends_about_its_timeout_has_exactly_one_outcome(
    memory_lab: Lab, threaded: bool
) -> None:
    """What the caller saw is what the one row says, whoever won."""
    limit = 0.005

    @step(name="about", timeout=limit)
    async def about(extra: float) -> str:
        await asyncio.sleep(limit + extra)
        return "value"

    @step(name="about", timeout=limit)
    def about_in_thread(extra: float) -> str:
        threading.Event().wait(limit + extra)
        return "value"

    chosen: Any = about_in_thread if threaded else about

    @workflow(name="races")
    async def races(extra: float) -> str:
        try:
            return str(await chosen(extra))
        except StepTimeout:
            return "timeout"

    await memory_lab.start(races)
    for number in range(40):
        workflow_id = f"race-{number}"
        seen = await races.options(id=workflow_id)((number - 20) / 10_000)
        (row,) = await memory_lab.steps(workflow_id)
        assert (row["output"] == '"value"') == (seen == "value")
        assert (row["error"] is None) == (seen == "value")
