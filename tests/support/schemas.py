"""System schemas in the states a migration meets, and the facts they are compared with."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg

from perdure.logic.schema import OLDEST_CONVERGED
from perdure.store.ddl import render, statements
from perdure.store.postgres import schema_phases
from perdure.store.sqlite import schema as sqlite_schema
from tools.schema_dump import Facts, dump_postgres, dump_sqlite

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Connect: TypeAlias = Callable[[], Coroutine[Any, Any, Connection]]

_GOLDEN = Path(__file__).with_name("golden")
_COARSE = "strftime('%s','now') * 1000"
_FINE = "unixepoch('subsec') * 1000"


def golden(store: str) -> Facts:
    """What the shared schema is on `postgres` or `sqlite`."""
    facts: Facts = json.loads((_GOLDEN / f"schema_{store}.json").read_text(encoding="utf-8"))
    del facts["about"]
    if store == "sqlite" and sys.version_info >= (3, 12) and sqlite3.sqlite_version_info >= (3, 42):
        return json.loads(json.dumps(facts).replace(_COARSE, _FINE))
    return facts


def as_known(facts: Any, known: Any) -> Any:
    """The facts without the keys that the known ones do not speak of."""
    if isinstance(known, dict):
        extra = {} if _is_fact(known) else facts
        return {**extra, **{key: as_known(facts[key], known[key]) for key in known}}
    if isinstance(known, list) and len(known) == len(facts):
        return [as_known(*pair) for pair in zip(facts, known, strict=True)]
    return facts


def _is_fact(known: Facts) -> bool:
    """Whether it describes one thing, rather than listing things by name."""
    return "name" in known or "columns" in known or "versions" in known


def connector(url: str, **settings: str) -> Connect:
    """What the migration takes: opens plain connections."""

    async def connect() -> Connection:
        return await asyncpg.connect(url, server_settings=settings)

    return connect


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    """A plain connection."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@contextmanager
def opened(path: Path | str) -> Iterator[sqlite3.Connection]:
    """A connection to a SQLite file, as the store's are."""
    uri = str(path).startswith("file:")
    connection = sqlite3.connect(path, isolation_level=None, timeout=30, uri=uri)
    try:
        yield connection
    finally:
        connection.close()


async def postgres_facts(url: str, schema: str = "dbos") -> Facts:
    """Everything the catalogue says about a schema."""
    async with connected(url) as connection:
        return await dump_postgres(connection, schema)


def sqlite_facts(path: Path | str) -> Facts:
    """Everything the catalogue says about a file."""
    with opened(path) as connection:
        return dump_sqlite(connection)


async def make_postgres_oldest(url: str, schema: str = "dbos") -> None:
    """The shared schema as a program leaves it that ends at the oldest version we converge."""
    names = schema_phases.Names.of(schema)
    texts = [
        names.render(statement).text
        for statement in statements(schema_phases.PACKAGE, f"shared_{OLDEST_CONVERGED}").values()
    ]
    async with connected(url) as connection, connection.transaction():
        quoted = await connection.fetchval("SELECT quote_ident($1)", schema)
        await connection.execute(f"CREATE SCHEMA {quoted}")
        for text in texts:
            await connection.execute(text)
        await connection.execute(
            f"INSERT INTO {quoted}.dbos_migrations VALUES ({OLDEST_CONVERGED})"
        )


def make_sqlite_oldest(path: Path | str) -> None:
    """The same in a SQLite file."""
    now_ms = sqlite_schema.now_ms_default(sys.version_info[:2], sqlite3.sqlite_version_info)
    oldest = statements("perdure.store.sqlite", f"shared_{OLDEST_CONVERGED}")
    with opened(path) as connection:
        for statement in oldest.values():
            connection.execute(render(statement, {"now_ms": now_ms}).text)
        connection.execute("INSERT INTO dbos_migrations VALUES (?)", (OLDEST_CONVERGED,))
