"""Connections that heal themselves, each for one statement at a time."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypeAlias

import asyncpg

from perdure.errors import DatabaseUnavailable
from perdure.store.postgres.failures import TRANSLATING
from perdure.store.postgres.watchdog import Watchdog

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Record: TypeAlias = asyncpg.Record
Connect: TypeAlias = Callable[[], Awaitable[Connection]]

Isolation: TypeAlias = Literal["read_committed", "repeatable_read"]

READ_COMMITTED: Final[Isolation] = "read_committed"
"""Each statement sees what was committed before it."""

SNAPSHOT: Final[Isolation] = "repeatable_read"
"""All statements see what was committed before the first of them."""

_CLOSE_S = 2.0


class Transaction:
    """Statements of one transaction."""

    def __init__(self, connection: Connection, watchdog: Watchdog) -> None:
        self._connection = connection
        self._watchdog = watchdog

    async def fetch(self, text: str, *arguments: Any) -> list[Record]:
        """The rows of one statement."""
        self._watchdog.watch(self._connection)
        return await self._connection.fetch(text, *arguments)


class Lane:
    """One connection, made when it is needed and again when it was lost."""

    def __init__(self, connect: Connect, deadline_s: float) -> None:
        self._connect = connect
        self._watchdog = Watchdog(deadline_s)
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None
        self._closed = False

    async def fetch(self, text: str, *arguments: Any) -> list[Record]:
        """The rows of one statement, which is committed by then."""
        with TRANSLATING:
            async with self._turn:
                connection = await self._ready()
                self._watchdog.watch(connection)
                try:
                    return await connection.fetch(text, *arguments)
                except asyncpg.ReadOnlySQLTransactionError:
                    # The primary became a standby; the next connection finds the new one.
                    connection.terminate()
                    raise
                finally:
                    self._watchdog.rest()

    @asynccontextmanager
    async def transaction(
        self, isolation: Isolation = READ_COMMITTED
    ) -> AsyncGenerator[Transaction]:
        """A transaction, rolled back if the block raises.

        A connection of which nobody knows whether its transaction began or ended, because the call
        was cancelled just then, is given up: what follows would be taken for a part of it.
        """
        with TRANSLATING:
            async with self._turn:
                connection = await self._ready()
                self._watchdog.watch(connection)
                begun = False
                try:
                    async with connection.transaction(isolation=isolation):
                        begun = True
                        yield Transaction(connection, self._watchdog)
                        self._watchdog.watch(connection)
                except BaseException as error:
                    read_only = isinstance(error, asyncpg.ReadOnlySQLTransactionError)
                    if read_only or not begun or _is_left_open(connection):
                        connection.terminate()
                    raise
                finally:
                    self._watchdog.rest()

    async def connect(self) -> None:
        """Connect now rather than for the first statement."""
        with TRANSLATING:
            async with self._turn:
                await self._ready()

    async def close(self) -> None:
        """Close for good, without waiting for a statement under way."""
        self._closed = True
        self._watchdog.rest()
        connection, self._connection = self._connection, None
        if connection is not None:
            await close_quietly(connection)

    async def _ready(self) -> Connection:
        if self._closed:
            raise DatabaseUnavailable("the store is closed")
        connection = self._connection
        if connection is None or connection.is_closed():
            connection = await self._connect()
            if self._closed:
                connection.terminate()
                raise DatabaseUnavailable("the store is closed")
            self._connection = connection
        return connection


class Pool:
    """A few lanes for statements that have none of their own; the last used is used next."""

    def __init__(self, connect: Connect, deadline_s: float, size: int) -> None:
        self._lanes = [Lane(connect, deadline_s) for _ in range(size)]
        self._free = list(reversed(self._lanes))
        self._turns = asyncio.Semaphore(size)

    async def fetch(self, text: str, *arguments: Any) -> list[Record]:
        """The rows of one statement, which is committed by then."""
        async with self._lane() as lane:
            return await lane.fetch(text, *arguments)

    @asynccontextmanager
    async def transaction(
        self, isolation: Isolation = READ_COMMITTED
    ) -> AsyncGenerator[Transaction]:
        """A transaction, rolled back if the block raises."""
        async with self._lane() as lane, lane.transaction(isolation) as transaction:
            yield transaction

    async def connect(self) -> None:
        """Make the first connection."""
        async with self._lane() as lane:
            await lane.connect()

    async def close(self) -> None:
        """Close for good, without waiting for statements under way."""
        await asyncio.gather(*(lane.close() for lane in self._lanes))

    @asynccontextmanager
    async def _lane(self) -> AsyncGenerator[Lane]:
        async with self._turns:
            lane = self._free.pop()
            try:
                yield lane
            finally:
                self._free.append(lane)


def _is_left_open(connection: Connection) -> bool:
    """Whether a transaction that is over for us may not be so for the server."""
    return not connection.is_closed() and connection.is_in_transaction()


async def close_quietly(connection: Connection) -> None:
    """Say goodbye if the server still listens, else just hang up."""
    try:
        await connection.close(timeout=_CLOSE_S)
    except Exception:  # noqa: BLE001 - whatever it is, the connection is no longer wanted
        connection.terminate()
