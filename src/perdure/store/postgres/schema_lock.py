"""One installer at a time, where the database can arrange it."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg

from perdure.store.ddl import render, statements
from perdure.store.postgres.schema_connection import (
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

    They are transaction locks in a transaction that does nothing else: a session lock would stay
    behind on a pooler's server. Nothing here may keep a snapshot while it waits, neither the
    holder nor those who wait for it: building an index concurrently waits for every snapshot, so
    that the two would wait for each other. Hence the locks are tried and never waited for.
    """
    async with opened(connect) as connection, transaction(connection, WORK):
        await _take_in_turn(connection, schema, finished)
        yield


async def _take_in_turn(
    connection: Connection, schema: str, finished: Callable[[], Awaitable[bool]]
) -> None:
    """Ours first, so that a peer of ours never gets in while one of us waits for the other."""
    queries = statements("perdure.store.postgres", "lock")
    try:
        await connection.execute(queries["stay"].text, timeout=STATEMENT_S)
        for key, wait_s in ((own_key(schema), OWN_WAIT_S), (OTHER_SDKS_KEY, OTHER_SDKS_WAIT_S)):
            attempt = render(queries["try_lock"], {"key": str(key)}).text
            deadline = time.monotonic() + wait_s
            while await connection.execute(attempt, timeout=STATEMENT_S) != _GRANTED:
                if time.monotonic() > deadline:
                    break
                if await finished():
                    return
                await asyncio.sleep(random.uniform(0.05, 0.15))  # noqa: S311
    except _NO_LOCKS:
        return


def own_key(schema: str) -> int:
    """The advisory lock of Perdure's installers of one shared schema."""
    digest = hashlib.sha256(f"perdure.schema.{schema}".encode()).digest()
    return int.from_bytes(digest[:8], signed=True)
