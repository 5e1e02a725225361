"""The bound: start → fenced steps → finish, committed in groups, and nothing else.

`python bound.py QUESTION URL ARGUMENTS-AS-JSON`
"""

import asyncio
import json
import statistics
import time
import uuid
from typing import Any

import asyncpg
from answering import Answer, answer

START = """
WITH new AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS new(id, token, inputs)
), inserted AS (
    INSERT INTO dbos.workflow_status (workflow_uuid, status, name, executor_id,
        application_version, application_name, recovery_attempts, serialization, creator_xid,
        owner_xid)
    SELECT id, 'PENDING', 'bound', 'bound', 'bound', 'bound', 1, 'portable_json', token, token
    FROM new ON CONFLICT DO NOTHING RETURNING workflow_uuid
)
INSERT INTO dbos.workflow_input (workflow_uuid, inputs)
SELECT new.id, new.inputs FROM new JOIN inserted ON inserted.workflow_uuid = new.id
ON CONFLICT DO NOTHING
"""

STEP = """
WITH new AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::int[], $4::text[], $5::bigint[])
        AS new(id, token, step, output, at)
), runs AS (
    SELECT DISTINCT id, token FROM new
), fence AS MATERIALIZED (
    SELECT row.workflow_uuid
    FROM dbos.workflow_status AS row JOIN runs ON row.workflow_uuid = runs.id
    WHERE row.status = 'PENDING' AND row.owner_xid = runs.token
    ORDER BY row.workflow_uuid FOR NO KEY UPDATE OF row SKIP LOCKED
)
INSERT INTO dbos.operation_outputs (workflow_uuid, function_id, function_name, output,
    started_at_epoch_ms, completed_at_epoch_ms, serialization, application_name)
SELECT new.id, new.step, 'step', new.output, new.at, new.at, 'portable_json', 'bound'
FROM new JOIN fence ON fence.workflow_uuid = new.id
ON CONFLICT DO NOTHING RETURNING workflow_uuid, function_id
"""

# Waits for locks: the claim of another process may hold rows for the moment that it takes to see
# that they are taken.
FINISH = """
WITH done AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS done(id, token, output)
), fence AS MATERIALIZED (
    SELECT row.workflow_uuid
    FROM dbos.workflow_status AS row JOIN done ON row.workflow_uuid = done.id
    WHERE row.status = 'PENDING' AND row.owner_xid = done.token
    ORDER BY row.workflow_uuid FOR NO KEY UPDATE OF row
), ended AS (
    UPDATE dbos.workflow_status AS row
    SET status = 'SUCCESS', owner_xid = NULL, deduplication_id = NULL,
        updated_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
        completed_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM fence WHERE row.workflow_uuid = fence.workflow_uuid RETURNING row.workflow_uuid
)
INSERT INTO dbos.workflow_output (workflow_uuid, output)
SELECT done.id, done.output FROM done JOIN ended ON ended.workflow_uuid = done.id
ON CONFLICT (workflow_uuid) DO UPDATE SET output = excluded.output
"""


class Group:
    """Commits whatever arrived while the last commit was under way."""

    def __init__(self, connection: asyncpg.Connection, statement: str) -> None:
        self._connection = connection
        self._statement = statement
        self._waiting: list[tuple[tuple[Any, ...], asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    def put(self, row: tuple[Any, ...]) -> "asyncio.Future[None]":
        """Queue a row; the future is done when it is committed."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((row, future))
        if self._task is None:
            self._task = asyncio.ensure_future(self._commit())
        return future

    async def _commit(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:1000], self._waiting[1000:]
            columns = zip(*(row for row, _ in batch), strict=True)
            await self._connection.fetch(self._statement, *map(list, columns))
            for _, future in batch:
                future.set_result(None)
            await asyncio.sleep(0)
        self._task = None


class Bound:
    """The bare loop."""

    def __init__(self, connections: list[asyncpg.Connection]) -> None:
        self._starts, self._steps, self._ends = (
            Group(connection, statement)
            for connection, statement in zip(connections, (START, STEP, FINISH), strict=True)
        )
        self.latencies: list[float] = []

    async def workflow(self, number: int, steps: int) -> None:
        """One workflow."""
        workflow_id, token = str(uuid.uuid4()), str(uuid.uuid4())
        inputs = json.dumps({"namedArgs": {}, "positionalArgs": [number]})
        await self._starts.put((workflow_id, token, inputs))
        for step in range(steps):
            before = time.time()
            output = json.dumps({"v": step})
            await self._steps.put((workflow_id, token, step + 1, output, int(before * 1000)))
            self.latencies.append(time.time() - before)
        await self._ends.put((workflow_id, token, '"ok"'))

    async def workflows(self, count: int, at_a_time: int, steps: int) -> float:
        """Run that many, so many at a time; returns the seconds it took."""
        places = asyncio.Semaphore(at_a_time)

        async def one(number: int) -> None:
            async with places:
                await self.workflow(number, steps)

        before = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(count)))
        return time.perf_counter() - before


async def _bound(url: str) -> Bound:
    return Bound([await asyncpg.connect(url) for _ in range(3)])


async def step_latency(url: str, arguments: dict[str, int]) -> float:
    bound = await _bound(url)
    await bound.workflow(0, 100)
    bound.latencies.clear()
    await bound.workflow(1, arguments["steps"])
    return statistics.median(bound.latencies) * 1000


async def rate(url: str, arguments: dict[str, int]) -> float:
    bound = await _bound(url)
    count, at_a_time = arguments["workflows"], arguments["at_a_time"]
    steps = arguments.get("steps", 0)
    await bound.workflows(count // 10, at_a_time, steps)
    seconds = await bound.workflows(count, at_a_time, steps)
    return count * (steps or 1) / seconds


ANSWERS: dict[str, Answer] = {
    "steps": rate,
    "steps-500": rate,
    "workflows": rate,
    "step-latency": step_latency,
}


if __name__ == "__main__":
    answer(ANSWERS)
