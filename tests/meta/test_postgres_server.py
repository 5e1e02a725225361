"""The suite's own Postgres server: fresh databases, restarts, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.support.database import PostgresDatabase, migrate
from tests.support.postgres import Databases, PostgresServer
from tests.support.process import ChildProcess, alive
from tests.support.schemas import connected
from tests.support.waiting import eventually, wait_until

# The driver may read the dying server's last message just as it sends: its own protocol error.
LOST = (OSError, asyncpg.PostgresConnectionError, asyncpg.InternalClientError)


async def test_each_database_is_new_and_dropped_even_while_in_use(
    postgres_databases: Databases,
) -> None:
    async with postgres_databases.fresh() as first, postgres_databases.fresh() as second:
        assert first != second
        left_open = await asyncpg.connect(first)
        await left_open.execute("CREATE TABLE t (a int)")
        other = await asyncpg.connect(second)
        assert await other.fetchval("SELECT to_regclass('t')") is None
        await other.close()
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(first)
    left_open.terminate()


@pytest.mark.parametrize("mode", ["immediate", "kill", "fast"])
async def test_a_restart_keeps_the_dsn_and_what_was_committed(
    own_postgres: PostgresServer, mode: str
) -> None:
    connection = await asyncpg.connect(own_postgres.dsn)
    await connection.execute("CREATE TABLE kept AS SELECT 7 AS a")
    own_postgres.stop(mode)  # type: ignore[arg-type]
    with pytest.raises(LOST):
        await connection.fetchval("SELECT 1")
    with pytest.raises(OSError, match=r"Connect call failed|refused"):
        await asyncpg.connect(own_postgres.dsn)
    dsn = own_postgres.dsn
    await asyncio.to_thread(own_postgres.start)
    assert own_postgres.dsn == dsn
    again = await asyncpg.connect(dsn)
    assert await again.fetchval("SELECT a FROM kept") == 7
    await again.close()


async def test_who_is_left_in_a_database_that_is_cleared_writes_no_more(postgres_url: str) -> None:
    """A client that was killed may have left a statement that goes on."""
    await migrate(postgres_url)
    async with connected(postgres_url) as left, connected(postgres_url) as other:
        late = "SELECT pg_sleep(60); INSERT INTO dbos.workflow_status (workflow_uuid) VALUES ('w')"
        asked = asyncio.ensure_future(left.execute(late))
        await eventually(
            lambda: other.fetchval("SELECT 1 FROM pg_stat_activity WHERE query = $1", late)
        )
        database = PostgresDatabase(postgres_url)
        await database.clear()
        with pytest.raises((*LOST, asyncpg.AdminShutdownError)):
            await asked
        database.close()


async def test_commits_are_really_flushed(own_postgres: PostgresServer) -> None:
    connection = await asyncpg.connect(own_postgres.dsn)
    assert await connection.fetchval("SHOW fsync") == "on"
    assert await connection.fetchval("SHOW synchronous_commit") == "on"
    await connection.close()


def test_close_leaves_neither_process_nor_directory() -> None:
    with PostgresServer() as server:
        pids = (server.server_pid, server.keeper.pid)
        assert all(alive(pid) for pid in pids)
    assert not any(alive(pid) for pid in pids)
    assert not server.root.exists()


HOLDER = """
import os, time
from tests.support.postgres import PostgresServer
server = PostgresServer().start()
if os.fork() == 0:
    time.sleep(60)  # a child that keeps every inherited pipe open
print("holds", server.server_pid, server.keeper.pid, server.root)
time.sleep(60)
"""


def test_a_killed_holder_leaves_neither_process_nor_directory() -> None:
    with ChildProcess("-c", HOLDER) as holder:
        _, server_pid, keeper_pid, root = holder.wait_for("holds").split()
        # Only the holder, not its group: its forked child lives on.
        os.kill(holder.pid, signal.SIGKILL)
        wait_until(lambda: not alive(int(server_pid)) and not Path(root).exists())
        wait_until(lambda: not alive(int(keeper_pid)))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="uses the kernel's parent signal")
def test_a_killed_keeper_takes_the_server_with_it() -> None:
    server = PostgresServer().start()
    server.keeper.kill()
    wait_until(lambda: not alive(server.server_pid))
    server.close()
    shutil.rmtree(server.root)
