"""The suite's own Postgres server: fresh databases, restarts, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from tests.support.postgres import Databases, PostgresServer

PROJECT = Path(__file__).parents[2]


def wait_until(condition: Callable[[], bool], deadline_s: float = 20.0) -> bool:
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


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
    with pytest.raises((OSError, asyncpg.PostgresConnectionError)):
        await connection.fetchval("SELECT 1")
    with pytest.raises(OSError, match=r"Connect call failed|refused"):
        await asyncpg.connect(own_postgres.dsn)
    dsn = own_postgres.dsn
    await asyncio.to_thread(own_postgres.start)
    assert own_postgres.dsn == dsn
    again = await asyncpg.connect(dsn)
    assert await again.fetchval("SELECT a FROM kept") == 7
    await again.close()


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
import os, sys, time
from tests.support.postgres import PostgresServer
server = PostgresServer().start()
if os.fork() == 0:
    time.sleep(60)  # a child that keeps every inherited pipe open
print(os.getpid(), server.server_pid, server.keeper.pid, server.root, flush=True)
time.sleep(60)
"""


def test_a_killed_holder_leaves_neither_process_nor_directory() -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
        start_new_session=True,
    )
    assert holder.stdout is not None
    _, server_pid, keeper_pid, root = holder.stdout.readline().split()
    holder.kill()
    holder.wait()
    try:
        assert wait_until(lambda: not alive(int(server_pid)) and not Path(root).exists())
        assert wait_until(lambda: not alive(int(keeper_pid)))
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        holder.stdout.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="uses the kernel's parent signal")
def test_a_killed_keeper_takes_the_server_with_it() -> None:
    server = PostgresServer().start()
    server.keeper.kill()
    assert wait_until(lambda: not alive(server.server_pid))
    server.close()
    subprocess.run(["rm", "-rf", server.root], check=True)
