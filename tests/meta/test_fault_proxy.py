"""The fault proxy: each fault strikes where it says, and the server's side is what it says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg
import pytest

from tests.support.proxy import FaultProxy

LOST = (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError)


@dataclass
class Bench:
    proxy: FaultProxy
    direct: asyncpg.Connection
    through: asyncpg.Connection
    url: str

    async def values(self) -> list[int]:
        return [row["a"] for row in await self.direct.fetch("SELECT a FROM t ORDER BY a")]


@pytest.fixture
async def bench(postgres_url: str) -> AsyncIterator[Bench]:
    async with FaultProxy(postgres_url) as proxy:
        url = proxy.url(postgres_url)
        direct = await asyncpg.connect(postgres_url)
        through = await asyncpg.connect(url)
        await direct.execute("CREATE TABLE t (a int)")
        yield Bench(proxy, direct, through, url)
        through.terminate()
        await direct.close()


async def test_without_faults_everything_passes(bench: Bench) -> None:
    rows = await bench.through.fetch(
        "SELECT i, repeat('x', 1000) AS x FROM generate_series(1, 3000) i"
    )
    assert len(rows) == 3000
    await bench.through.copy_records_to_table("t", records=[(i,) for i in range(5)])
    assert await bench.values() == [0, 1, 2, 3, 4]


async def test_cut_breaks_open_connections_and_takes_new_ones(bench: Bench) -> None:
    bench.proxy.cut()
    with pytest.raises(LOST):
        await bench.through.fetchval("SELECT 1")
    again = await asyncpg.connect(bench.url)
    assert await again.fetchval("SELECT 1") == 1
    await again.close()


async def test_refuse_refuses_new_connections_until_accept(bench: Bench) -> None:
    bench.proxy.refuse()
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncpg.connect(bench.url)
    assert await bench.through.fetchval("SELECT 1") == 1
    await bench.proxy.accept()
    again = await asyncpg.connect(bench.url)
    await again.close()


async def test_delay_slows_both_directions(bench: Bench) -> None:
    bench.proxy.delay_s = 0.05
    began = time.monotonic()
    await bench.through.execute("SELECT 1")
    assert time.monotonic() - began >= 0.1


async def test_a_black_hole_is_silent_and_heals(bench: Bench) -> None:
    bench.proxy.black_hole()
    asked = asyncio.create_task(bench.through.fetchval("SELECT 5"))
    connecting = asyncio.create_task(asyncpg.connect(bench.url))
    done, _ = await asyncio.wait([asked, connecting], timeout=0.2)
    assert not done
    bench.proxy.restore()
    assert await asked == 5
    await (await connecting).close()


async def test_a_cut_request_never_reaches_the_server(bench: Bench) -> None:
    fault = bench.proxy.cut_request("INSERT")
    with pytest.raises(LOST):
        await bench.through.execute("INSERT INTO t VALUES (1)")
    assert fault.fired.is_set()
    assert await bench.values() == []


async def test_a_cut_answer_leaves_the_statement_committed(bench: Bench) -> None:
    fault = bench.proxy.cut_answer("INSERT")
    with pytest.raises(LOST):
        await bench.through.execute("INSERT INTO t VALUES ($1)", 1)
    assert fault.fired.is_set()
    assert b"C" in fault.answer
    assert await bench.values() == [1]


async def test_a_cut_answer_to_commit_leaves_the_transaction_committed(bench: Bench) -> None:
    fault = bench.proxy.cut_answer(lambda text: text.startswith("COMMIT"))

    async def transact() -> None:
        async with bench.through.transaction():
            await bench.through.execute("INSERT INTO t VALUES (1)")

    with pytest.raises(LOST):
        await transact()
    assert fault.fired.is_set()
    assert await bench.values() == [1]


async def test_a_prepared_statement_is_known_by_its_text_and_counted(bench: Bench) -> None:
    insert = await bench.through.prepare("INSERT INTO t VALUES ($1)")
    await insert.fetch(1)
    fault = bench.proxy.cut_answer("INSERT INTO t", nth=2)
    await insert.fetch(2)
    with pytest.raises(LOST):
        await insert.fetch(3)
    assert fault.fired.is_set()
    assert await bench.values() == [1, 2, 3]


async def test_a_fault_strikes_once(bench: Bench) -> None:
    bench.proxy.cut_answer("")
    with pytest.raises(LOST):
        await bench.through.execute("SELECT 1")
    again = await asyncpg.connect(bench.url)
    assert await again.fetchval("SELECT 1") == 1
    await again.close()


async def test_a_held_request_waits_before_the_server(bench: Bench) -> None:
    fault = bench.proxy.hold_request("INSERT")
    sent = asyncio.create_task(bench.through.execute("INSERT INTO t VALUES (1)"))
    await asyncio.wait_for(fault.fired.wait(), 10)
    assert await bench.values() == []
    fault.release()
    await sent
    assert await bench.values() == [1]


async def test_a_held_answer_waits_after_the_commit(bench: Bench) -> None:
    fault = bench.proxy.hold_answer("INSERT")
    sent = asyncio.create_task(bench.through.execute("INSERT INTO t VALUES (1)"))
    await asyncio.wait_for(fault.fired.wait(), 10)
    assert await bench.values() == [1]
    assert not sent.done()
    fault.release()
    await sent
    assert await bench.through.fetchval("SELECT count(*) FROM t") == 1
