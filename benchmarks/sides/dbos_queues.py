"""The reference's side of the questions about queues: in a virtual environment with `dbos` 3.4.0.

`python dbos_queues.py QUESTION URL ARGUMENTS-AS-JSON`
"""

import asyncio
import logging
import os
import statistics
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from answering import Answer, answer
from counter import Counter
from dbos import DBOSClient
from dbos_worker import arrival, launch, noop
from workers import workers

WORKER = Path(__file__).with_name("dbos_worker.py")
LINE = "line"
ENOUGH = 2000
"""Of what others do in a moment; a rate needs no more."""
ENOUGH_OF_SLOW = 60
"""Where ten go on each second."""


async def enqueue(url: str, arguments: dict[str, int]) -> float:
    dbos = launch(url, listen=[])
    await dbos.register_queue_async(LINE)
    count = min(arguments["workflows"], ENOUGH)
    await enqueued(dbos, count // 10, arguments["callers"])
    before = time.perf_counter()
    await enqueued(dbos, count, arguments["callers"])
    return count / (time.perf_counter() - before)


async def enqueued(dbos: Any, count: int, callers: int) -> None:
    """Enqueue that many, each caller one after the other."""
    left = iter(range(count))

    async def call() -> None:
        for _ in left:
            await dbos.enqueue_workflow_async(LINE, noop)

    await asyncio.gather(*(call() for _ in range(callers)))


async def enqueue_bulk(url: str, arguments: dict[str, int]) -> float:
    """As many as fit into one transaction, which is its fastest way."""
    launch(url, listen=[])
    count = min(arguments["workflows"], ENOUGH)
    fill(url, LINE, 100)
    before = time.perf_counter()
    fill(url, LINE, count)
    return count / (time.perf_counter() - before)


def fill(url: str, queue: str, count: int) -> None:
    """Enqueue that many in one transaction."""
    client = DBOSClient(system_database_url=url, application_name="bench-app")
    options = {"queue_name": queue, "workflow_name": "noop", "app_version": "bench"}
    with client._sys_db.engine.begin() as connection:  # noqa: SLF001 - it has no other to offer
        for _ in range(count):
            client.enqueue_in_transaction(connection, options)
    client.destroy()


async def drain(url: str, arguments: dict[str, int]) -> float:
    return await drain_of(launch(url), url, LINE, arguments["workflows"])


async def sqlite_drain(url: str, arguments: dict[str, int]) -> float:
    return await drain_of(launch(url), url, LINE, min(arguments["workflows"], ENOUGH // 2))


async def drain_of(dbos: Any, url: str, queue: str, count: int, **limits: Any) -> float:
    """Workflows per second of a worker that finds that many in the queue."""
    await asyncio.to_thread(fill, url, queue, count)
    await dbos.register_queue_async(queue, **limits)
    return await asyncio.to_thread(drained_per_second, url, queue, count)


def drained_per_second(url: str, queue: str, count: int) -> float:
    """By the database's clock, from the first claim to the last outcome."""
    client = DBOSClient(system_database_url=url, application_name="bench-app")
    schema = "" if url.startswith("sqlite") else "dbos."
    drained = sa.text(
        f"SELECT count(*), min(started_at_epoch_ms), max(completed_at) FROM {schema}"  # noqa: S608
        "workflow_status WHERE queue_name = :queue AND status = 'SUCCESS'"
    )
    while True:
        with client._sys_db.engine.begin() as connection:  # noqa: SLF001 - see above
            ended, first_ms, last_ms = connection.execute(drained, {"queue": queue}).one()
        if ended == count:
            return count * 1000 / (last_ms - first_ms)
        time.sleep(0.1)


async def drain_limited(url: str, arguments: dict[str, int]) -> float:
    dbos = launch(url)
    limits: dict[str, Any] = {"worker_concurrency": 10}
    slow = await drain_of(dbos, url, "slow", ENOUGH_OF_SLOW, **limits, polling_interval_sec=1.0)
    count = min(arguments["workflows"], 10 * ENOUGH_OF_SLOW)
    fast = await drain_of(dbos, url, "fast", count, **limits, polling_interval_sec=0.01)
    return slow / fast


async def latency(url: str, arguments: dict[str, int]) -> float:
    """With the shortest poll that its documentation shows, which is its best setting here."""
    dbos = launch(url, listen=[])
    await dbos.register_queue_async(LINE, polling_interval_sec=0.01)
    with workers(1, WORKER, url):
        # Its queues are looked for once a second.
        await asyncio.sleep(2)
        took_ms = []
        for _ in range(arguments["workflows"]):
            await asyncio.sleep(0.05)
            handle = await dbos.enqueue_workflow_async(LINE, arrival, time.monotonic())
            took_ms.append(await handle.get_result(polling_interval_sec=0.05))
        return statistics.median(took_ms)


async def idle(url: str, arguments: dict[str, int]) -> float:
    counted = Counter(url)
    dbos = launch(url)
    await dbos.register_queue_async(LINE)
    for _ in range(5):
        handle = await dbos.enqueue_workflow_async(LINE, noop)
        await handle.get_result(polling_interval_sec=0.05)
    await asyncio.sleep(2)
    before = counted.total()
    await asyncio.sleep(arguments["seconds"])
    return (counted.total() - before) / arguments["seconds"]


ANSWERS: dict[str, Answer] = {
    "enqueue-1": enqueue,
    "enqueue-20": enqueue,
    "enqueue-bulk": enqueue_bulk,
    "drain": drain,
    "sqlite-drain": sqlite_drain,
    "drain-limited": drain_limited,
    "enqueue-latency": latency,
    "idle-queue": idle,
}


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    answer(ANSWERS)
    # Its threads would keep the process.
    os._exit(0)
