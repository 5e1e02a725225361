"""Scopes: how branches are numbered, closed and replayed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from perdure import (
    Selected,
    WorkflowState,
    gather,
    map,  # noqa: A004 - the name the field uses for it
    run_step,
    select,
    sleep,
    step,
    timeout,
    workflow,
)
from tests.support.engines import Lab
from tests.support.waiting import eventually

CALLS: list[Any] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    """Nothing was called yet."""
    CALLS.clear()


@step
async def note(what: Any, pause: float = 0.0) -> Any:
    """Record that it ran, after a while."""
    await asyncio.sleep(pause)
    CALLS.append(what)
    return what


@step
async def fail(what: str) -> None:
    """Fail."""
    CALLS.append(what)
    raise ValueError(what)


async def chain(name: str, length: int, pause: float = 0.0) -> str:
    """Several steps, one after the other."""
    for number in range(length):
        await note(f"{name}{number}", pause)
    return name


async def rows_of(lab: Lab, workflow_id: str) -> dict[int, str]:
    """Step ids with the names recorded under them."""
    steps = await lab.engine.workflows.steps(workflow_id)
    return {int(row.step_id): row.name for row in steps}


async def test_branches_take_ids_of_their_own_series(lab: Lab) -> None:
    """“Branch `i` of `k` then takes `base + i`, `base + i + k`”; then “the parent goes on at the
    next id above the highest taken”."""

    @workflow(name="main")
    async def main() -> list[str]:
        await note("before")
        found = await gather(chain("a", 1, 0.02), chain("b", 3), chain("c", 2, 0.01))
        await note("after")
        return found

    await lab.start(main)
    handle = await main.start()
    assert await handle == ["a", "b", "c"]
    steps = {int(row.step_id): row for row in await lab.engine.workflows.steps(handle.workflow_id)}
    outputs = {number: json.loads(row.output or "") for number, row in steps.items()}
    assert outputs == {
        1: "before",
        2: {"branches": 3},
        4: "a0",
        5: "b0",
        6: "c0",
        8: "b1",
        9: "c1",
        11: "b2",
        12: "after",
    }
    assert steps[2].name == "Perdure.gather"


async def test_nested_scopes_multiply_the_distance(lab: Lab) -> None:
    """“the rule nests, strides multiply”."""

    async def inner(name: str) -> list[str]:
        return await gather(chain(f"{name}x", 2), chain(f"{name}y", 2))

    @workflow(name="main")
    async def main() -> Any:
        found = await gather(inner("a"), inner("b"))
        await note("after")
        return found

    await lab.start(main)
    handle = await main.start()
    assert await handle == [["ax", "ay"], ["bx", "by"]]
    first = await lab.engine.workflows.steps(handle.workflow_id)
    ids = {json.loads(row.output or ""): int(row.step_id) for row in first if row.name == "note"}
    # Open and close are 1 and 2; branch a takes 3, 5, … and branch b 4, 6, …
    assert (ids["ax0"], ids["ay0"], ids["ax1"], ids["ay1"]) == (7, 9, 11, 13)
    assert (ids["bx0"], ids["by0"], ids["bx1"], ids["by1"]) == (8, 10, 12, 14)
    assert ids["after"] == 15


@pytest.mark.parametrize("kept", range(1, 12))
async def test_a_cut_history_replays_to_the_same_end(lab: Lab, kept: int) -> None:
    """Whatever was recorded is not done again, and ids are the same at every replay."""

    async def branch(name: str) -> str:
        await note(f"{name}0")
        both = await gather(note(f"{name}1"), note(f"{name}2"))
        return "".join(both)

    @workflow(name="main")
    async def main() -> list[str]:
        first = await gather(branch("a"), branch("b"), note("leaf"))
        return [*first, await note("last")]

    await lab.start(main)
    handle = await main.start()
    result = await handle
    whole = await rows_of(lab, handle.workflow_id)
    done = list(CALLS)
    await lab.forget(handle.workflow_id, sorted(whole)[kept:])
    CALLS.clear()
    await lab.rerun(handle.workflow_id)
    assert await rows_of(lab, handle.workflow_id) == whole
    assert await lab.engine.handle(handle.workflow_id, main) == result
    assert set(CALLS) <= set(done)


async def test_the_first_failure_ends_a_gather_of_coroutines(lab: Lab) -> None:
    """“Any other ending … writes the *close* row: which branch decided”; its replay follows it."""

    async def failing() -> None:
        await note("first")
        await fail("broken")

    @workflow(name="main")
    async def main() -> str:
        try:
            await gather(chain("slow", 3, 0.2), failing())
        except ValueError as error:
            return f"{error} {await note('after')}"
        return "never"

    await lab.start(main)
    handle = await main.start()
    assert await handle == "broken after"
    whole = await rows_of(lab, handle.workflow_id)
    assert whole[2] == "Perdure.gather.close"
    CALLS.clear()
    row = await lab.rerun(handle.workflow_id)
    assert row["status"] == "SUCCESS"
    assert CALLS == []
    assert await rows_of(lab, handle.workflow_id) == whole


async def test_failures_are_results_where_they_are_asked_for(lab: Lab) -> None:
    """`return_exceptions`: every branch goes to its end and no close row is written."""

    async def failing() -> None:
        await fail("broken")

    @workflow(name="main")
    async def main() -> list[str]:
        found = await gather(failing(), chain("a", 2), return_exceptions=True)
        return [str(each) for each in found]

    await lab.start(main)
    handle = await main.start()
    assert await handle == ["broken", "a"]
    assert "Perdure.gather.close" not in (await rows_of(lab, handle.workflow_id)).values()


async def test_the_winner_of_a_race_is_recorded_and_followed_alone(lab: Lab) -> None:
    """“A replay drives the deciding branch alone”."""

    @workflow(name="main")
    async def main() -> str:
        first = await select(slow=chain("slow", 5, 0.1), fast=chain("fast", 2), late=sleep(60))
        match first:
            case Selected("fast"):
                return f"{first.value} {await note('after')}"
        return "never"

    await lab.start(main)
    handle = await main.start()
    assert await handle == "fast after"
    whole = await rows_of(lab, handle.workflow_id)
    steps = {int(row.step_id): row for row in await lab.engine.workflows.steps(handle.workflow_id)}
    verdict = json.loads(steps[3].output or "")
    assert verdict["branch"] == 1
    assert json.loads(steps[verdict["highest"]].output or "") == "fast1"
    CALLS.clear()
    await lab.rerun(handle.workflow_id)
    assert CALLS == []
    assert await rows_of(lab, handle.workflow_id) == whole


async def test_a_verdict_whose_ground_was_cut_away_is_void(lab: Lab) -> None:
    """“A close row whose named highest id is missing … is void: the scope runs afresh”, and “its
    new verdict overwrites the void row”."""
    quick = "one"

    async def branch(name: str) -> str:
        await note(name, 0.0 if name == quick else 30.0)
        return name

    @workflow(name="main")
    async def main() -> str | None:
        return (await select(one=branch("one"), two=branch("two"))).name

    await lab.start(main)
    handle = await main.start()
    assert await handle == "one"
    await lab.forget(handle.workflow_id, [3])
    quick = "two"
    await lab.rerun(handle.workflow_id)
    assert await lab.engine.handle(handle.workflow_id, main) == "two"
    steps = {int(row.step_id): row for row in await lab.engine.workflows.steps(handle.workflow_id)}
    assert json.loads(steps[2].output or "")["branch"] == 1


async def test_a_losing_branch_can_do_nothing_more(lab: Lab) -> None:
    """“losers are cancelled and awaited …, can take no id and record nothing more”."""
    refusals: list[str] = []

    async def stubborn() -> None:
        try:
            await sleep(60)
        finally:
            try:
                await note("too late")
            except BaseException as error:  # noqa: BLE001 - whatever it is
                refusals.append(type(error).__name__)

    @workflow(name="main")
    async def main() -> str | None:
        return (await select(a=stubborn(), b=chain("b", 2))).name

    await lab.start(main)
    handle = await main.start()
    assert await handle == "b"
    assert refusals == ["CancelledError"]
    assert "too late" not in CALLS


async def test_a_time_limit_survives_a_restart(lab: Lab) -> None:
    """The instant is recorded before anything begins."""

    @workflow(name="main")
    async def main() -> str:
        try:
            await timeout(chain("slow", 100, 0.05), 0.3)
        except TimeoutError:
            return f"late {await note('after')}"
        return "never"

    await lab.start(main)
    handle = await main.start()
    assert await handle == "late after"
    whole = await rows_of(lab, handle.workflow_id)
    CALLS.clear()
    await lab.rerun(handle.workflow_id)
    assert CALLS == []
    assert await rows_of(lab, handle.workflow_id) == whole


@pytest.mark.usefixtures("long_release")
async def test_another_number_of_branches_is_noticed(lab: Lab) -> None:
    """“the branch count compared”: the message names the scope and both numbers."""
    number = 3
    holding = asyncio.Event()

    @workflow(name="main")
    async def main() -> None:
        await gather(*(chain(str(each), 1) for each in range(number)))
        await run_step("hold", hold)

    async def hold() -> None:
        holding.set()
        await asyncio.sleep(60)

    await lab.start(main)
    handle = await main.start()
    await holding.wait()
    number = 2
    await lab.hand_back(handle.workflow_id)
    row = await lab.until(handle.workflow_id, WorkflowState.DELAYED)
    assert row["status"] == "DELAYED"


async def test_many_branches_run_a_few_at_a_time(lab: Lab) -> None:
    """“bounded fan-out of 10,000 branches”, of which a test runs fewer."""
    inside = most = 0

    async def one(number: int) -> int:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        found: int = await note(number)
        inside -= 1
        return found * 2

    @workflow(name="main")
    async def main() -> int:
        return sum(await map(one, range(300), concurrency=10))

    await lab.start(main)
    assert await main() == sum(range(300)) * 2
    assert most == 10


async def test_a_signal_ends_every_branch_and_is_no_verdict(lab: Lab) -> None:
    """A cancelled workflow stops in all its branches; nothing is recorded as a winner."""

    async def waiting(name: str) -> None:
        await note(name)
        await sleep(60)

    @workflow(name="main")
    async def main() -> None:
        await select(waiting("a"), waiting("b"))

    await lab.start(main)
    handle = await main.start()
    await eventually(lambda: len(CALLS) == 2)
    await handle.cancel()
    row = await lab.until(handle.workflow_id)
    assert row["status"] == "CANCELLED"
    assert "Perdure.select.close" not in (await rows_of(lab, handle.workflow_id)).values()
    await lab.until_nothing_runs()


async def test_outside_a_workflow_scopes_are_plain() -> None:
    """Nothing is recorded, and the results are the same."""
    assert await gather(chain("a", 1), note("b")) == ["a", "b"]
    assert (await select(chain("slow", 1, 30), fast=note("c"))).name == "fast"
    assert await map(note, [1, 2, 3], concurrency=2) == [1, 2, 3]
    with pytest.raises(TimeoutError):
        await timeout(chain("slow", 1, 30), 0.01)


async def test_inside_a_step_scopes_are_plain(memory_lab: Lab) -> None:
    """“a step is a leaf”: only the step is recorded, whatever runs at a time in it."""

    @step(name="branches")
    async def branches() -> list[Any]:
        both = await gather(chain("a", 2), note("b"))
        first = await select(slow=sleep(60), fast=chain("c", 1))
        every = await map(note, [1, 2], concurrency=1)
        with pytest.raises(TimeoutError):
            await timeout(sleep(60), 0.01)
        return [both, first.name, every]

    @workflow(name="main")
    async def main() -> list[Any]:
        return await branches()

    await memory_lab.start(main)
    assert await main.options(id="w")() == [["a", "b"], "fast", [1, 2]]
    assert await memory_lab.history("w") == [(1, "branches")]
