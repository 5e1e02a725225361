"""Counts the statements the server executes, through `pg_stat_statements`."""

from types import TracebackType
from typing import Self

import asyncpg


class Statements:
    """Statements on one database, without the counter's own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: asyncpg.Connection | None = None

    async def __aenter__(self) -> Self:
        self._connection = await asyncpg.connect(self._url)
        await self._connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def total(self, *, heartbeats: bool = True) -> int:
        """How many statements were executed so far; `heartbeats` False leaves those out."""
        if self._connection is None:
            raise RuntimeError("count inside `async with`")
        return int(
            await self._connection.fetchval(
                """
                SELECT coalesce(sum(calls), 0) FROM pg_stat_statements
                WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
                  AND query NOT LIKE '%pg_stat_statements%'
                  AND ($1 OR query NOT LIKE '%SET renewals%')
                """,
                heartbeats,
            )
        )
