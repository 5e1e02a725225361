"""Branches of one workflow: what a race records, what becomes of losers, what a replay follows."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from perdure import (
    Selected,
    WorkflowState,
    gather,
    map,  # noqa: A004 - the field's name
    recv,
    run_step,
    select,
    sleep,
    step,
    timeout,
    workflow,
)
from perdure.engine import scopes
from perdure.errors import CallSpent, InvalidArgument, UnexpectedStep, WrongPlace
from tests.support.engines import Lab
from tests.support.waiting import eventually
from tests.support.workflows import look

FOREVER = 1e6


@step
async def say(word: str) -> str:
    """The word."""
    return word


@step
async def hold() -> None:
    """Take for ever."""
    await asyncio.sleep(FOREVER)


@step
async def break_down(word: str) -> str:
    """Fail."""
    raise ValueError(word)


async def words(name: str, count: int) -> str:
    """Several steps."""
    for number in range(count):
        await say(f"{name}{number}")
    return name


async def outputs(lab: Lab, workflow_id: str) -> dict[int, tuple[str, Any]]:
    """The names and values recorded under each id."""
    return {
        row["function_id"]: (row["function_name"], json.loads(row["output"] or "null"))
        for row in await lab.steps(workflow_id)
    }


async def until_recorded(lab: Lab, workflow_id: str, count: int) -> None:
    """Wait until that many steps are recorded."""

    async def arrived() -> bool:
        return len(await lab.steps(workflow_id)) >= count

    await eventually(arrived)


async def test_pending_calls_of_a_race_keep_their_ids_and_do_not_count(lab: Lab) -> None:
    """Two ids after those of the pending calls; `k` counts the coroutines alone."""

    @workflow(name="races")
    async def races() -> list[Any]:
        first = await select(hold(), words("a", 1), say("leaf"))
        await look()
        return [first.index, first.value]

    await lab.start(races)
    assert await races.options(id="w")() in ([1, "a"], [2, "leaf"])
    rows = await outputs(lab, "w")
    assert rows[3] == ("Perdure.select", {"branches": 1})
    name, verdict = rows[4]
    assert name == "Perdure.select.close"
    assert verdict["highest"] == {1: 5, 2: 2}[verdict["branch"]]
    assert rows[verdict["next_id"]][0] == "look"
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert await outputs(lab, "w") == rows


async def test_a_race_of_calls_alone_records_its_verdict_with_what_opened_it(lab: Lab) -> None:
    """The winner's record, the open row and the verdict; losers leave nothing."""

    @workflow(name="races")
    async def races() -> str:
        first: Selected[Any] = await select(slow=hold(), fast=say("fast"))
        match first:
            case Selected("fast"):
                return f"{first.value} {first.index}"
        return "slow"

    await lab.start(races)
    assert await races.options(id="w")() == "fast 1"
    assert await outputs(lab, "w") == {
        2: ("say", "fast"),
        3: ("Perdure.select", {"branches": 0}),
        4: ("Perdure.select.close", {"branch": 1, "highest": 2, "next_id": 5}),
    }


async def test_a_race_of_nothing_is_refused(memory_lab: Lab) -> None:
    """Before an id is taken; a fan-out of nothing is an empty list and takes none either."""

    @workflow(name="races")
    async def races() -> list[Any]:
        with pytest.raises(InvalidArgument, match="at least one branch"):
            await select()
        found = await map(words, [])
        await look()
        return found

    await memory_lab.start(races)
    assert await races.options(id="w")() == []
    assert await memory_lab.history("w") == [(1, "look")]


async def test_a_failure_wins_as_well(lab: Lab) -> None:
    """The result says which branch, and raises where its value is asked for."""

    @workflow(name="races")
    async def races() -> str:
        first: Selected[Any] = await select(hold(), bad=break_down("broken"))
        assert isinstance(first.error, ValueError)
        with pytest.raises(ValueError, match="broken"):
            assert first.value
        return f"{first.name}: {first.error}"

    await lab.start(races)
    assert await races.options(id="w")() == "bad: broken"
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == '"bad: broken"'


async def test_a_call_that_lost_is_spent_and_a_child_that_lost_goes_on(lab: Lab) -> None:
    """Only the wait for the child ends; awaiting the call again raises, at a replay too."""
    go = asyncio.Event()

    @workflow(name="inner")
    async def inner() -> str:
        await run_step("wait", go.wait)
        return "done"

    @workflow(name="races")
    async def races() -> str:
        child = inner.options(id="inner")()
        await select(child, words("a", 2))
        with pytest.raises(CallSpent):
            await child
        await run_step("go", go.set)
        return str(await (await inner.options(id="inner").start()).result())

    await lab.start(races, inner)
    assert await races.options(id="w")() == "done"
    assert (await lab.rerun("w"))["status"] == "SUCCESS"


async def test_a_message_that_a_loser_took_unseen_is_put_back(lab: Lab) -> None:
    """Unconsumed, its row deleted; the next `recv` gets it."""

    @workflow(name="races")
    async def races() -> list[Any]:
        await run_step("ready", ready.wait)
        first = await select(recv("a"), recv("b"))
        return [first.index, first.value, await recv("b", timeout=FOREVER)]

    ready = asyncio.Event()
    await lab.start(races)
    handle = await races.options(id="w").start()
    await handle.send("one", "a")
    await handle.send("two", "b")
    ready.set()
    assert await handle == [0, "one", "two"]
    received = [row for row in await lab.steps("w") if row["function_name"] == "DBOS.recv"]
    assert [row["output"] for row in received] == ['"one"', '"two"']
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == '[0,"one","two"]'


async def test_a_message_that_the_code_of_a_loser_saw_is_consumed(lab: Lab) -> None:
    """It may have acted on it; only what no code saw goes back."""
    seen: list[Any] = []

    async def listens() -> None:
        seen.append(await recv("a"))
        await sleep(FOREVER)

    async def answers() -> None:
        await run_step("wait", lambda: eventually(lambda: seen))

    @workflow(name="races")
    async def races() -> Any:
        await select(listens(), answers())
        return await recv("a", timeout=0.001)

    await lab.start(races)
    handle = await races.options(id="w").start()
    await handle.send("one", "a")
    assert await handle is None
    assert seen == ["one"]
    assert (await lab.rerun("w"))["status"] == "SUCCESS"


async def test_a_time_limit_is_an_instant_that_a_restart_does_not_move(lab: Lab) -> None:
    """The open row holds it before any branch begins; what is left counts."""

    @workflow(name="limited")
    async def limited() -> str:
        try:
            await timeout(sleep(FOREVER), 3_600)
        except TimeoutError as error:
            return str(error)
        return "never"

    await lab.start(limited)
    await limited.options(id="w").start()
    await until_recorded(lab, "w", 2)
    lab.clock.leap(3_000)
    await lab.hand_back("w")
    await lab.until_attempts("w", 2)
    await lab.until_asleep_for(500, 610)
    lab.clock.leap(700)
    assert (await lab.until("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == '"not done within 3600 s"'
    rows = await outputs(lab, "w")
    assert rows[3][1] == {"branch": -1, "highest": None, "next_id": 4}


async def test_a_branch_that_ends_in_time_is_not_limited(lab: Lab) -> None:
    """Its value or its own failure; a replay needs no clock."""

    @workflow(name="limited")
    async def limited() -> list[str]:
        found = [await timeout(words("a", 2), 3_600)]
        try:
            await timeout(break_down("b"), 3_600)
        except ValueError as error:
            found.append(str(error))
        return found

    await lab.start(limited)
    assert await limited.options(id="w")() == ["a", "b"]
    lab.clock.leap(4_000)
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == '["a","b"]'


async def test_scopes_are_branches_of_scopes(lab: Lab) -> None:
    """A race of a gather and a time limit, each with ids of its own series."""

    @workflow(name="nests")
    async def nests() -> list[Any]:
        both = gather(words("a", 2), words("b", 1))
        limited = timeout(hold(), 3_600)
        first: Selected[Any] = await select(both, limited)
        return [first.index, first.value, await say("after")]

    await lab.start(nests)
    assert await nests.options(id="w")() == [0, ["a", "b"], "after"]
    rows = await outputs(lab, "w")
    # Open and close of the gather are 1 and 2, the step that is held 3, 4 and 5 the timeout's, 6
    # and 7 the race's. The gather is branch 0 of two: 8, 10, 12, …, its own branches every second.
    assert {value: key for key, (name, value) in rows.items() if name == "say"} == {
        "a0": 8,
        "b0": 10,
        "a1": 12,
        "after": rows[7][1]["next_id"],
    }
    assert rows[6][1] == {"branches": 2}
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert await outputs(lab, "w") == rows


async def test_a_scope_is_open_before_anything_stands_in_it(lab: Lab) -> None:
    """The open rows of all scopes around are written with the first record, or before a child."""

    @workflow(name="inner")
    async def inner(word: str) -> str:
        return word

    async def begins() -> list[Any]:
        return await gather(words("a", 2), _start("x"), select(say("b"), hold()))

    async def _start(word: str) -> Any:
        return await inner(word)

    @workflow(name="nests")
    async def nests() -> None:
        await gather(begins(), begins(), _start("y"))

    await lab.start(nests, inner)
    await nests.options(id="w")()
    written: set[int] = set()
    for call in lab.store.calls:
        if call.method not in ("record", "start", "close_scopes"):
            continue
        for item in call.items:
            row = getattr(item, "caller", None) or getattr(item, "checkpoint", item)
            if getattr(row, "step_id", None) is not None and row.workflow_id == "w":
                assert row.step_id in (1, 2) or 1 in written
                written.add(row.step_id)
    assert 1 in written


async def test_what_is_built_while_a_scope_of_the_place_runs_is_refused(lab: Lab) -> None:
    """Ids would depend on scheduling: two scopes at once, or a call beside a scope."""

    @workflow(name="two")
    async def two() -> str:
        with pytest.raises(WrongPlace, match=r"perdure\.gather"):
            await asyncio.gather(gather(words("a", 1)), gather(words("b", 1)))
        return "refused"

    @workflow(name="beside")
    async def beside() -> list[str]:
        scope = asyncio.ensure_future(gather(words("a", 1)))
        await asyncio.sleep(0)
        with pytest.raises(WrongPlace, match="under way"):
            say("b")
        return await scope

    @workflow(name="calls")
    async def calls() -> list[Any]:
        pairs = await asyncio.gather(
            gather(say("a"), say("b")), gather(say("c"), say("d")), return_exceptions=True
        )
        return [each for pair in pairs for each in pair]

    await lab.start(two, beside, calls)
    assert await two() == "refused"
    assert await beside() == ["a"]
    assert await calls() == ["a", "b", "c", "d"]


async def test_ids_that_leave_the_column_are_refused(memory_lab: Lab) -> None:
    """Strides multiply; the refusal names child workflows."""

    async def deep(number: int, level: int) -> str:
        if number < 299:
            return ""
        if level == 0:
            return await say("deep")

        async def deeper(inner: int) -> str:
            return await deep(inner, level - 1)

        return (await map(deeper, range(300)))[-1]

    @workflow(name="nests")
    async def nests() -> str:
        return await deep(299, 4)

    await memory_lab.start(nests)
    with pytest.raises(InvalidArgument, match="child workflows"):
        await nests()


async def test_a_fan_out_keeps_to_its_limit_and_order(lab: Lab) -> None:
    """Results in the order of items; the first failure ends it, `return_exceptions` does not."""
    inside = most = 0

    async def one(number: int) -> int:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await say(str(number))
        inside -= 1
        if number == 20:
            await break_down("twenty")
        return number

    @workflow(name="fans_out")
    async def fans_out() -> list[Any]:
        found = await map(one, range(40), concurrency=3, return_exceptions=True)
        failed = [str(each) for each in found if isinstance(each, ValueError)]
        with pytest.raises(ValueError, match="twenty"):
            await map(one, range(40), concurrency=3)
        return [*failed, len(found)]

    await lab.start(fans_out)
    assert await fans_out.options(id="w")() == ["twenty", 40]
    assert most == 3
    assert len([1 for name, _ in await lab.history("w") if name == "say"]) <= 40 + 24
    assert (await lab.rerun("w"))["status"] == "SUCCESS"


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
