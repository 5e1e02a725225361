"""This library's side of the questions about queues.

`python perdure_queues.py QUESTION URL ARGUMENTS-AS-JSON`
"""

import asyncio
import logging
import statistics
import time
from pathlib import Path

import asyncpg
from answering import Answer, answer
from outcomes import drained_per_second
from perdure_worker import arrival, noop
from statements import Statements
from workers import workers

from perdure import Engine, Queue
from perdure.model.queue import Load
from perdure.model.workflow import Claimant, ClaimRequest, QueueShare, SharedRequest

WORKER = Path(__file__).with_name("perdure_worker.py")
CLAIM = 50
CLAIMS = 10
NO_LIMIT = 1_000_000
"""A limit that the fleet shares and that never binds: the claim counts, and takes all the same."""


def submitter(url: str, *queues: Queue) -> Engine:
    """An engine that enqueues and claims nothing."""
    return Engine(url, workflows=[noop, arrival], queues=queues, listen=[])


async def enqueue(url: str, arguments: dict[str, int]) -> float:
    async with submitter(url, line := Queue("line")):
        await enqueued(line, arguments["workflows"] // 10, arguments["callers"])
        before = time.perf_counter()
        await enqueued(line, arguments["workflows"], arguments["callers"])
        return arguments["workflows"] / (time.perf_counter() - before)


async def enqueued(line: Queue, count: int, callers: int) -> None:
    """Enqueue that many, each caller one after the other."""
    left = iter(range(count))

    async def call() -> None:
        for _ in left:
            await noop.options(queue=line).start()

    await asyncio.gather(*(call() for _ in range(callers)))


async def enqueue_bulk(url: str, arguments: dict[str, int]) -> float:
    count = arguments["workflows"]
    async with submitter(url, line := Queue("line")):
        await fill(line, 100)
        before = time.perf_counter()
        await fill(line, count)
        return count / (time.perf_counter() - before)


async def fill(line: Queue, count: int) -> None:
    await noop.options(queue=line).start_many([()] * count)


async def drain(url: str, arguments: dict[str, int]) -> float:
    return await drain_of(url, Queue("line"), arguments["workflows"])


async def drain_of(url: str, line: Queue, count: int) -> float:
    """Workflows per second of a worker that finds that many in the queue."""
    async with submitter(url, line):
        await fill(line, count)
    async with Engine(url, workflows=[noop], queues=[line]):
        return await drained_per_second(url, line.name, count)


async def drain_by_two(url: str, arguments: dict[str, int]) -> float:
    alone, together = [await drain_by(url, count, arguments["workflows"]) for count in (1, 2)]
    return together / alone


async def drain_by(url: str, processes: int, count: int) -> float:
    """Workflows per second of that many workers, all of which are there when the first begins."""
    line = Queue(f"line-{processes}")
    async with submitter(url, line) as engine:
        await engine.queues.pause(line.name)
        await fill(line, count)
        with workers(processes, WORKER, url):
            await engine.queues.resume(line.name)
            return await drained_per_second(url, line.name, count)


async def drain_limited(url: str, arguments: dict[str, int]) -> float:
    slow, fast = [
        await drain_of(
            url,
            Queue(f"line-{poll_s:g}", worker_concurrency=10, base_polling_interval=poll_s),
            arguments["workflows"],
        )
        for poll_s in (1.0, 0.01)
    ]
    return slow / fast


async def latency(url: str, arguments: dict[str, int]) -> float:
    async with submitter(url, line := Queue("line")):
        with workers(1, WORKER, url):
            took_ms = []
            for _ in range(arguments["workflows"]):
                await asyncio.sleep(0.05)
                handle = await arrival.options(queue=line).start(time.monotonic())
                took_ms.append(await handle.result())
            return statistics.median(took_ms)


async def idle(url: str, arguments: dict[str, int]) -> float:
    line = Queue("line")
    async with Engine(url, workflows=[noop], queues=[line]), Statements(url) as counted:
        for _ in range(5):
            await noop.options(queue=line)()
        await asyncio.sleep(2)
        before = await counted.total(heartbeats=False)
        await asyncio.sleep(arguments["seconds"])
        return (await counted.total(heartbeats=False) - before) / arguments["seconds"]


async def claim_backlog(url: str, arguments: dict[str, int]) -> float:
    few, many = Queue("few"), Queue("many")
    async with submitter(url, few, many) as engine:
        for line, size in ((few, arguments["few"]), (many, arguments["many"])):
            await backlog(url, line.name, size, "NULL")
        return await compared(engine, few, many, shared=False)


async def claim_backlog_shared(url: str, arguments: dict[str, int]) -> float:
    few, many = (Queue(name, global_concurrency=NO_LIMIT) for name in ("few", "many"))
    async with submitter(url, few, many) as engine:
        for line, size in ((few, arguments["few"]), (many, arguments["many"])):
            await backlog(url, line.name, size, "NULL")
        return await compared(engine, few, many, shared=True)


async def claim_partitions(url: str, arguments: dict[str, int]) -> float:
    few, many = (
        Queue(name, partitioned=True, partition_concurrency=NO_LIMIT) for name in ("few", "many")
    )
    async with submitter(url, few, many) as engine:
        for line, keys in ((few, arguments["few"]), (many, arguments["many"])):
            await backlog(url, line.name, arguments["rows"], f"'key-' || number % {keys}")
        return await compared(engine, few, many, shared=True)


async def backlog(url: str, queue: str, size: int, partition_key: str) -> None:
    """Let that many workflows wait in a queue, created one after the other."""
    connection = await asyncpg.connect(url)
    await connection.execute(
        f"""
        INSERT INTO dbos.workflow_status (workflow_uuid, status, name, queue_name,
            application_name, application_version, recovery_attempts, serialization, created_at,
            queue_partition_key)
        SELECT gen_random_uuid()::text, 'ENQUEUED', 'noop', '{queue}', 'app', 'app@default', 0,
            'portable_json', 1700000000000 + number, {partition_key}
        FROM generate_series(1, {size}) AS number
        """  # noqa: S608 - this program's own words
    )
    await connection.execute("ANALYZE dbos.workflow_status")
    await connection.close()


async def compared(engine: Engine, few: Queue, many: Queue, *, shared: bool) -> float:
    """How much longer a claim from the second queue takes: medians of several, in turn."""
    took_s: dict[str, list[float]] = {few.name: [], many.name: []}
    for queue in [few.name, many.name] * CLAIMS:
        before = time.perf_counter()
        claimed = await (claim_shared if shared else claim)(engine, queue)
        took_s[queue].append(time.perf_counter() - before)
        if claimed != CLAIM:
            raise RuntimeError(f"{claimed} workflows were claimed from {queue}")
    # The first of each prepares its statements.
    return statistics.median(took_s[many.name][1:]) / statistics.median(took_s[few.name][1:])


async def claim(engine: Engine, queue: str) -> int:
    request = ClaimRequest(await claimant(engine), (QueueShare(queue, CLAIM),))
    return len(await engine.kernel.store.claim(request))


async def claim_shared(engine: Engine, queue: str) -> int:
    request = SharedRequest(await claimant(engine), (Load(queue, running=0),), CLAIM)
    return len((await engine.kernel.store.claim_shared(request)).runs)


async def claimant(engine: Engine) -> Claimant:
    kernel = engine.kernel
    return Claimant(
        await kernel.identity.ready(),
        (noop.definition.key,),
        kernel.settings.version,
        kernel.ids.token(),
    )


ANSWERS: dict[str, Answer] = {
    "enqueue-1": enqueue,
    "enqueue-20": enqueue,
    "enqueue-bulk": enqueue_bulk,
    "drain": drain,
    "sqlite-drain": drain,
    "drain-2": drain_by_two,
    "drain-limited": drain_limited,
    "enqueue-latency": latency,
    "idle-queue": idle,
    "claim-backlog": claim_backlog,
    "claim-backlog-shared": claim_backlog_shared,
    "claim-partitions": claim_partitions,
}


if __name__ == "__main__":
    logging.disable(logging.INFO)
    answer(ANSWERS)
