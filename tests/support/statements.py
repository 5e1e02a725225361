"""What an engine's store says to its database, statement by statement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg
import pytest

from perdure.store.postgres import database as postgres_database
from tests.support.engines import Lab


@contextmanager
def logged_connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every statement of every Postgres connection that a store makes from now on."""
    statements: list[str] = []
    connect = asyncpg.connect

    async def logging(*args: Any, **kwargs: Any) -> Any:
        connection = await connect(*args, **kwargs)
        connection.add_query_logger(lambda query: statements.append(query.query))
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(postgres_database.asyncpg, "connect", logging)
        yield statements


@asynccontextmanager
async def sqlite_statements(lab: Lab) -> AsyncIterator[list[str]]:
    """Every statement of the writing connection of a SQLite store during the block."""
    statements: list[str] = []
    store: Any = lab.store.inner
    writer = store._access.database._writer  # noqa: SLF001 - nobody else offers it
    await writer.run_apart(
        lambda connection: connection.driver.set_trace_callback(statements.append)
    )
    yield statements
    await writer.run_apart(lambda connection: connection.driver.set_trace_callback(None))
