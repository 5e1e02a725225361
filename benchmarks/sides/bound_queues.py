"""The bound of queues: rows inserted, claimed and ended in groups, and nothing else.

`python bound_queues.py QUESTION URL ARGUMENTS-AS-JSON`
"""

import asyncio
import statistics
import time
import uuid
from pathlib import Path
from typing import Any

import asyncpg
from answering import Answer, answer
from bound import FINISH, Group
from outcomes import drained_per_second
from workers import workers

WORKER = Path(__file__).with_name("bound_worker.py")
CHANNEL = "bound"
LINE = "line"
BULK = 1000
CLAIM = 500
INPUTS = '{"namedArgs":{},"positionalArgs":[]}'

ENQUEUE = """
WITH new AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
        AS new(id, token, inputs, queue)
), inserted AS (
    INSERT INTO dbos.workflow_status (workflow_uuid, status, name, executor_id, queue_name,
        application_version, application_name, recovery_attempts, serialization, creator_xid)
    SELECT id, 'ENQUEUED', 'bound', 'bound', queue, 'bound', 'bound', 0, 'portable_json', token
    FROM new ON CONFLICT DO NOTHING RETURNING workflow_uuid
)
INSERT INTO dbos.workflow_input (workflow_uuid, inputs)
SELECT new.id, new.inputs FROM new JOIN inserted ON inserted.workflow_uuid = new.id
ON CONFLICT DO NOTHING
"""

CLAIM_ROWS = """
WITH taken AS MATERIALIZED (
    SELECT workflow_uuid FROM dbos.workflow_status
    WHERE queue_name = $3 AND status = 'ENQUEUED' AND application_name = 'bound'
        AND application_version = 'bound'
    ORDER BY priority, created_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
), claimed AS (
    UPDATE dbos.workflow_status AS row
    SET status = 'PENDING', owner_xid = $1, executor_id = 'bound', rate_limited = false,
        recovery_attempts = recovery_attempts + 1,
        started_at_epoch_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
        updated_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM taken WHERE row.workflow_uuid = taken.workflow_uuid RETURNING row.workflow_uuid
)
SELECT claimed.workflow_uuid, input.inputs
FROM claimed JOIN dbos.workflow_input AS input USING (workflow_uuid)
"""


def new_row(queue: str) -> tuple[str, str, str, str]:
    """The id, token, inputs and queue of a workflow to enqueue."""
    return str(uuid.uuid4()), str(uuid.uuid4()), INPUTS, queue


async def enqueue(url: str, arguments: dict[str, int]) -> float:
    group = Group(await asyncpg.connect(url), ENQUEUE)
    left = iter(range(arguments["workflows"]))

    async def call() -> None:
        for _ in left:
            await group.put(new_row(LINE))

    before = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(arguments["callers"])))
    return arguments["workflows"] / (time.perf_counter() - before)


async def enqueue_bulk(url: str, arguments: dict[str, int]) -> float:
    connection = await asyncpg.connect(url)
    await insert(connection, 100, LINE)
    before = time.perf_counter()
    await insert(connection, arguments["workflows"], LINE)
    return arguments["workflows"] / (time.perf_counter() - before)


async def insert(connection: asyncpg.Connection, count: int, queue: str) -> None:
    """Enqueue that many, as many in a statement as is best."""
    for size in [BULK] * (count // BULK) or [count]:
        columns = zip(*(new_row(queue) for _ in range(size)), strict=True)
        await connection.fetch(ENQUEUE, *map(list, columns))


async def drain(url: str, arguments: dict[str, int]) -> float:
    claims, ends = await asyncpg.connect(url), Group(await asyncpg.connect(url), FINISH)
    await insert(claims, arguments["workflows"], LINE)
    before = time.perf_counter()
    return await emptied(LINE, claims, ends) / (time.perf_counter() - before)


async def emptied(queue: str, claims: asyncpg.Connection, ends: Group) -> int:
    """Empty a queue, one connection claiming while another writes the outcomes; how many it had."""
    runs: list[asyncio.Task[None]] = []
    while claimed := await claim(claims, queue):
        runs += [asyncio.create_task(run(ends, *each)) for each in claimed]
    await asyncio.gather(*runs)
    return len(runs)


async def claim(connection: asyncpg.Connection, queue: str) -> list[tuple[str, str]]:
    token = str(uuid.uuid4())
    rows = await connection.fetch(CLAIM_ROWS, token, CLAIM, queue)
    return [(row["workflow_uuid"], token) for row in rows]


async def run(ends: Group, workflow_id: str, token: str) -> None:
    await ends.put((workflow_id, token, "null"))


async def drain_by_two(url: str, arguments: dict[str, int]) -> float:
    alone, together = [await drain_by(url, count, arguments["workflows"]) for count in (1, 2)]
    return together / alone


async def drain_by(url: str, processes: int, count: int) -> float:
    """Workflows per second of that many processes, all of which are there when the first begins."""
    queue = f"line-{processes}"
    connection = await asyncpg.connect(url)
    await insert(connection, count, queue)
    with workers(processes, WORKER, url):
        await connection.execute(f"NOTIFY {CHANNEL}, '{queue}'")
        return await drained_per_second(url, queue, count)


async def latency(url: str, arguments: dict[str, int]) -> float:
    """An insert and a notification on one connection, a claim on another when it is heard."""
    caller, worker = await asyncpg.connect(url), await asyncpg.connect(url)
    heard = asyncio.Event()

    def hear(*_: Any) -> None:
        heard.set()

    await worker.add_listener(CHANNEL, hear)
    took_ms = []
    for _ in range(arguments["workflows"]):
        await asyncio.sleep(0.05)
        heard.clear()
        before = time.perf_counter()
        await caller.fetch(ENQUEUE, *map(list, zip(new_row(LINE), strict=True)))
        await caller.execute(f"NOTIFY {CHANNEL}")
        await heard.wait()
        await claim(worker, LINE)
        took_ms.append((time.perf_counter() - before) * 1000)
    return statistics.median(took_ms)


ANSWERS: dict[str, Answer] = {
    "enqueue-1": enqueue,
    "enqueue-20": enqueue,
    "enqueue-bulk": enqueue_bulk,
    "drain": drain,
    "drain-2": drain_by_two,
    "enqueue-latency": latency,
}


if __name__ == "__main__":
    answer(ANSWERS)
