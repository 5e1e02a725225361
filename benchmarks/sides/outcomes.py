"""When the workflows of a queue were claimed and ended, by the database's clock."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

LEFT = """
SELECT EXISTS (
    SELECT 1 FROM {schema}workflow_status
    WHERE queue_name = '{queue}' AND status IN ('ENQUEUED', 'PENDING')
)
"""

DRAINED = """
SELECT count(*), min(started_at_epoch_ms), max(completed_at)
FROM {schema}workflow_status WHERE queue_name = '{queue}' AND status = 'SUCCESS'
"""


async def drained_per_second(url: str, queue: str, count: int) -> float:
    """Wait until the queue's workflows, that many, have ended; how many did so in a second.

    Who looks on shares the machine with those who work, and asks no more than it must.
    """
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)

        async def ask(text: str) -> Any:
            return connection.execute(text.format(schema="", queue=queue)).fetchone()

        try:
            return await _rate(ask, count)
        finally:
            connection.close()
    session = await asyncpg.connect(url)
    try:
        return await _rate(
            lambda text: session.fetchrow(text.format(schema="dbos.", queue=queue)), count
        )
    finally:
        await session.close()


async def _rate(ask: Callable[[str], Awaitable[Any]], count: int) -> float:
    while True:
        (is_any_left,) = await ask(LEFT)
        if not is_any_left:
            break
        await asyncio.sleep(0.1)
    ended, first_ms, last_ms = await ask(DRAINED)
    if ended != count:
        raise RuntimeError(f"{ended} workflows ended well, not {count}")
    return count * 1000 / (last_ms - first_ms)
