"""The kinds of database a store can stand on, and the clock tests move."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from perdure.ports.clock import Clock
from perdure.ports.store import Store
from perdure.store.postgres import PostgresSettings, PostgresStore
from perdure.store.sqlite import SqliteSettings, SqliteStore
from tests.support.backdoor import (
    SQLITE_PREFIX,
    Backdoor,
    MemoryBackdoor,
    PostgresBackdoor,
    SqliteBackdoor,
    connect_file,
)
from tests.support.standing import StandingConnection

T = TypeVar("T")

DEADLINE_S = 30.0
SHARED, OWN = "dbos", "perdure"
KEPT = frozenset({"dbos_migrations", "schema_version", "perdure_schema_version"})


@dataclass
class MovableClock:
    """The real clock, with an offset to the database's that a test moves."""

    offset: int = 0

    def monotonic(self) -> float:
        """Seconds, the offset included."""
        return time.monotonic() + self.offset / 1000

    def offset_ms(self) -> int:
        """What is added to the database's clock."""
        return self.offset

    async def sleep(self, seconds: float) -> None:
        """Wait on the real clock."""
        await asyncio.sleep(max(seconds, 0))

    def advance(self, ms: int) -> None:
        """Let that much time pass at once."""
        self.offset += ms


def build_store(
    url: str, application: str | None, clock: Clock, *, deadline_s: float = DEADLINE_S
) -> Store:
    """A store on that database, not yet opened; a statement ends or fails within the deadline."""
    if url.startswith("postgres"):
        settings = PostgresSettings(
            url=url, application_name=application, statement_timeout_s=deadline_s
        )
        return PostgresStore(settings, clock)
    return SqliteStore(
        url,
        application_name=application,
        clock=clock,
        settings=SqliteSettings(busy_timeout_s=deadline_s, statement_timeout_s=deadline_s),
    )


async def migrate(url: str) -> None:
    """Make the schema there."""
    store = build_store(url, "app", MovableClock())
    await store.migrate()
    await store.close()


def apart(work: Coroutine[Any, Any, T]) -> T:
    """Run it on a loop of its own, in a thread of its own: for fixtures that are not async."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


class Database(Protocol):
    """A database that has the schema."""

    kind: str
    url: str

    async def opened(self, application: str | None, clock: Clock) -> Store:
        """A store on it, open; the caller closes it."""
        ...

    def backdoor(self) -> Backdoor:
        """A way in behind the back of every store."""
        ...

    async def clear(self) -> None:
        """Delete every row but the schema's version; whoever is still connected is cut off."""
        ...


class MemoryDatabase:
    """A database in memory, which only one store can see."""

    kind = "memory"
    url = "memory:"

    def __init__(self) -> None:
        self._store: Store | None = None

    async def opened(self, application: str | None, clock: Clock) -> Store:
        if self._store is None:
            self._store = build_store(self.url, application, clock)
            await self._store.migrate()
            await self._store.open()
        return self._store

    def backdoor(self) -> Backdoor:
        return MemoryBackdoor(lambda: self._store)

    async def clear(self) -> None:
        self._store = None


class SqliteDatabase:
    """A file, copied from one whose schema is made."""

    kind = "sqlite"

    def __init__(self, template: Path, path: Path) -> None:
        self._template = template
        self._path = path
        self.url = f"{SQLITE_PREFIX}{path}"
        shutil.copy(template, path)

    async def opened(self, application: str | None, clock: Clock) -> Store:
        store = build_store(self.url, application, clock)
        await store.open()
        return store

    def backdoor(self) -> Backdoor:
        return SqliteBackdoor(lambda: connect_file(str(self._path)))

    async def clear(self) -> None:
        connection = connect_file(str(self._path))
        try:
            for table in _sqlite_tables(connection):
                connection.execute(f'DELETE FROM "{table}"')
        finally:
            connection.close()


def _sqlite_tables(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return [name for (name,) in found if name not in KEPT and not name.startswith("sqlite_")]


class PostgresDatabase:
    """A Postgres database whose schema is made; `close` gives up what `clear` needs."""

    kind = "postgres"

    def __init__(self, url: str) -> None:
        self.url = url
        self._standing: StandingConnection | None = None

    async def opened(self, application: str | None, clock: Clock) -> Store:
        store = build_store(self.url, application, clock)
        await store.open()
        return store

    def backdoor(self) -> Backdoor:
        return PostgresBackdoor(self.url, (SHARED, OWN))

    async def clear(self) -> None:
        if self._standing is None:
            self._standing = StandingConnection(self.url)
        await self._standing.arun(_CLEAR)

    def close(self) -> None:
        if self._standing is not None:
            self._standing.close()


# What a client that is dead asked for last, the server may yet do: it is kept from that first.
_CLEAR = f"""
DO $$
DECLARE
    name text;
BEGIN
    LOOP
        PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend'
            AND pid <> pg_backend_pid();
        EXIT WHEN NOT FOUND;
        PERFORM pg_sleep(0.001);
        PERFORM pg_stat_clear_snapshot();
    END LOOP;
    FOR name IN
        SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
        WHERE schemaname IN ('{SHARED}', '{OWN}') AND tablename NOT IN {tuple(sorted(KEPT))}
    LOOP
        EXECUTE 'DELETE FROM ' || name;
    END LOOP;
END $$
"""


def unreachable(kind: str) -> str | None:
    """A URL of that kind where no database answers; None where there is no such thing."""
    # Port 1 of the loopback: nothing listens there.
    return "postgresql://nobody@127.0.0.1:1/nothing" if kind == "postgres" else None
