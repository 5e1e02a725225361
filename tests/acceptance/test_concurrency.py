"""Branches of one workflow: what a race records, what becomes of losers, what a replay follows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import (
    Selected,
    gather,
    map,  # noqa: A004 - the field's name
    recv,
    run_step,
    select,
    sleep,
    timeout,
    workflow,
)
from perdure.errors import CallSpent, InvalidArgument, WrongPlace
from tests.support.branches import FOREVER, break_down, hold, outputs, say, words
from tests.support.engines import Lab, settle
from tests.support.waiting import eventually
from tests.support.workflows import look


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


async def test_a_message_taken_when_the_time_is_up_is_put_back(lab: Lab) -> None:
    """It was taken in the database, and the answer came when the limit had decided."""
    ready = asyncio.Event()

    @workflow(name="limited")
    async def limited() -> list[Any]:
        await run_step("ready", ready.wait)
        try:
            found = [await timeout(recv("a"), 3_600)]
        except TimeoutError:
            found = ["late"]
        return [*found, await recv("a", timeout=FOREVER)]

    await lab.start(limited)
    handle = await limited.options(id="w").start()
    await handle.send("one", "a")
    held = lab.store.hold("receive", after=True)
    ready.set()
    await held.reached()
    await lab.until_asleep(3_500)
    lab.clock.leap(3_700)
    await eventually(lambda: not lab.clock.sleepers(3_500))
    await settle()
    held.open()
    assert await handle == ["late", "one"]
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == '["late","one"]'


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
    said = [name for _, name in await lab.history("w")].count("say")
    assert 40 + 21 <= said <= 40 + 30
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
