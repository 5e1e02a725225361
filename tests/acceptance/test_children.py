"""Child workflows: their ids, their rows, and how they are started."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from perdure import (
    Queue,
    current,
    gather,
    step,
    workflow,
)
from perdure.errors import WrongPlace
from tests.support.engines import Lab
from tests.support.workflows import child, look

START, RESULT = "child", "DBOS.getResult"


@workflow(name="two_children")
async def two_children() -> list[str]:
    return [await child("one"), await child("two")]


async def test_children_are_named_after_parent_and_step_and_linked_both_ways(lab: Lab) -> None:
    """`{parent}-{step}`; the start is a step under the child's name, the wait another."""
    engine = await lab.start(two_children, child)
    assert await two_children.options(id="p")() == ["ONE", "TWO"]
    assert await lab.links("p") == [
        (1, START, "p-1"),
        (2, RESULT, "p-1"),
        (3, START, "p-3"),
        (4, RESULT, "p-3"),
    ]
    start, result, *_ = await lab.steps("p")
    assert (start["output"], start["error"], start["serialization"]) == (None, None, None)
    assert (result["output"], result["serialization"]) == ('"ONE"', "portable_json")
    row = await lab.status("p-1")
    assert (row["name"], row["parent_workflow_id"], row["status"]) == ("child", "p", "SUCCESS")
    found = await engine.workflows.list(parents="p")
    assert [each.workflow_id for each in found] == ["p-1", "p-3"]
    assert (await lab.status("p"))["parent_workflow_id"] is None


async def test_children_started_in_a_loop_run_at_the_same_time(memory_lab: Lab) -> None:
    """Every one of them is under way before the first one ends."""
    running, all_there = [], asyncio.Event()

    @workflow(name="meets")
    async def meets() -> str | None:
        running.append(current().workflow_id)
        if len(running) == 5:
            all_there.set()
        await all_there.wait()
        return current().workflow_id

    @workflow(name="loop")
    async def loop() -> list[str | None]:
        handles = [await meets.start() for _ in range(5)]
        return [await handle for handle in handles]

    await memory_lab.start(loop, meets)
    assert await loop.options(id="p")() == [f"p-{number}" for number in range(1, 6)]
    names = [name for _, name in await memory_lab.history("p")]
    assert names == ["meets"] * 5 + [RESULT] * 5


async def test_starts_built_in_one_order_and_driven_in_another_keep_the_order_built(
    lab: Lab,
) -> None:
    """Ids of starts, children and waits follow the source."""

    @workflow(name="crossed")
    async def crossed() -> list[str]:
        first, second, third = child.start("a"), child.start("b"), child.start("c")
        handles = {"c": await third, "b": await second, "a": await first}
        return [await handles[word] for word in "abc"]

    await lab.start(crossed, child)
    assert await crossed.options(id="p")() == ["A", "B", "C"]
    expected = [(1, START, "p-1"), (2, START, "p-2"), (3, START, "p-3")]
    expected += [(4, RESULT, "p-1"), (5, RESULT, "p-2"), (6, RESULT, "p-3")]
    assert await lab.links("p") == expected
    assert [json.loads(await lab.input(f"p-{n}") or "")["positionalArgs"] for n in (1, 2, 3)] == [
        ["a"],
        ["b"],
        ["c"],
    ]


async def test_runs_driven_together_take_both_ids_where_they_were_built(lab: Lab) -> None:
    """{start, wait} pairs stand next to each other whatever ends first."""
    last = asyncio.Event()

    @workflow(name="slow")
    async def slow(word: str) -> str:
        if word == "a":
            await last.wait()
        last.set()
        return word

    @workflow(name="together")
    async def together() -> list[str]:
        return await gather(slow("a"), slow("b"))

    await lab.start(together, slow)
    assert await together.options(id="p")() == ["a", "b"]
    assert await lab.links("p") == [
        (1, "slow", "p-1"),
        (2, RESULT, "p-1"),
        (3, "slow", "p-3"),
        (4, RESULT, "p-3"),
    ]


async def test_a_child_that_is_never_awaited_is_recorded_and_finishes(lab: Lab) -> None:
    """The parent ends without it."""
    gate = asyncio.Event()

    @workflow(name="late")
    async def late() -> str:
        await gate.wait()
        return "late"

    @workflow(name="leaves")
    async def leaves() -> str:
        await late.start()
        return "gone"

    await lab.start(leaves, late)
    assert await leaves.options(id="p")() == "gone"
    assert await lab.links("p") == [(1, "late", "p-1")]
    gate.set()
    assert (await lab.until("p-1"))["status"] == "SUCCESS"


async def test_a_start_that_is_built_and_dropped_starts_nothing(memory_lab: Lab) -> None:
    """It has spent its id."""

    @workflow(name="drops")
    async def drops() -> None:
        child.start("never")
        child("never")
        await look()

    await memory_lab.start(drops, child)
    await drops.options(id="p")()
    assert await memory_lab.history("p") == [(4, "look")]
    assert await memory_lab.count() == 1


async def test_starting_a_child_inside_a_step_is_refused(memory_lab: Lab) -> None:
    """A step that is tried again would start it again."""

    @step(name="starter")
    async def starter() -> None:
        await child.start("no")

    @workflow(name="tries")
    async def tries() -> None:
        with pytest.raises(WrongPlace, match="inside a step"):
            await starter()

    await memory_lab.start(tries, child)
    await tries.options(id="p")()
    assert await memory_lab.count() == 1
    assert json.loads((await memory_lab.steps("p"))[0]["error"])["name"] == "WrongPlace"


async def test_an_id_given_by_the_caller_wins_over_the_derived_one(lab: Lab) -> None:
    """The derived id stays unused."""

    @workflow(name="names")
    async def names() -> str:
        return await child.options(id="mine")("x")

    await lab.start(names, child)
    assert await names.options(id="p")() == "X"
    assert await lab.links("p") == [(1, START, "mine"), (2, RESULT, "mine")]
    assert (await lab.status("mine"))["parent_workflow_id"] == "p"
    assert await lab.find("p-1") is None


async def test_a_parent_joins_a_workflow_that_has_the_id_and_never_becomes_its_parent(
    lab: Lab,
) -> None:
    """The joined workflow's row is not touched; the parent reads its outcome."""

    @workflow(name="joins")
    async def joins() -> str:
        return await child.options(id="there")("ignored")

    await lab.start(joins, child)
    await child.options(id="there")("first")
    before = await lab.status("there")
    assert await joins.options(id="p")() == "FIRST"
    assert await lab.links("p") == [(1, START, "there"), (2, RESULT, "there")]
    assert await lab.status("there") == before
    assert before["parent_workflow_id"] is None


async def test_an_argument_that_cannot_be_stored_is_refused_before_any_row_or_id(
    lab: Lab,
) -> None:
    """The next call takes the id the refused one would have had."""
    unstorable: Any = object()

    @workflow(name="careless")
    async def careless() -> None:
        for call in (child.start(unstorable), child(unstorable)):
            assert call.step_id is None
            with pytest.raises(Exception, match="cannot store"):
                await call
        await look()

    await lab.start(careless, child)
    await careless.options(id="p")()
    assert await lab.history("p") == [(1, "look")]
    assert await lab.count() == 1


async def test_grandchildren_nest_their_ids(lab: Lab) -> None:
    """Each level is a child of the one above."""

    @workflow(name="middle")
    async def middle() -> str:
        return await child("deep")

    @workflow(name="top")
    async def top() -> str:
        return await middle()

    await lab.start(top, middle, child)
    assert await top.options(id="t")() == "DEEP"
    assert (await lab.status("t-1-1"))["parent_workflow_id"] == "t-1"


async def test_a_child_inherits_nothing_of_how_its_parent_was_placed(lab: Lab) -> None:
    """Neither attributes nor queue, priority, key or delay: a child has those it was given."""

    @workflow(name="top")
    async def top() -> str:
        return await child("x")

    await lab.start(top, child, queues=[Queue("q", partitioned=True)])
    placed: dict[str, Any] = {"queue": "q", "priority": 3, "partition_key": "k", "dedup_id": "d"}
    await top.options(id="t", attributes={"kind": "top"}, **placed)()
    assert (await lab.engine.workflows.get("t-1")).attributes is None
    row = await lab.status("t-1")
    columns = ("queue_name", "queue_partition_key", "deduplication_id", "delay_until_epoch_ms")
    assert [row[column] for column in columns] == [None] * 4
    assert row["priority"] == 0
