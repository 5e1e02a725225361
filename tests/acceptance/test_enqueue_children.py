"""Enqueueing inside a workflow: a child like any other, and recorded refusals."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from perdure import (
    DedupPolicy,
    IdPolicy,
    InvalidArgument,
    Queue,
    QueueDeduplicated,
    UnknownQueue,
    UnknownVersion,
    workflow,
)
from perdure.errors import WorkflowIdInUse
from tests.support.engines import Lab
from tests.support.waiting import eventually
from tests.support.workflows import child, look

RESULT = "DBOS.getResult"


@workflow(name="enqueues")
async def enqueues() -> list[str]:
    """Starts one child through a queue, and runs another there."""
    handle = await child.options(queue="q").start("one")
    return [await handle, await child.options(queue="q", priority=2)("two")]


async def test_children_go_through_a_queue_under_the_ids_they_have_without_one(lab: Lab) -> None:
    """`{parent}-{step}`, linked both ways; a replay finds them."""
    await lab.start(enqueues, child, queues=[Queue("q")])
    assert await enqueues.options(id="p")() == ["ONE", "TWO"]
    expected = [(1, "child", "p-1"), (2, RESULT, "p-1"), (3, "child", "p-3"), (4, RESULT, "p-3")]
    assert await lab.links("p") == expected
    start = (await lab.steps("p"))[0]
    assert (start["output"], start["error"], start["serialization"]) == (None, None, None)
    row = await lab.status("p-3")
    assert (row["queue_name"], row["priority"], row["parent_workflow_id"]) == ("q", 2, "p")
    assert (await lab.rerun("p"))["status"] == "SUCCESS"
    assert await lab.links("p") == expected
    assert await lab.count() == 3


async def test_a_child_in_a_queue_takes_its_parent_s_deadline_as_an_instant(lab: Lab) -> None:
    """Its own timeout replaces that, and starts at the claim; None lifts it."""

    @workflow(name="bounded")
    async def bounded() -> None:
        await child.options(queue="q").start("inherits")
        await child.options(queue="q", timeout=7).start("own")
        await child.options(queue="q", timeout=None).start("none")

    engine = await lab.start(bounded, child, queues=[Queue("q")])
    await engine.queues.pause("q")
    await bounded.options(id="p", timeout=1000)()
    parent = await lab.status("p")
    found = [await lab.status(f"p-{number}") for number in (1, 2, 3)]
    bounds = [(row["workflow_timeout_ms"], row["workflow_deadline_epoch_ms"]) for row in found]
    assert bounds == [(None, parent["workflow_deadline_epoch_ms"]), (7000, None), (None, None)]


async def test_the_calls_of_one_body_are_begun_in_their_order(lab: Lab) -> None:
    begun: list[int] = []

    @workflow(name="notes")
    async def notes(number: int) -> None:
        begun.append(number)

    @workflow(name="fills")
    async def fills() -> list[str]:
        bound = notes.options(queue="q")
        return [(await bound.start(number)).workflow_id for number in range(12)]

    engine = await lab.start(fills, notes, queues=[Queue("q", worker_concurrency=1)])
    await engine.queues.pause("q")
    ids = await fills()
    await engine.queues.resume("q")
    for workflow_id in ids:
        await lab.until(workflow_id)
    assert begun == list(range(12))


Enqueue = Callable[[], Awaitable[Any]]


def catching(call: Enqueue) -> Any:
    """A workflow named `catches` that catches a refusal, and goes on."""

    @workflow(name="catches")
    async def catches() -> str:
        try:
            await call()
        except (UnknownQueue, UnknownVersion, InvalidArgument, QueueDeduplicated) as refusal:
            refused = type(refusal).__name__
        else:
            refused = "nothing"
        await look()
        return refused

    return catches


REFUSED: list[tuple[str, Enqueue]] = [
    ("UnknownQueue", lambda: child.options(queue="nowhere").start("x")),
    ("UnknownVersion", lambda: child.options(queue="q", version="v9").start("x")),
    ("InvalidArgument", lambda: child.options(queue="q", partition_key="k").start("x")),
    ("QueueDeduplicated", lambda: child.options(queue="q", dedup_id="held").start("x")),
]


@pytest.mark.parametrize(("refusal", "call"), REFUSED, ids=[name for name, _ in REFUSED])
async def test_what_the_database_refuses_is_recorded_as_the_step(
    lab: Lab, refusal: str, call: Enqueue
) -> None:
    """A body that catches it goes the same way at a replay, whatever is registered by then."""
    catches = catching(call)
    engine = await lab.start(catches, child, queues=[Queue("q")])
    await engine.queues.pause("q")
    await child.options(queue="q", dedup_id="held", id="holder").start("x")
    assert await catches.options(id="p")() == refusal
    assert await lab.links("p") == [(1, "child", None), (2, "look", None)]
    assert json.loads((await lab.steps("p"))[0]["error"])["name"] == refusal
    await engine.queues.register(Queue("nowhere"))
    await engine.queues.update("q", partitioned=True)
    await engine.kernel.store.register_version("v9")
    await engine.handle("holder").cancel()
    await lab.rerun("p")
    assert json.loads(await lab.output("p") or "") == refusal
    assert await lab.count() == 2


async def test_what_the_call_alone_refuses_takes_no_step_id(memory_lab: Lab) -> None:
    unstorable: Any = object()

    async def call() -> None:
        with pytest.raises(InvalidArgument):
            child.options(queue="q", priority=0)
        with pytest.raises(Exception, match="cannot store"):
            await child.options(queue="q").start(unstorable)
        with pytest.raises(Exception, match="cannot store"):
            await child.options(queue="q").start_many([("x",), (unstorable,)])

    catches = catching(call)
    await memory_lab.start(catches, child, queues=[Queue("q")])
    assert await catches.options(id="p")() == "nothing"
    assert await memory_lab.links("p") == [(1, "look", None)]


async def test_joining_the_holder_of_a_key_records_the_holder_and_adopts_nobody(lab: Lab) -> None:
    """The holder keeps the parent it has, or none; a replay finds it though the key is free."""

    @workflow(name="joins")
    async def joins() -> str:
        policy = DedupPolicy.RETURN_EXISTING
        return await child.options(queue="q", dedup_id="d", dedup_policy=policy)("ignored")

    engine = await lab.start(joins, child, queues=[Queue("q")])
    await engine.queues.pause("q")
    await child.options(queue="q", dedup_id="d", id="holder").start("first")
    handle = await joins.options(id="p").start()

    async def joined() -> bool:
        return bool(await lab.steps("p"))

    await eventually(joined)
    await engine.queues.resume("q")
    assert await handle.result(timeout=30) == "FIRST"
    expected = [(1, "child", "holder"), (2, RESULT, "holder")]
    assert await lab.links("p") == expected
    assert (await lab.status("holder"))["parent_workflow_id"] is None
    assert (await lab.rerun("p"))["status"] == "SUCCESS"
    assert await lab.links("p") == expected
    assert await lab.count() == 2


async def test_many_children_of_one_call_each_have_a_step(lab: Lab) -> None:
    """In the order of the items, whatever order they are written in."""

    @workflow(name="fans_out")
    async def fans_out() -> list[str]:
        handles = await child.options(queue="q").start_many([("a",), ("b",), ("c",)])
        named = await child.start_many([("d",)], ids=["named"])
        return [await handle for handle in (*handles, *named)]

    await lab.start(fans_out, child, queues=[Queue("q")])
    assert await fans_out.options(id="p")() == ["A", "B", "C", "D"]
    starts = [link for link in await lab.links("p") if link[1] == "child"]
    assert starts == [
        (1, "child", "p-1"),
        (2, "child", "p-2"),
        (3, "child", "p-3"),
        (4, "child", "named"),
    ]
    assert (await lab.rerun("p"))["status"] == "SUCCESS"
    assert await lab.count() == 5


async def test_a_refused_child_of_many_does_not_keep_the_others_from_starting(lab: Lab) -> None:
    """The first refusal is raised when all were tried, and says which item it was."""

    @workflow(name="fans_out")
    async def fans_out() -> list[str]:
        bound = child.options(queue="q", id_policy=IdPolicy.REJECT)
        with pytest.raises(WorkflowIdInUse) as raised:
            await bound.start_many([("a",), ("b",), ("c",)], ids=["a", "taken", "c"])
        return list(raised.value.__notes__)

    await lab.start(fans_out, child, queues=[Queue("q")], listen=[])
    await child.options(queue="q", id="taken").start("b")
    assert await fans_out.options(id="p")() == ["(item 1 of many, counted from 0)"]
    assert await lab.links("p") == [(1, "child", "a"), (2, "child", None), (3, "child", "c")]


async def test_a_child_by_name_is_recorded_under_its_name(lab: Lab) -> None:
    """As a child of a function that is here."""

    @workflow(name="names")
    async def names() -> str:
        return str(await (await lab.engine.enqueue("child", queue="q", args=("x",))))

    await lab.start(names, child, queues=[Queue("q")])
    assert await names.options(id="p")() == "X"
    assert await lab.links("p") == [(1, "child", "p-1"), (2, RESULT, "p-1")]
    assert (await lab.status("p-1"))["parent_workflow_id"] == "p"
    assert (await lab.rerun("p"))["status"] == "SUCCESS"
