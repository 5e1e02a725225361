"""Starting many workflows in one call."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from perdure import IdPolicy, InvalidArgument, Queue, QueueDeduplicated, workflow
from perdure.errors import DatabaseRejected, DatabaseUnavailable, WorkflowIdInUse
from perdure.model.workflow import Start
from tests.support.engines import Lab
from tests.support.logged import logged
from tests.support.store import cancel
from tests.support.workflows import child

MANY = 2500


async def test_many_are_enqueued_in_few_statements_and_begun_in_their_order(lab: Lab) -> None:
    begun: list[int] = []

    @workflow(name="notes")
    async def notes(number: int) -> int:
        begun.append(number)
        return number

    engine = await lab.start(notes, queues=[Queue("q", worker_concurrency=1)])
    await engine.queues.pause("q")
    lab.store.forget()
    handles = await notes.options(queue="q").start_many([(n,) for n in range(MANY)])
    assert lab.store.counts["start"] <= 4
    assert len({handle.workflow_id for handle in handles}) == MANY
    assert (await engine.queues.depth("q")).enqueued == MANY
    await cancel(engine.kernel.store, [handle.workflow_id for handle in handles[20:]])
    await engine.queues.resume("q")
    assert [await handle for handle in handles[:20]] == list(range(20))
    assert begun == list(range(20))


async def test_without_a_queue_they_start_here_and_now(lab: Lab) -> None:
    await lab.start(child)
    handles = await child.start_many([("a",), ("b",), ("c",)])
    assert [await handle for handle in handles] == ["A", "B", "C"]
    assert await child.start_many([]) == []


async def test_options_hold_for_each_of_them(lab: Lab) -> None:
    await lab.start(child, queues=[Queue("q")], listen=[])
    bound = child.options(queue="q", priority=4, attributes={"batch": 1}, timeout=9)
    await bound.start_many([("a",), ("b",)], ids=["a", "b"])
    for workflow_id in "ab":
        row = await lab.status(workflow_id)
        assert (row["priority"], row["workflow_timeout_ms"]) == (4, 9000)
        assert json.loads(row["attributes"]) == {"batch": 1}
        assert json.loads(await lab.input(workflow_id) or "")["positionalArgs"] == [workflow_id]


async def test_ids_that_exist_are_joined(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    """So that the whole call may be repeated; other arguments are said."""
    await lab.start(child, queues=[Queue("q")])
    ids = [f"w{number}" for number in range(5)]
    bound = child.options(queue="q")
    first = await bound.start_many([(each,) for each in ids[:3]], ids=ids[:3])
    assert [await handle for handle in first] == ["W0", "W1", "W2"]
    with caplog.at_level(logging.WARNING, "perdure"):
        again = await bound.start_many([("x",), *((each,) for each in ids[1:])], ids=ids)
    assert [await handle for handle in again] == ["W0", "W1", "W2", "W3", "W4"]
    assert [record.args for record in logged(caplog)] == [("w0",)]
    assert await lab.count() == 5


async def test_all_are_tried_and_the_first_refusal_says_which_it_was(lab: Lab) -> None:
    engine = await lab.start(child, queues=[Queue("q")])
    await engine.queues.pause("q")
    await child.options(queue="q", id="w1").start("x")
    bound = child.options(queue="q", id_policy=IdPolicy.REJECT)
    with pytest.raises(WorkflowIdInUse, match="'w1'") as raised:
        await bound.start_many([("a",), ("b",), ("c",)], ids=["w0", "w1", "w2"])
    assert raised.value.__notes__ == ["(item 1 of many, counted from 0)"]
    assert await lab.count() == 3
    with pytest.raises(QueueDeduplicated) as duplicated:
        await child.options(queue="q", dedup_id="d").start_many([("a",), ("b",)])
    assert duplicated.value.__notes__ == ["(item 1 of many, counted from 0)"]
    assert await lab.count() == 4


@pytest.mark.parametrize(
    ("items", "ids", "message"),
    [
        (["ab"], None, r"a tuple of arguments, not 'ab': write \(x,\)"),
        ([("a",), ["b"]], None, "a tuple of arguments"),
        ([("a",), ("b",)], ["only one"], "2 ids"),
        ([("a",), ("b",)], "ab", "2 ids"),
        ([("a",)], [""], "id="),
        ([("a", "b")], None, "too many positional arguments"),
        ([("a",), (3,)], None, "'word'"),
    ],
)
async def test_what_cannot_be_many_calls_is_refused_before_anything_is_written(
    memory_lab: Lab, items: Any, ids: Any, message: str
) -> None:
    await memory_lab.start(child, queues=[Queue("q")])
    with pytest.raises(Exception, match=message):
        await child.options(queue="q").start_many(items, ids=ids)
    assert await memory_lab.count() == 0


async def test_the_item_that_cannot_be_stored_is_named(memory_lab: Lab) -> None:
    await memory_lab.start(child, queues=[Queue("q")])
    unstorable: Any = object()
    with pytest.raises(Exception, match="cannot store") as raised:
        await child.options(queue="q").start_many([("a",), ("b",), (unstorable,)])
    assert raised.value.__notes__ == ["(item 2 of many, counted from 0)"]
    with pytest.raises(InvalidArgument, match=r"ids=\[\.\.\.\]"):
        await child.options(queue="q", id="w").start_many([("a",)])


async def test_a_lost_answer_enqueues_nothing_twice(lab: Lab) -> None:
    """The rows are recognised by who made them."""
    engine = await lab.start(child, queues=[Queue("q")])
    lab.store.fail("start", DatabaseUnavailable("cut"), times=2, after=True)
    handles = await child.options(queue="q").start_many([(str(n),) for n in range(1500)])
    assert await lab.count() == 1500
    assert await handles[-1].result(timeout=60) == "1499"
    assert engine.is_running


async def test_a_refused_value_fails_its_own_start(lab: Lab) -> None:
    """The neighbours are written."""
    await lab.start(child, queues=[Queue("q")])
    inner: Any = lab.store.inner
    start = inner.start

    async def refusing(items: list[Start], executor_id: str) -> Any:
        if any(item.workflow.workflow_id == "bad" for item in items):
            raise DatabaseRejected("no")
        return await start(items, executor_id)

    inner.start = refusing
    with pytest.raises(DatabaseRejected) as raised:
        await child.options(queue="q").start_many(
            [("a",), ("b",), ("c",)], ids=["good", "bad", "fine"]
        )
    assert raised.value.__notes__ == ["(item 1 of many, counted from 0)"]
    assert (await lab.until("good"))["status"] == "SUCCESS"
    assert (await lab.until("fine"))["status"] == "SUCCESS"


async def test_a_call_given_up_leaves_what_was_written_to_run(lab: Lab) -> None:
    await lab.start(child, queues=[Queue("q")])
    gate = lab.store.hold("start")
    call = asyncio.ensure_future(
        child.options(queue="q").start_many([("a",), ("b",)], ids=["a", "b"])
    )
    await gate.reached()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    gate.open()
    for workflow_id in "ab":
        assert (await lab.until(workflow_id))["status"] == "SUCCESS"
