"""What `explain` finds in a database: the circumstances that each store reads, told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from perdure import Client, Engine, Queue, RateLimit, WorkflowNotFound, sleep, step, workflow
from perdure.logic.explaining import Cause, Explanation
from tests.support.waiting import eventually


@workflow
async def convert(file: str) -> str:
    return file


@workflow
async def hold(name: str) -> str:
    """Runs, as far as limits are concerned, until its engine stops."""
    await sleep(3600)
    return name


class Gate:
    """Where a step stands until the test lets it go on."""

    entered: asyncio.Event
    opened: asyncio.Event


@step
async def stand(name: str) -> str:
    Gate.entered.set()
    await Gate.opened.wait()
    return name


@workflow
async def busy(name: str) -> str:
    return await stand(name)


async def explained(url: str, workflow_id: str) -> Explanation:
    async with Client(url) as client:
        return await client.workflows.explain(workflow_id)


async def becomes(url: str, workflow_id: str, cause: Cause) -> Explanation:
    """What is told of the workflow once it is for that cause."""
    told: list[Explanation] = []

    async def is_so() -> bool:
        told.append(await explained(url, workflow_id))
        return told[-1].cause is cause

    try:
        await eventually(is_so)
    except AssertionError:
        pytest.fail(f"it remains {told[-1]}")
    return told[-1]


@asynccontextmanager
async def serving(url: str, queue: Queue, **options: Any) -> AsyncIterator[Engine]:
    """An engine that holds what it runs."""
    async with Engine(
        url, workflows=[hold], queues=[queue], executor_id="one", **options
    ) as engine:
        yield engine


async def enqueue(url: str, queue: Queue, *ids: str, **options: Any) -> None:
    """Put workflows into a queue from an engine that runs none, and then is gone."""
    async with Engine(url, workflows=[hold], queues=[queue], listen=[]):
        for each in ids:
            await hold.options(id=each, queue=queue, **options).start(each)


async def test_who_is_missing(shared_database_url: str) -> None:
    url, media = shared_database_url, Queue("media")
    await enqueue(url, media, "clip")
    assert (await explained(url, "clip")).cause is Cause.NO_PROCESS

    async with Engine(url, workflows=[hold], listen=["mail"]):
        told = await explained(url, "clip")
        assert told.cause is Cause.QUEUE_NOT_SERVED
        assert "/boot-" in told.text
        assert "serves mail" in told.text
    async with Engine(url, workflows=[convert]):
        told = await explained(url, "clip")
        assert told.cause is Cause.FUNCTION_NOT_SERVED
        assert "the function 'hold'" in told.text
    async with Engine(url, workflows=[hold], version="v2") as engine:
        told = await explained(url, "clip")
        assert told.cause is Cause.VERSION_NOT_SERVED
        assert "'app@default' (alive: v2)" in told.text

        await engine.queues.pause("media")
        assert (await explained(url, "clip")).cause is Cause.QUEUE_PAUSED
        await engine.queues.delete("media")
        assert (await explained(url, "clip")).cause is Cause.QUEUE_UNKNOWN


async def test_a_delay_and_an_end(shared_database_url: str) -> None:
    url, media = shared_database_url, Queue("media")
    await enqueue(url, media, "clip", delay=3600)
    told = await explained(url, "clip")
    assert told.cause is Cause.DELAYED
    async with Engine(url, workflows=[hold]) as engine:
        assert told.until_ms == (await engine.workflows.get("clip")).delay_until_ms
        assert (await explained(url, "clip")).cause is Cause.DELAYED
        await engine.handle("clip").cancel()
    assert "It was cancelled at " in (await explained(url, "clip")).text


async def test_a_workflow_that_is_not_there(shared_database_url: str) -> None:
    await enqueue(shared_database_url, Queue("media"))
    with pytest.raises(WorkflowNotFound):
        await explained(shared_database_url, "nobody")


async def test_the_global_limit_and_who_uses_it(shared_database_url: str) -> None:
    url, media = shared_database_url, Queue("media", global_concurrency=1)
    await enqueue(url, media, "clip-1", "clip-2", "clip-3")
    async with serving(url, media) as engine:
        running = await becomes(url, "clip-1", Cause.RUNNING)
        assert running.holders == ((engine.executor_id, 1),)
        told = await explained(url, "clip-3")
    assert told.cause is Cause.GLOBAL_CONCURRENCY
    assert told.holders == running.holders
    assert "1 of 1, 1 on one/boot-" in told.text
    assert told.text.endswith("; 1 workflow comes before it.")


async def test_worker_limits_bind_only_who_can_run_it(shared_database_url: str) -> None:
    url, media = shared_database_url, Queue("media", worker_concurrency=1)
    await enqueue(url, media, "clip-1", "clip-2")
    async with serving(url, media) as engine, Engine(url, workflows=[convert]):
        await becomes(url, "clip-1", Cause.RUNNING)
        told = await explained(url, "clip-2")
        assert told.cause is Cause.WORKER_CONCURRENCY
        assert told.holders == ((engine.executor_id, 1),)


async def test_a_rate_and_until_when(shared_database_url: str) -> None:
    url, media = shared_database_url, Queue("media", rate_limit=RateLimit(1, 3600))
    await enqueue(url, media, "clip-1", "clip-2")
    async with serving(url, media) as engine:
        await becomes(url, "clip-1", Cause.RUNNING)
        row = await engine.workflows.get("clip-1")
        told = await explained(url, "clip-2")
    assert told.cause is Cause.RATE_LIMIT
    assert row.started_at_ms is not None
    assert told.until_ms is not None
    assert abs(told.until_ms - row.started_at_ms - 3_600_000) <= 1


@pytest.mark.parametrize(
    ("limit", "cause"),
    [
        ({"partition_concurrency": 1}, Cause.PARTITION_CONCURRENCY),
        ({"partition_rate_limit": RateLimit(1, 3600)}, Cause.PARTITION_RATE_LIMIT),
        ({"partition_worker_concurrency": 1}, Cause.PARTITION_WORKER_CONCURRENCY),
    ],
)
async def test_the_limits_of_a_partition(
    limit: dict[str, Any], cause: Cause, shared_database_url: str
) -> None:
    url, media = shared_database_url, Queue("media", **limit)
    await enqueue(url, media, "ada-1", "ada-2", partition_key="ada")
    await enqueue(url, media, "bob-1", partition_key="bob")
    async with serving(url, media):
        await becomes(url, "ada-1", Cause.RUNNING)
        await becomes(url, "bob-1", Cause.RUNNING)
        told = await explained(url, "ada-2")
    assert told.cause is cause
    assert "artition 'ada' of queue 'media'" in told.text


async def test_others_come_first_where_a_process_is_busy(shared_database_url: str) -> None:
    url, media = shared_database_url, Queue("media")
    Gate.entered, Gate.opened = asyncio.Event(), asyncio.Event()
    async with Engine(url, workflows=[busy], queues=[media], max_running=1):
        submit = busy.options(queue=media)
        await submit.start_many([("a",), ("b",), ("c",)], ids=["a", "b", "c"])
        await Gate.entered.wait()
        try:
            assert (await explained(url, "b")).cause is Cause.ABOUT_TO_START
            told = await explained(url, "c")
        finally:
            Gate.opened.set()
    assert told.cause is Cause.BEHIND_OTHERS
    assert told.text == "1 workflow comes before it in queue 'media', where 1 runs now."


async def test_an_unknown_queue(shared_database_url: str) -> None:
    url = shared_database_url
    async with Engine(url, workflows=[convert]):
        await convert.options(id="clip", queue="nowhere", allow_unknown_queue=True).start("x")
        assert (await explained(url, "clip")).cause is Cause.QUEUE_UNKNOWN
