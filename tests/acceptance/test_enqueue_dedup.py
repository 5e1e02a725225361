"""Deduplication ids: one live workflow of a queue holds one, and lets it go however it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import (
    DedupPolicy,
    Queue,
    QueueDeduplicated,
    WorkflowHandle,
    WorkflowState,
    workflow,
)
from perdure.errors import DatabaseUnavailable
from tests.support.engines import Lab
from tests.support.workflows import child

JOIN: dict[str, Any] = {"dedup_id": "d", "dedup_policy": DedupPolicy.RETURN_EXISTING}


@workflow(name="waits")
async def waits(word: str) -> str:
    """Waits to be ended by somebody else."""
    await asyncio.Event().wait()
    return word


async def waiting(lab: Lab) -> None:
    """An engine with two queues from which nothing is begun."""
    engine = await lab.start(child, waits, queues=[Queue("q"), Queue("r")])
    await engine.queues.pause("q")
    await engine.queues.pause("r")


async def test_a_second_workflow_is_rejected_while_the_first_waits_or_runs(lab: Lab) -> None:
    """The error names queue, key and holder; nothing is written."""
    await waiting(lab)
    await child.options(queue="q", dedup_id="d", id="first").start("x")
    with pytest.raises(QueueDeduplicated, match=r"'q'.*'d' is held by workflow 'first'") as raised:
        await child.options(queue="q", dedup_id="d", id="second").start("y")
    error = raised.value
    assert (error.queue, error.dedup_id, error.holder) == ("q", "d", "first")
    assert error.workflow_id == "second"
    assert await lab.count() == 1
    assert (await lab.status("first"))["deduplication_id"] == "d"


async def test_the_key_is_one_of_its_queue_whatever_is_enqueued(lab: Lab) -> None:
    """Across partitions, functions, and calls by name; another queue has keys of its own."""
    await waiting(lab)
    engine = lab.engine
    await engine.queues.register(Queue("parts", partitioned=True))
    await engine.queues.pause("parts")
    await child.options(queue="parts", dedup_id="d", partition_key="a", id="first").start("x")
    for start in (
        child.options(queue="parts", dedup_id="d", partition_key="b").start("y"),
        waits.options(queue="parts", dedup_id="d", partition_key="a").start("y"),
        engine.enqueue("other", queue="parts", dedup_id="d", partition_key="a"),
    ):
        with pytest.raises(QueueDeduplicated, match="'first'"):
            await start
    await child.options(queue="q", dedup_id="d").start("y")
    assert await lab.count() == 2


async def test_returning_the_existing_one_joins_its_result(lab: Lab) -> None:
    """No second row, and this call's arguments are not used."""
    await waiting(lab)
    first = await child.options(queue="q", **JOIN).start("x")
    second = await child.options(queue="q", **JOIN).start("y")
    assert second.workflow_id == first.workflow_id
    assert await lab.count() == 1
    await lab.engine.queues.resume("q")
    assert [await first.result(timeout=30), await second.result(timeout=30)] == ["X", "X"]
    third = await child.options(queue="q", **JOIN).start("z")
    assert third.workflow_id != first.workflow_id
    assert await third.result(timeout=30) == "Z"


async def test_the_holder_must_be_a_workflow_of_the_same_function_to_be_returned(lab: Lab) -> None:
    """Its result would be read as what it is not."""
    await waiting(lab)
    await child.options(queue="q", dedup_id="d", id="first").start("x")
    with pytest.raises(QueueDeduplicated, match="'first'"):
        await waits.options(queue="q", **JOIN).start("y")


async def test_an_id_says_more_than_a_deduplication_id(lab: Lab) -> None:
    """The same call repeated joins its own workflow, whoever holds the key by then."""
    await waiting(lab)
    bound = child.options(queue="q", dedup_id="d", id="first")
    await bound.start("x")
    assert (await bound.start("x")).workflow_id == "first"
    assert await lab.count() == 1


async def ends(lab: Lab, how: str, holder: WorkflowHandle[str]) -> None:
    """Let the workflow that holds the key end in that way."""
    queues = lab.engine.queues
    if how == "cancelled in the queue":
        await holder.cancel()
        return
    await queues.resume("q")
    if how == "cancelled at work":
        await lab.until(holder.workflow_id, WorkflowState.PENDING)
        await holder.cancel()
    if how == "timed out":
        await lab.until(holder.workflow_id, WorkflowState.PENDING)
        lab.clock.leap(10)


@pytest.mark.parametrize(
    ("how", "state"),
    [
        ("success", "SUCCESS"),
        ("error", "ERROR"),
        ("cancelled in the queue", "CANCELLED"),
        ("cancelled at work", "CANCELLED"),
        ("timed out", "CANCELLED"),
    ],
)
async def test_the_key_is_free_after_every_end(lab: Lab, how: str, state: str) -> None:
    await waiting(lab)
    word = {"success": "x", "error": "fail"}.get(how)
    options: dict[str, Any] = {"queue": "q", "dedup_id": "d", "id": "w"}
    if how == "timed out":
        options["timeout"] = 5
    called = waits if word is None else child
    holder = await called.options(**options).start(word or "x")
    await ends(lab, how, holder)
    row = await lab.until("w")
    assert (row["status"], row["deduplication_id"]) == (state, None)
    await lab.engine.queues.resume("q")
    assert await child.options(queue="q", dedup_id="d")("next") == "NEXT"


async def test_one_of_many_at_once_is_admitted(shared_lab: Lab) -> None:
    """Twelve calls from three engines: eleven typed refusals, one execution."""
    lab = shared_lab
    begun: list[int] = []

    @workflow(name="counts")
    async def counts(number: int) -> int:
        begun.append(number)
        return number

    engines = [await lab.start(counts, queues=[Queue("q")]) for _ in range(3)]
    await engines[0].queues.pause("q")
    outcomes = await asyncio.gather(
        *(
            counts.options(queue="q", dedup_id="d", engine=engines[n % 3]).start(n)
            for n in range(12)
        ),
        return_exceptions=True,
    )
    handles = [each for each in outcomes if isinstance(each, WorkflowHandle)]
    assert len(handles) == 1
    assert sum(isinstance(each, QueueDeduplicated) for each in outcomes) == 11
    await engines[0].queues.resume("q")
    assert [await handles[0].result(timeout=30)] == begun


async def test_a_holder_that_ends_meanwhile_is_joined_or_replaced(lab: Lab) -> None:
    """Each call gives a workflow that runs to its end: never nothing, never an error."""
    await lab.start(child, queues=[Queue("q")])
    found: set[str] = set()

    async def call(number: int) -> str:
        handle = await child.options(queue="q", **JOIN).start(str(number))
        found.add(handle.workflow_id)
        return await handle.result(timeout=60)

    for first in range(0, 120, 12):
        results = await asyncio.gather(*(call(first + n) for n in range(12)))
        assert set(results) <= {str(n) for n in range(first + 12)}
    assert 1 <= len(found) == await lab.count()


async def test_the_key_is_held_while_its_holder_is_delayed(lab: Lab) -> None:
    await lab.start(child, queues=[Queue("q")])
    holder = await child.options(queue="q", dedup_id="d", delay=60).start("x")
    with pytest.raises(QueueDeduplicated):
        await child.options(queue="q", dedup_id="d").start("y")
    lab.clock.leap(70)
    assert await holder.result(timeout=30) == "X"
    assert await child.options(queue="q", dedup_id="d")("y") == "Y"


async def test_a_start_whose_answer_was_lost_is_not_its_own_duplicate(lab: Lab) -> None:
    """The repeated write recognises its row by who made it."""
    await waiting(lab)
    lab.store.fail("start", DatabaseUnavailable("cut"), after=True)
    handle = await child.options(queue="q", dedup_id="d").start("x")
    assert await lab.count() == 1
    await lab.engine.queues.resume("q")
    assert await handle.result(timeout=30) == "X"
    assert lab.store.counts["start"] == 2
