"""Plain connections for work on the schema. Everything done on them has a deadline."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import asyncpg

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Connect: TypeAlias = Callable[[], Awaitable[Connection]]
"""Opens one plain connection (not one of a pool); whoever calls it closes it."""

STATEMENT_S = 60.0
CLOSE_S = 5.0

SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WORK = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Named, because the database's default may be another one."""

BROKEN = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)
"""What ending something on a connection may raise that is in no state to end it."""


@asynccontextmanager
async def transaction(connection: Connection, begin: str) -> AsyncIterator[None]:
    """One transaction. The driver's own would begin and end without a deadline."""
    await connection.execute(begin, timeout=STATEMENT_S)
    try:
        yield
    except BaseException:
        with suppress(*BROKEN):
            await connection.execute("ROLLBACK", timeout=CLOSE_S)
        raise
    await connection.execute("COMMIT", timeout=STATEMENT_S)


@asynccontextmanager
async def opened(connect: Connect) -> AsyncIterator[Connection]:
    """A connection of its own, closed at the end whatever state it is in."""
    connection = await connect()
    try:
        yield connection
    finally:
        with suppress(*BROKEN):
            await connection.close(timeout=CLOSE_S)
