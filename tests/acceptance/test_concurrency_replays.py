"""Branches replayed: what differs from the history is named, and what was cut away runs afresh."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import WorkflowState, gather, recv, run_step, select, sleep, step, workflow
from perdure.engine import scopes
from perdure.errors import UnexpectedStep
from tests.support.branches import FOREVER, hold, outputs, say, words
from tests.support.engines import Lab
from tests.support.waiting import eventually
from tests.support.workflows import look


async def refused_on_replay(lab: Lab, workflow_id: str) -> str:
    """What is said of a history that the code does not follow."""
    await lab.hand_back(workflow_id)
    with pytest.raises(UnexpectedStep) as refusal:
        await lab.engine.handle(workflow_id)
    await lab.until(workflow_id, WorkflowState.DELAYED)
    return str(refusal.value)


@pytest.mark.parametrize("changed", ["more", "fewer"])
async def test_another_number_of_branches_under_a_running_workflow_is_named(
    memory_lab: Lab, changed: str
) -> None:
    """The message says which scope, how many there were, and what there is now."""

    @workflow(name="races")
    async def races() -> None:
        if not is_changed:
            await select(hold(), words("a", 1))
        elif changed == "more":
            await select(hold(), words("a", 1), words("b", 1))
        else:
            await select(hold(), sleep(0))

    is_changed = False
    await memory_lab.start(races)
    await races.options(id="w")()
    is_changed = True
    said = await refused_on_replay(memory_lab, "w")
    assert "'Perdure.select' at step 2 was recorded with 1 coroutine branches" in said
    assert ("words" if changed == "more" else "'DBOS.sleep'") in said


@pytest.mark.parametrize("changed", ["hold hold look", "look", "look hold"])
async def test_other_calls_in_a_race_of_a_running_workflow_are_named(
    memory_lab: Lab, changed: str
) -> None:
    """Calls do not count as branches, but they take ids: the winner's record stands elsewhere."""
    kinds: dict[str, Any] = {"hold": hold, "look": look}

    @workflow(name="races")
    async def races() -> None:
        await select(*(kinds[word]() for word in branches.split()))

    branches = "hold look"
    await memory_lab.start(races)
    await races.options(id="w")()
    branches = changed
    assert "'look'" in await refused_on_replay(memory_lab, "w")


async def test_another_order_of_branches_is_named(memory_lab: Lab) -> None:
    """Their ids are those of their places, so that each meets the other's records."""

    async def looks() -> None:
        await look()

    @workflow(name="gathers")
    async def gathers() -> None:
        branches = [words("a", 1), looks()]
        await gather(*(reversed(branches) if is_changed else branches))

    is_changed = False
    await memory_lab.start(gathers)
    await gathers.options(id="w")()
    is_changed = True
    said = await refused_on_replay(memory_lab, "w")
    assert "at step 3 the code calls 'look' but recorded is 'say'" in said


async def test_a_deciding_branch_that_does_more_than_it_had_is_named(memory_lab: Lab) -> None:
    """It looked at what another branch did: a replay has no other branch."""
    shared: list[str] = []

    async def looks() -> str:
        await run_step("wait", lambda: eventually(lambda: shared or is_replay))
        return "alone" if shared else await say("not recorded")

    async def tells() -> None:
        shared.append(await say("x"))
        await sleep(FOREVER)

    @workflow(name="races")
    async def races() -> None:
        await select(looks(), tells())

    is_replay = False
    await memory_lab.start(races)
    await races.options(id="w")()
    shared.clear()
    is_replay = True
    said = await refused_on_replay(memory_lab, "w")
    assert "'say'" in said
    assert "share nothing but what they return" in said


async def test_a_deciding_branch_that_waits_for_another_is_named(
    memory_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay would hang: it says so instead."""
    monkeypatch.setattr(scopes, "STUCK_S", 0.05)
    told = asyncio.Event()

    async def waits() -> None:
        await say("first")
        await told.wait()

    async def tells() -> None:
        await say("x")
        told.set()
        await sleep(FOREVER)

    @workflow(name="races")
    async def races() -> None:
        await select(tells(), waits())

    await memory_lab.start(races)
    await races.options(id="w")()
    told.clear()
    said = await refused_on_replay(memory_lab, "w")
    assert "does not go on" in said


async def test_a_deciding_failure_that_is_none_any_more_is_named(memory_lab: Lab) -> None:
    """What failed the scope was not recorded."""

    async def doubts() -> None:
        await say("first")
        if not is_replay:
            raise ValueError("now")

    @workflow(name="gathers")
    async def gathers() -> str:
        with pytest.raises(ValueError, match="now"):
            await gather(doubts(), sleep(FOREVER))
        return "failed"

    is_replay = False
    await memory_lab.start(gathers)
    assert await gathers.options(id="w")() == "failed"
    is_replay = True
    assert "returned when it was replayed" in await refused_on_replay(memory_lab, "w")


async def test_a_void_verdict_gives_way_where_nothing_decides_any_more(lab: Lab) -> None:
    """The scope runs afresh, all return, and the old verdict does not come back."""

    @step
    async def doubt() -> str:
        if fails:
            raise ValueError("once")
        return "well"

    async def doubts() -> str:
        await say("a")
        return await doubt()

    @workflow(name="gathers")
    async def gathers() -> list[str]:
        try:
            return [*await gather(doubts(), words("b", 1)), await say("last")]
        except ValueError as error:
            return [str(error)]

    fails = True
    await lab.start(gathers)
    assert await gathers.options(id="w")() == ["once"]
    highest = (await outputs(lab, "w"))[2][1]["highest"]
    fails = False
    await lab.cut("w", highest)
    for _ in range(3):
        assert (await lab.rerun("w"))["status"] == "SUCCESS"
        assert await lab.output("w") == '["well","b","last"]'


async def test_a_message_taken_before_a_crash_is_put_back_if_its_call_loses_then(lab: Lab) -> None:
    """The verdict was not recorded and another branch wins: no code has seen the message."""
    go = asyncio.Event()

    async def other() -> None:
        await run_step("other", go.wait)

    @workflow(name="races")
    async def races() -> list[Any]:
        first = await select(gather(recv("a"), hold()), other())
        return [first.index, await recv("a", timeout=FOREVER)]

    await lab.start(races)
    handle = await races.options(id="w").start()
    await handle.send("one", "a")

    async def received() -> list[int]:
        return [step_id for step_id, name in await lab.history("w") if name == "DBOS.recv"]

    await eventually(received)
    before = await received()
    await lab.hand_back("w")
    await lab.until_attempts("w", 2)
    go.set()
    assert await lab.engine.handle("w") == [1, "one"]
    assert await received() != before
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == '[1,"one"]'
