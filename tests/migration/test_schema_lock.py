"""The locks of an installer never keep an index from being built, and never stay behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any

import asyncpg
import pytest

from perdure.errors import SchemaError
from perdure.store.postgres import schema_lock
from tests.support.schemas import Connect, connected, connector
from tests.support.waiting import eventually

GATE = 77
"""The advisory lock at which an attempt to take one of ours stands still in its midst."""

AT_THE_GATE = (
    "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) "
    "WHERE objid = $1 AND NOT granted AND datname = current_database()"
)
WAITS_FOR_A_TRANSACTION = (
    "SELECT 1 FROM pg_locks WHERE locktype = 'virtualxid' AND NOT granted AND pid = $1"
)
END_ALL_HOLDERS = (
    "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity "
    "WHERE pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory') "
    "AND datname = current_database()"
)


class _Gated(asyncpg.Connection):
    """Each of its attempts passes the gate first, and shows its snapshot while it stands there."""

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        gate = f"SELECT 1 FROM pg_catalog.pg_advisory_xact_lock_shared({GATE}) WHERE"
        if "try_advisory" in query:
            query = query.replace("SELECT 1 WHERE", gate)
        return await super().execute(query, *args, timeout=timeout)


class _Kept(asyncpg.Connection):
    """The session outlives the connection, as a pooler's does."""

    async def close(self, *, timeout: float | None = None) -> None:
        assert not self.is_in_transaction(), timeout


def _connector(url: str, kind: type[asyncpg.Connection[asyncpg.Record]]) -> Connect:
    async def connect() -> asyncpg.Connection[asyncpg.Record]:
        return await asyncpg.connect(url, connection_class=kind)

    return connect


async def _unfinished() -> bool:
    return False


@asynccontextmanager
async def _installing(connect: Connect) -> AsyncIterator[asyncio.Event]:
    """A task that takes the locks, says so, and holds them until the block ends."""
    inside = asyncio.Event()

    async def install() -> None:
        async with schema_lock.installing_alone(connect, "dbos", _unfinished):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(install())
    try:
        yield inside
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_an_index_is_built_beside_the_locks(postgres_url: str) -> None:
    """Also where transactions keep one snapshot by default."""
    snapshots = connector(postgres_url, default_transaction_isolation="repeatable read")
    async with connected(postgres_url) as builder:
        await builder.execute("CREATE TABLE t (a int)")
        async with schema_lock.installing_alone(snapshots, "dbos", _unfinished):
            await builder.execute("CREATE INDEX CONCURRENTLY ON t (a)", timeout=20)


@pytest.mark.parametrize("refused", [False, True])
async def test_an_index_is_built_whatever_moment_of_an_attempt_its_builder_met(
    postgres_url: str, refused: bool
) -> None:
    """A builder waits for the end of each transaction in which a statement was at work at one
    moment. If the transaction of an attempt went on, be it to wait for the builder or to install
    beside it, the two would wait for each other for ever.
    """
    async with connected(postgres_url) as other, connected(postgres_url) as builder:
        await builder.execute("CREATE TABLE t (a int)")
        await other.execute(f"SELECT pg_advisory_lock({GATE})")
        if refused:
            await other.execute(f"SELECT pg_advisory_lock({schema_lock.own_key('dbos')})")
        async with _installing(_connector(postgres_url, _Gated)) as inside:
            await eventually(lambda: other.fetch(AT_THE_GATE, GATE))
            building = asyncio.create_task(
                builder.execute("CREATE INDEX CONCURRENTLY ON t (a)", timeout=20)
            )
            pid = builder.get_server_pid()
            await eventually(lambda: other.fetch(WAITS_FOR_A_TRANSACTION, pid))
            await other.execute(f"SELECT pg_advisory_unlock({GATE})")
            await building
            if not refused:
                await inside.wait()


@pytest.mark.parametrize("ending", [None, SchemaError("said"), asyncio.CancelledError()])
async def test_no_lock_stays_on_a_session_that_is_used_again(
    postgres_url: str, ending: BaseException | None
) -> None:
    kept = await asyncpg.connect(postgres_url, connection_class=_Kept)

    async def connect() -> asyncpg.Connection[asyncpg.Record]:
        return kept

    with pytest.raises(type(ending)) if ending is not None else nullcontext():
        async with schema_lock.installing_alone(connect, "dbos", _unfinished):
            assert await _locks_of(postgres_url, kept) == 2
            if ending is not None:
                raise ending
    assert await _locks_of(postgres_url, kept) == 0
    assert not kept.is_closed()
    kept.terminate()


async def test_losing_the_locks_does_not_hide_what_went_wrong(postgres_url: str) -> None:
    async def fail(other: asyncpg.Connection[asyncpg.Record]) -> None:
        async with schema_lock.installing_alone(connector(postgres_url), "dbos", _unfinished):
            await other.execute(END_ALL_HOLDERS)
            raise SchemaError("said")

    async with connected(postgres_url) as other:
        with pytest.raises(SchemaError, match="said"):
            await fail(other)


async def _locks_of(url: str, connection: asyncpg.Connection[asyncpg.Record]) -> int:
    query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = $1"
    async with connected(url) as other:
        count: int = await other.fetchval(query, connection.get_server_pid())
    return count
