"""Where a call is built and where it is awaited: the same place, once, with the right engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from perdure import WorkflowState, current, run_step, sleep, step, workflow
from perdure.errors import BuiltElsewhere, CallSpent, WorkflowNotFound, WrongPlace
from tests.support.engines import Lab
from tests.support.workflows import child, look

CALLS: dict[str, Callable[[], Any]] = {
    "step": look,
    "run_step": lambda: run_step("look", look.fn),
    "sleep": lambda: sleep(0.001),
    "start": lambda: child.start("x"),
    "run": lambda: child("x"),
}


@pytest.mark.parametrize("kind", CALLS)
async def test_a_call_built_outside_is_refused_inside(memory_lab: Lab, kind: str) -> None:
    """The error names both places; nothing ran, nothing was started, no id was taken."""
    await_it: Any = None

    @workflow(name="awaits")
    async def awaits() -> None:
        with pytest.raises(
            BuiltElsewhere, match="built outside a workflow and awaited in workflow 'w'"
        ):
            await await_it
        await look()

    await memory_lab.start(awaits, child)
    await_it = CALLS[kind]()
    assert await_it.step_id is None
    await awaits.options(id="w")()
    assert await memory_lab.history("w") == [(1, "look")]
    assert await memory_lab.count() == 1


@pytest.mark.parametrize("kind", CALLS)
async def test_a_call_built_inside_is_refused_outside(memory_lab: Lab, kind: str) -> None:
    """Its id belongs to the workflow, and only the body may use it."""
    built: list[Any] = []

    @workflow(name="builds")
    async def builds() -> int | None:
        built.append(CALLS[kind]())
        step_id: int | None = built[0].step_id
        return step_id

    await memory_lab.start(builds, child)
    assert await builds.options(id="w")() == 1
    with pytest.raises(
        BuiltElsewhere, match="built in workflow 'w' and awaited outside a workflow"
    ):
        await built[0]
    assert (await memory_lab.steps("w"), await memory_lab.count()) == ([], 1)


@pytest.mark.parametrize("kind", CALLS)
async def test_a_call_built_in_one_workflow_is_refused_in_another(
    memory_lab: Lab, kind: str
) -> None:
    """Each has a history of its own."""
    built: list[Any] = []

    @workflow(name="builds")
    async def builds() -> None:
        built.append(CALLS[kind]())

    @workflow(name="awaits")
    async def awaits() -> None:
        with pytest.raises(BuiltElsewhere, match=r"built in workflow 'one' and awaited in .*'two'"):
            await built[0]

    await memory_lab.start(builds, awaits, child)
    await builds.options(id="one")()
    await awaits.options(id="two")()
    assert (await memory_lab.steps("one"), await memory_lab.steps("two")) == ([], [])


async def test_a_call_of_another_execution_of_the_same_workflow_is_refused(
    memory_lab: Lab,
) -> None:
    """The execution counts, not the id: a second one has its own counter."""
    built: list[Any] = []

    @workflow(name="runs")
    async def runs() -> str:
        built.append(look())
        if len(built) == 1:
            return "first"
        with pytest.raises(BuiltElsewhere):
            await built[0]
        await built[1]
        return "second"

    await memory_lab.start(runs)
    await runs.options(id="w")()
    await memory_lab.rerun("w")
    assert await memory_lab.output("w") == '"second"'
    assert await memory_lab.history("w") == [(1, "look")]


async def test_a_call_of_the_body_is_refused_in_a_step_and_the_reverse(memory_lab: Lab) -> None:
    """A step is a place of its own; the call can still be awaited where it was built."""
    built: list[Any] = []

    @step(name="tries")
    async def tries(call: Any) -> None:
        with pytest.raises(BuiltElsewhere, match="awaited inside step 2 of workflow 'w'"):
            await call
        built.append(look())

    @workflow(name="mixes")
    async def mixes() -> None:
        call = look()
        await tries(call)
        await call
        with pytest.raises(BuiltElsewhere, match="built inside step 2 of workflow 'w'"):
            await built[0]

    await memory_lab.start(mixes)
    await mixes.options(id="w")()
    assert await memory_lab.history("w") == [(1, "look"), (2, "tries")]


async def test_a_call_of_one_attempt_is_refused_in_the_next(memory_lab: Lab) -> None:
    """Each attempt of a step is a place of its own."""
    built: list[Any] = []

    @step(name="retried", max_attempts=2, interval=0)
    async def retried() -> None:
        built.append(look())
        if current().attempt == 1:
            raise ValueError("again")
        with pytest.raises(BuiltElsewhere):
            await built[0]
        await built[1]

    @workflow(name="runs")
    async def runs() -> None:
        await retried()

    await memory_lab.start(runs)
    await runs.options(id="w")()
    assert await memory_lab.history("w") == [(1, "retried")]


@pytest.mark.parametrize("kind", CALLS)
async def test_a_call_awaited_twice_is_spent(memory_lab: Lab, kind: str) -> None:
    """In a workflow and outside; what it did once stands."""

    @workflow(name="twice")
    async def twice() -> None:
        call = CALLS[kind]()
        await call
        with pytest.raises(CallSpent, match="awaited twice"):
            await call

    await memory_lab.start(twice, child)
    await twice.options(id="w")()
    outside = CALLS[kind]()
    await outside
    with pytest.raises(CallSpent):
        await outside


async def test_outside_a_workflow_steps_run_plainly(memory_lab: Lab) -> None:
    """User code stays unit-testable: no engine, no retries, no record."""
    runs: list[int] = []

    @step(name="fails", max_attempts=5, timeout=0.001)
    async def fails() -> None:
        runs.append(1)
        raise ValueError("once")

    @step(name="blocking")
    def blocking(word: str) -> set[str]:
        return {word}

    with pytest.raises(ValueError, match="once"):
        await fails()
    assert runs == [1]
    assert await blocking("x") == {"x"}
    assert blocking.fn("x") == {"x"}
    assert await run_step("anything", object) is not None
    assert await memory_lab.start(child) is not None
    assert await memory_lab.count() == 0


async def test_operations_inside_a_step_are_plain(lab: Lab) -> None:
    """Steps, sleeps, waits, looks and cancellations there leave no rows of their own."""

    @step(name="does_it_all")
    async def does_it_all(workflow_id: str) -> list[Any]:
        handle = lab.engine.handle(workflow_id)
        call = look()
        assert call.step_id is None
        await call
        await sleep(0.001)
        await handle.cancel()
        return [await handle, (await handle.status()).state.value]

    @workflow(name="outer")
    async def outer() -> list[Any]:
        return await does_it_all("there")

    await lab.start(outer, child)
    await child.options(id="there")("x")
    assert await outer.options(id="w")() == ["X", "SUCCESS"]
    assert await lab.history("w") == [(1, "does_it_all")]


async def test_looks_and_cancellations_in_a_body_are_recorded_steps(lab: Lab) -> None:
    """A replay sees what was seen, and cancels nothing again."""

    @workflow(name="sleepy")
    async def sleepy() -> None:
        await sleep(3_600)

    @workflow(name="manages")
    async def manages() -> list[str]:
        handle = await sleepy.start()
        before = await handle.status()
        await handle.cancel()
        after = await handle.status()
        states = [before.state.value, after.state.value, type(after.state).__name__]
        return [*states, after.key.name]

    await lab.start(manages, sleepy)
    first = await manages.options(id="w")()
    assert first == ["PENDING", "CANCELLED", "WorkflowState", "sleepy"]
    assert await lab.history("w") == [
        (1, "sleepy"),
        (2, "DBOS.getStatus"),
        (3, "DBOS.cancelWorkflow"),
        (4, "DBOS.getStatus"),
    ]
    await lab.backdoor.run(
        "UPDATE workflow_status SET status = 'SUCCESS' WHERE workflow_uuid = 'w-1'"
    )
    await lab.rerun("w")
    assert json.loads(await lab.output("w") or "") == first
    assert await lab.state("w-1") == "SUCCESS"


async def test_a_status_that_is_not_there_is_a_recorded_answer(lab: Lab) -> None:
    """The refusal replays even when the workflow has come into being since."""

    @workflow(name="asks")
    async def asks() -> str:
        try:
            await lab.engine.handle("later").status()
        except WorkflowNotFound as error:
            return f"no {error.workflow_id}"
        return "found"

    await lab.start(asks, child)
    assert await asks.options(id="w")() == "no later"
    (row,) = await lab.steps("w")
    assert (row["function_name"], row["output"]) == ("DBOS.getStatus", None)
    await child.options(id="later")("x")
    await lab.rerun("w")
    assert await lab.output("w") == '"no later"'


async def test_a_wait_with_a_limit_is_refused_in_a_body(memory_lab: Lab) -> None:
    """It would not replay; the message says what does, and no id is taken."""

    @workflow(name="waits")
    async def waits() -> str:
        handle = await child.start("x")
        with pytest.raises(WrongPlace, match=r"options\(timeout=\.\.\.\)"):
            await handle.result(timeout=1)
        return await handle

    await memory_lab.start(waits, child)
    assert await waits.options(id="w")() == "X"
    assert await memory_lab.history("w") == [(1, "child"), (2, "DBOS.getResult")]


async def test_another_engines_workflows_are_refused_in_a_body_and_allowed_in_a_step(
    memory_lab: Lab,
) -> None:
    """Ids come from one counter, rows would lie in two databases."""
    other = memory_lab.built(child)
    await other.start()

    @step(name="asks_there")
    async def asks_there() -> str:
        return await other.handle("there", child)

    @workflow(name="mixes")
    async def mixes() -> str:
        with pytest.raises(WrongPlace, match="another engine"):
            await child.options(engine=other).start("x")
        with pytest.raises(WrongPlace, match="another engine"):
            await other.handle("there", child).result()
        return await asks_there()

    await child.options(id="there", engine=other)("x")
    engine = memory_lab.built(mixes)
    await engine.start()
    assert await mixes.options(id="w")() == "X"
    history = await engine.workflows.steps("w")
    assert [(row.step_id, row.name) for row in history] == [(1, "asks_there")]
    assert (await other.workflows.get("there")).state is WorkflowState.SUCCESS


async def test_a_workflow_called_in_a_helper_of_the_body_is_refused(memory_lab: Lab) -> None:
    """As every other durable call; nothing is started."""

    async def helper() -> str:
        return await child("x")

    @workflow(name="spawns")
    async def spawns() -> None:
        with pytest.raises(Exception, match=r"perdure\.gather"):
            await asyncio.create_task(helper())

    await memory_lab.start(spawns, child)
    await spawns.options(id="w")()
    assert await memory_lab.count() == 1
