"""Waiting for several workflows: for the first that ends, or for all, in one shared wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import (
    Client,
    Engine,
    InvalidArgument,
    WorkflowHandle,
    WorkflowState,
    gather,
    join,
    select_workflow,
    step,
    workflow,
)
from perdure.errors import NotRunning, WaitInterrupted, WrongPlace
from perdure.model.ids import WorkflowId
from tests.support.engines import Lab, names
from tests.support.talking import gate, insert_workflow, of, open_gate
from tests.support.waiting import eventually
from tests.support.workflows import child, look


@workflow(name="gated child")
async def gated(word: str) -> str:
    await gate(word)
    return word.upper()


async def started(lab: Lab, *ids: str) -> list[WorkflowHandle[str]]:
    """A gated workflow of each id, whose gate is the store's and the id's."""
    return [await gated.options(id=each).start(f"{lab.kind} {each}") for each in ids]


def release(lab: Lab, *ids: str) -> None:
    for each in ids:
        open_gate(f"{lab.kind} {each}")


async def test_the_first_to_end_is_reported_and_the_others_go_on(lab: Lab) -> None:
    """Neither the first named nor the first started."""
    await lab.start(gated)
    handles = await started(lab, "first a", "first b", "first c")
    waiting = asyncio.ensure_future(of(select_workflow(handles)))
    release(lab, "first b")
    assert await waiting == "first b"
    assert [await lab.state(each) for each in ("first a", "first c")] == ["PENDING"] * 2
    assert await select_workflow(["first c", "first b", "first b"]) == "first b"


@pytest.mark.parametrize("state", ["CANCELLED", "ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"])
async def test_however_it_ended_it_has_ended(lab: Lab, state: str) -> None:
    await lab.start(gated)
    await insert_workflow(lab, "over", status=state)
    await insert_workflow(lab, "runs", status="PENDING")
    assert await select_workflow(["nobody", "runs", "over"]) == "over"
    await join(["over", "over"])


async def test_all_are_waited_for(lab: Lab) -> None:
    """Then each result is there at once; waiting for none is done."""
    await lab.start(gated)
    handles = await started(lab, "all a", "all b", "all c")
    waiting = asyncio.ensure_future(of(join(handles)))
    release(lab, "all a", "all b")
    await lab.until("all a")
    await lab.until("all b")
    assert not waiting.done()
    release(lab, "all c")
    await waiting
    assert [await each for each in handles] == [f"{lab.kind} all {x}".upper() for x in "abc"]
    await join([])
    with pytest.raises(InvalidArgument, match="at least one workflow"):
        await select_workflow([])


async def test_in_a_workflow_the_first_is_a_step_and_all_is_none(lab: Lab) -> None:
    """The winner's id is the record; ids are those of building, whatever is awaited first."""

    @workflow(name="waits")
    async def waits() -> str:
        handles = [await child.options(id=each).start(each) for each in ("one", "two")]
        first, everybody, last = select_workflow(handles), join(handles), look()
        assert [first.step_id, everybody.step_id, last.step_id] == [3, None, 4]
        await last
        await everybody
        return await first

    await lab.start(waits, child)
    winner = await waits.options(id="w")()
    assert winner in {"one", "two"}
    assert names(await lab.history("w")) == ["child", "child", "DBOS.waitFirst", "look"]
    assert (await lab.steps("w"))[2]["output"] == f'"{winner}"'
    await lab.backdoor.run("UPDATE operation_outputs SET output = '\"two\"' WHERE function_id = 3")
    await lab.rerun("w")
    assert await lab.output("w") == '"two"'


async def test_a_recorded_winner_must_be_among_those_waited_for(lab: Lab) -> None:
    """Other code, or another list, is a difference between code and history."""

    def waiting(*ids: str) -> Any:
        @workflow(name="waits")
        async def waits() -> str:
            return await select_workflow(ids)

        return waits

    before = waiting("a", "b")
    await lab.start(before)
    await insert_workflow(lab, "b")
    assert await before.options(id="w")() == "b"
    await lab.replace(waiting("a", "c"))
    assert (await lab.rerun("w"))["status"] == "DELAYED"


async def test_the_refusal_of_an_empty_list_is_recorded(lab: Lab) -> None:
    """A replay raises it though there is something to wait for by then."""
    ids: list[str] = []

    @workflow(name="waits")
    async def waits() -> str:
        try:
            return await select_workflow(ids)
        except InvalidArgument:
            await look()
            return "none"

    await lab.start(waits)
    await insert_workflow(lab, "over")
    assert await waits.options(id="w")() == "none"
    assert await lab.history("w") == [(1, "DBOS.waitFirst"), (2, "look")]
    ids.append("over")
    await lab.rerun("w")
    assert await lab.output("w") == '"none"'


async def test_only_the_winner_is_asked_for_its_result(lab: Lab) -> None:
    """A replay takes the same arm, though the loser has not ended, and waits for nobody."""

    @workflow(name="races")
    async def races() -> str:
        slow = await gated.options(id="slow").start(f"{lab.kind} slow")
        fast = await child.options(id="fast").start("fast")
        match await select_workflow([slow, fast]):
            case "fast":
                return f"fast: {await fast}"
            case _:
                return f"slow: {await slow}"

    await lab.start(races, gated, child)
    assert await races.options(id="w")() == "fast: FAST"
    assert names(await lab.history("w")) == [
        "gated child",
        "child",
        "DBOS.waitFirst",
        "DBOS.getResult",
    ]
    await lab.cut("w", 4)
    await lab.rerun("w")
    assert await lab.output("w") == '"fast: FAST"'
    assert await lab.state("slow") == "PENDING"


async def test_all_results_come_in_the_order_of_the_source(lab: Lab) -> None:
    """The wait leaves no row; a failure is that of its result."""

    @workflow(name="joins")
    async def joins() -> list[str]:
        handles = [await child.options(id=each).start(each) for each in ("b", "a", "c")]
        await join(handles)
        return [await each for each in handles]

    await lab.start(joins, child)
    assert await joins.options(id="w")() == ["B", "A", "C"]
    assert names(await lab.history("w")) == ["child"] * 3 + ["DBOS.getResult"] * 3


async def test_inside_a_step_both_are_plain(memory_lab: Lab) -> None:
    @step(name="waits")
    async def waits() -> str:
        await join(["over"])
        return await select_workflow(["over"])

    @workflow(name="outer")
    async def outer() -> str:
        return await waits()

    await memory_lab.start(outer)
    await insert_workflow(memory_lab, "over")
    assert await outer.options(id="w")() == "over"
    assert await memory_lab.history("w") == [(1, "waits")]


async def test_workflows_of_two_engines_are_not_waited_for_together(memory_lab: Lab) -> None:
    """Those of another engine are waited for on that one, or in a step."""
    others: list[Any] = []

    @workflow(name="mixes")
    async def mixes() -> None:
        own = await child.options(id="own").start("x")
        for wait in (select_workflow([own, *others]), join([*others])):
            assert wait.step_id is None
            with pytest.raises(WrongPlace, match="of one engine"):
                await wait

    engine = await memory_lab.start(mixes, child)
    async with Engine("memory:", workflows=[child]) as second:
        others.append(await child.options(id="other", engine=second).start("y"))
        assert await select_workflow(others) == "other"
        await mixes.options(id="w", engine=engine)()
        with pytest.raises(WrongPlace, match="of one engine"):
            await join([*others, engine.handle("own")])
    with pytest.raises(NotRunning):
        await join(others)


async def test_a_workflow_that_waits_is_released_and_cancelled_at_once(shared_lab: Lab) -> None:
    """It only waits, however long the grace, and whatever it waits for; so does who is outside."""
    lab = shared_lab

    @workflow(name="waits for")
    async def waits_for(how: str) -> None:
        await (join(["nobody"]) if how == "all" else select_workflow(["nobody"]))

    @workflow(name="gathers")
    async def gathers() -> None:
        await gather(join(["nobody"]), select_workflow(["nobody"]))

    engine = await lab.start(waits_for, gathers, grace=3_600)
    cancelled = [await waits_for.options(id=f"c {how}").start(how) for how in ("all", "first")]
    for how in ("all", "first"):
        await waits_for.options(id=f"s {how}").start(how)
    await gathers.options(id="s both").start()
    outside = [asyncio.ensure_future(of(each(["nobody"]))) for each in (join, select_workflow)]
    await eventually(lambda: engine.kernel.waiter.waited_for(WorkflowId("nobody")) == 8)
    for handle in cancelled:
        await handle.cancel()
        await lab.until(handle.workflow_id, WorkflowState.CANCELLED)
    await engine.stop()
    for workflow_id in ("s all", "s first", "s both"):
        assert await lab.state(workflow_id) == "ENQUEUED"
    for each in outside:
        with pytest.raises(WaitInterrupted):
            await each


async def test_a_thousand_waits_are_one_statement_at_a_time(memory_lab: Lab) -> None:
    """And what is not asked about any more is forgotten."""
    engine = await memory_lab.start(child)
    ids = [f"w{number}" for number in range(1_000)]
    waiting = asyncio.ensure_future(of(join(ids)))
    first = asyncio.ensure_future(of(select_workflow(ids)))
    await eventually(lambda: memory_lab.store.counts["settled"] >= 3)
    asked = [call.items for call in memory_lab.store.calls if call.method == "settled"]
    assert {len(items) for items in asked} == {1_000}
    await insert_workflow(memory_lab, "w7")
    assert await first == "w7"
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert engine.kernel.waiter.waited_for(WorkflowId("w8")) == 0


async def test_a_client_waits_for_workflows_of_others(shared_lab: Lab) -> None:
    """For the first and for all, also for one without a row; until the client is closed."""
    lab = shared_lab
    await lab.start(gated)
    ids = ["client a", "client b"]
    await started(lab, *ids)
    client = Client(lab.url)
    with pytest.raises(NotRunning):
        await client.join(ids)
    async with client:
        with pytest.raises(InvalidArgument):
            await client.select_workflow([])
        both = asyncio.ensure_future(client.join(ids))
        first = asyncio.ensure_future(client.select_workflow(["nobody", *ids]))
        release(lab, "client b")
        assert await first == "client b"
        assert not both.done()
        release(lab, "client a")
        await both
        left = asyncio.ensure_future(client.join(["nobody"]))
        await asyncio.sleep(0)
    with pytest.raises(WaitInterrupted):
        await left
