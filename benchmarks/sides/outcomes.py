"""When the workflows of a queue were claimed and ended, by the database's clock."""

import asyncio
import sqlite3

import asyncpg

DRAINED = """
SELECT count(*) FILTER (WHERE status = 'SUCCESS') AS ended,
    min(started_at_epoch_ms) AS first_ms, max(completed_at) AS last_ms
FROM {schema}workflow_status WHERE queue_name = '{queue}'
"""


async def drained_per_second(url: str, queue: str, count: int) -> float:
    """Wait until that many of the queue's workflows have ended; how many did so in a second."""
    look = _sqlite if url.startswith("sqlite") else _postgres
    while True:
        ended, first_ms, last_ms = await look(url, queue)
        if ended == count:
            return count * 1000 / (last_ms - first_ms)
        await asyncio.sleep(0.1)


async def _postgres(url: str, queue: str) -> tuple[int, int, int]:
    connection = await asyncpg.connect(url)
    try:
        return tuple(await connection.fetchrow(DRAINED.format(schema="dbos.", queue=queue)))
    finally:
        await connection.close()


async def _sqlite(url: str, queue: str) -> tuple[int, int, int]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)
    try:
        found: tuple[int, int, int] = connection.execute(
            DRAINED.format(schema="", queue=queue)
        ).fetchone()
        return found
    finally:
        connection.close()
