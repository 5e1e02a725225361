"""Plain SQL on a system database, behind the back of the store under test.

Statements use `?` for parameters and unqualified table names; rows come back as dicts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import asyncpg

Row = dict[str, Any]


class Backdoor(Protocol):
    """Somebody else with a connection to the same database."""

    async def rows(self, sql: str, *args: Any) -> list[Row]:
        """What the query returns, committed at once."""
        ...

    async def run(self, sql: str, *args: Any) -> None:
        """Execute one statement, committed at once."""
        ...

    async def close(self) -> None:
        """Give the connection up."""
        ...


def numbered(sql: str) -> str:
    """The statement with `$1`, `$2`, … for its question marks."""
    parts = sql.split("?")
    return "".join(f"{part}${i}" for i, part in enumerate(parts[:-1], 1)) + parts[-1]


SQLITE_PREFIX = "sqlite:///"


class PostgresBackdoor:
    """A connection of our own to a Postgres database."""

    def __init__(self, url: str, schemas: tuple[str, ...]) -> None:
        self._url = url
        self._schemas = schemas
        self._connection: asyncpg.Connection[Any] | None = None

    async def connect(self) -> asyncpg.Connection[Any]:
        """Another connection like ours, which the caller closes."""
        path = ", ".join(f'"{schema}"' for schema in self._schemas)
        connection = await asyncpg.connect(self._url)
        await connection.execute(f"SET search_path TO {path}")
        return connection

    async def _ours(self) -> asyncpg.Connection[Any]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self.connect()
        return self._connection

    async def rows(self, sql: str, *args: Any) -> list[Row]:
        connection = await self._ours()
        return [dict(row) for row in await connection.fetch(numbered(sql), *args)]

    async def run(self, sql: str, *args: Any) -> None:
        connection = await self._ours()
        await connection.execute(numbered(sql), *args)

    @asynccontextmanager
    async def transaction(self, sql: str, *args: Any) -> AsyncIterator[asyncpg.Connection[Any]]:
        """A transaction of a third party that executed `sql` and is rolled back at the end."""
        connection = await self.connect()
        try:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute(numbered(sql), *args)
            yield connection
            await transaction.rollback()
        finally:
            await connection.close()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None


class SqliteBackdoor:
    """A connection of our own to a SQLite file."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None

    def _ours(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    async def rows(self, sql: str, *args: Any) -> list[Row]:
        cursor = self._ours().execute(sql, args)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    async def run(self, sql: str, *args: Any) -> None:
        self._ours().execute(sql, args)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class MemoryBackdoor:
    """The one connection to a database in memory, borrowed from its store between two writes."""

    def __init__(self, store: Callable[[], Any]) -> None:
        self._store = store

    async def rows(self, sql: str, *args: Any) -> list[Row]:
        # The store offers no way to its connection, and nobody else can have one.
        database = self._store()._access.database  # noqa: SLF001
        found = await database.prepare(
            lambda connection: connection.driver.execute(sql, args).fetchall(), create=False
        )
        return [dict(row) for row in found]

    async def run(self, sql: str, *args: Any) -> None:
        await self.rows(sql, *args)

    async def close(self) -> None:
        """The connection is the store's."""


def connect_file(path: str) -> sqlite3.Connection:
    """A connection to a SQLite file that commits every statement and waits for locks."""
    return sqlite3.connect(path, timeout=30, isolation_level=None)


@asynccontextmanager
async def backdoor_to(url: str) -> AsyncIterator[Backdoor]:
    """A backdoor to a database that outlives those who use it."""
    behind: Backdoor
    if url.startswith(SQLITE_PREFIX):
        behind = SqliteBackdoor(lambda: connect_file(url.removeprefix(SQLITE_PREFIX)))
    else:
        behind = PostgresBackdoor(url, ("dbos", "perdure"))
    try:
        yield behind
    finally:
        await behind.close()
