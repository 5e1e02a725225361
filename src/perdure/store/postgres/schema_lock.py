"""One installer at a time, where the database can arrange it."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import asyncpg

from perdure.store.ddl import render, statements
from perdure.store.postgres.schema_connection import (
    BROKEN,
    STATEMENT_S,
    WORK,
    Connect,
    Connection,
    opened,
    transaction,
)

OTHER_SDKS_KEY = 1234567890
"""The advisory lock the other SDKs migrate under, one for the whole database."""

OTHER_SDKS_WAIT_S = 30.0
"""How long to wait for it; they give each other as long, and then migrate without it."""

OWN_WAIT_S = 90.0
"""How long to wait for a peer of ours, which may be waiting for theirs."""

_GRANTED = "SELECT 1"

_NO_LOCKS = (
    asyncpg.FeatureNotSupportedError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedFunctionError,
)


@asynccontextmanager
async def installing_alone(
    connect: Connect, schema: str, finished: Callable[[], Awaitable[bool]]
) -> AsyncIterator[None]:
    """Keep other installers of this schema out, those of the other SDKs included.

    The locks only save work: whoever cannot get them in time, or has a database without them,
    enters all the same, and so does everyone once `finished` says that nothing is left to do. So
    what stands inside must bear company.

    Building an index concurrently waits for each transaction in which, at one moment, a statement
    is at work, until that transaction ends: also when the statement is over at once. A transaction
    that asked for a lock would therefore let a builder wait for it while it waits for the builder,
    which no detector of deadlocks sees. Hence a lock is tried and never waited for, every attempt
    ends its transaction, and the one that stays open meanwhile runs no statement at all. That one
    keeps a pooler from giving the session, which holds the locks, to somebody else.
    """
    async with opened(connect) as connection, transaction(connection, WORK):
        held: list[int] = []
        try:
            await _take_in_turn(connection, schema, finished, held)
            yield
        finally:
            await _let_go(connection, held)


async def _take_in_turn(
    connection: Connection, schema: str, finished: Callable[[], Awaitable[bool]], held: list[int]
) -> None:
    """Ours first, so that a peer of ours never gets in while one of us waits for the other."""
    try:
        await _run(connection, "stay")
        for key, wait_s in ((own_key(schema), OWN_WAIT_S), (OTHER_SDKS_KEY, OTHER_SDKS_WAIT_S)):
            deadline = time.monotonic() + wait_s
            while not await _taken(connection, key, held):
                if time.monotonic() > deadline:
                    break
                if await finished():
                    return
                await asyncio.sleep(random.uniform(0.05, 0.15))  # noqa: S311
    except _NO_LOCKS:
        return


async def _taken(connection: Connection, key: int, held: list[int]) -> bool:
    """Whether the lock is ours now. It is in `held` from before, as the answer may not come."""
    held.append(key)
    try:
        taken = await _run(connection, "try_lock", key=str(key)) == _GRANTED
    except _NO_LOCKS:
        held.remove(key)
        raise
    if not taken:
        held.remove(key)
    await _run(connection, "go_on")
    await _run(connection, "stay")
    return taken


async def _let_go(connection: Connection, held: Iterable[int]) -> None:
    """Leave no lock on the session, or no session: a pooler gives it to the next who comes."""
    try:
        await _run(connection, "start_afresh")
        for key in held:
            await _run(connection, "unlock", key=str(key))
    except BROKEN:
        connection.terminate()
    except asyncio.CancelledError:
        connection.terminate()
        raise


async def _run(connection: Connection, name: str, **values: str) -> str:
    """By the simple protocol, which leaves nothing open behind."""
    statement = render(statements("perdure.store.postgres", "lock")[name], values)
    return await connection.execute(statement.text, timeout=STATEMENT_S)


def own_key(schema: str) -> int:
    """The advisory lock of Perdure's installers of one shared schema."""
    digest = hashlib.sha256(f"perdure.schema.{schema}".encode()).digest()
    return int.from_bytes(digest[:8], signed=True)
