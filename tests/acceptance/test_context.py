"""What code can ask about where it runs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from perdure import CancellationToken, current, run_step, sleep, step, workflow
from perdure.engine.context import Current
from tests.support.engines import Lab


def where() -> tuple[str | None, int | None]:
    here = current()
    return here.workflow_id, here.step_id


def attempt() -> tuple[int | None, int | None]:
    here = current()
    return here.attempt, here.max_attempts


async def test_a_workflow_reads_its_own_id_and_outside_there_is_none(lab: Lab) -> None:
    """The id is the one the caller chose; outside everything is None."""

    @workflow(name="who")
    async def who() -> str | None:
        return current().workflow_id

    await lab.start(who)
    assert await who.options(id="mine")() == "mine"
    assert where() == (None, None)
    assert attempt() == (None, None)


async def test_the_step_id_is_seen_inside_a_step_only(lab: Lab) -> None:
    """Before, between and after the steps it is None; within, both ids are there."""
    seen: list[tuple[str | None, int | None]] = []

    async def look() -> None:
        seen.append(where())

    @workflow(name="looks")
    async def looks() -> None:
        await look()
        await run_step("first", look)
        await look()
        await sleep(0.001)
        await run_step("second", look)
        await look()

    await lab.start(looks)
    await looks.options(id="w")()
    assert seen == [("w", None), ("w", 1), ("w", None), ("w", 3), ("w", None)]


async def test_every_attempt_sees_the_same_id_and_counts_up(memory_lab: Lab) -> None:
    """The id holds still while the attempt goes from 1 to the maximum."""
    seen: list[tuple[int | None, int | None, int | None]] = []

    @step(name="flaky", max_attempts=3, interval=0)
    async def flaky() -> None:
        here = current()
        seen.append((here.step_id, here.attempt, here.max_attempts))
        if here.attempt != here.max_attempts:
            raise ValueError("again")

    @workflow(name="tries")
    async def tries() -> None:
        await flaky()

    await memory_lab.start(tries)
    await tries()
    assert seen == [(1, 1, 3), (1, 2, 3), (1, 3, 3)]


async def test_a_plain_step_is_attempt_one_of_one_and_the_body_is_none(memory_lab: Lab) -> None:
    """A step that is not retried says so; the body has no attempt."""
    seen: list[tuple[int | None, int | None]] = []

    @step(name="once")
    async def once() -> None:
        seen.append(attempt())

    @workflow(name="runs")
    async def runs() -> None:
        seen.append(attempt())
        await once()
        seen.append(attempt())

    await memory_lab.start(runs)
    await runs()
    assert seen == [(None, None), (1, 1), (None, None)]


async def test_a_nested_step_reports_the_enclosing_one(memory_lab: Lab) -> None:
    """A step called in a step is plain: no id of its own, no row."""
    seen: list[tuple[str | None, int | None]] = []

    @step(name="inner", max_attempts=5)
    async def inner() -> None:
        seen.append(where())

    @step(name="outer")
    async def outer() -> None:
        await inner()
        await inner()

    @workflow(name="nests")
    async def nests() -> None:
        await outer()

    await memory_lab.start(nests)
    await nests.options(id="n")()
    assert seen == [("n", 1), ("n", 1)]
    assert await memory_lab.history("n") == [(1, "outer")]


async def test_a_thread_step_sees_where_it_is(memory_lab: Lab) -> None:
    """A `def` step runs in another thread and knows its workflow, id and attempt."""
    seen: list[Current] = []

    @step(name="blocking")
    def blocking() -> str:
        seen.append(current())
        return threading.current_thread().name

    @workflow(name="threads")
    async def threads() -> str:
        return await blocking()

    await memory_lab.start(threads)
    assert await threads.options(id="t")() != threading.current_thread().name
    here = seen[0]
    assert (here.workflow_id, here.step_id, here.attempt) == ("t", 1, 1)


async def test_outside_a_step_the_token_never_fires_and_inside_each_attempt_has_its_own(
    memory_lab: Lab,
) -> None:
    """There is always a token; an attempt that ended leaves its own alone."""
    tokens: list[CancellationToken] = [current().cancellation]

    @step(name="twice", max_attempts=2, interval=0)
    async def twice() -> None:
        tokens.append(current().cancellation)
        if len(tokens) == 3:
            raise ValueError("again")

    @workflow(name="collects")
    async def collects() -> None:
        tokens.append(current().cancellation)
        await twice()

    await memory_lab.start(collects)
    await collects()
    outside, body, first, second = tokens
    assert outside is body
    assert len({id(outside), id(first), id(second)}) == 3
    assert not any(token.is_cancelled for token in tokens)


async def test_a_token_that_the_step_itself_fires_stops_nothing(memory_lab: Lab) -> None:
    """It tells the step's own work to end; step and workflow go on."""

    @step(name="tells")
    async def tells() -> str:
        current().cancellation.cancel()
        await asyncio.sleep(0)
        return "done"

    @workflow(name="fires")
    async def fires() -> str:
        return await tells()

    await memory_lab.start(fires)
    assert await fires.options(id="w")() == "done"
    assert await memory_lab.history("w") == [(1, "tells")]


def test_a_token_calls_back_once_and_at_once_when_it_has_fired() -> None:
    """Callbacks run when it fires; a late one runs immediately."""
    token, calls = CancellationToken(), []
    token.on_cancel(lambda: calls.append("early"))
    assert token.wait(0) is False
    token.cancel()
    token.cancel()
    token.on_cancel(lambda: calls.append("late"))
    assert calls == ["early", "late"]
    assert token.wait(0) is True


async def test_a_spawned_task_of_a_body_knows_the_workflow_but_takes_no_ids(
    memory_lab: Lab,
) -> None:
    """The context is copied into tasks: they know where they are, and may not number calls."""

    async def helper() -> tuple[str | None, int | None]:
        return where()

    @workflow(name="spawns")
    async def spawns() -> list[str | int | None]:
        return list(await asyncio.create_task(helper()))

    await memory_lab.start(spawns)
    assert await spawns.options(id="s")() == ["s", None]


@pytest.mark.parametrize("steps", [1, 3])
async def test_building_takes_ids_from_one_and_in_order(memory_lab: Lab, steps: int) -> None:
    """A call knows its id and its name from the moment it is built."""

    @step(name="work")
    async def work() -> None: ...

    @workflow(name="builds")
    async def builds() -> list[list[int | str | None]]:
        calls = [work() for _ in range(steps)]
        for call in calls:
            await call
        return [[call.step_id, call.name] for call in calls]

    await memory_lab.start(builds)
    assert await builds() == [[number, "work"] for number in range(1, steps + 1)]
