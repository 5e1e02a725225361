"""The writing thread: groups, isolation, deadlines, closing."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import DatabaseConflict, DatabaseRejected, DatabaseUnavailable, LeaseLost
from perdure.store.sqlite.connection import connect_file
from perdure.store.sqlite.settings import SqliteSettings
from perdure.store.sqlite.transaction import Transaction
from perdure.store.sqlite.writer import Writer
from tests.support.database import MovableClock
from tests.support.waiting import eventually

FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
Work = Callable[[Transaction], Any]


class Bench:
    """A writer on a file with one table, and every statement it executed."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.path = path
        chosen = SqliteSettings(**settings)
        connection = connect_file(path, chosen, busy_timeout_s=0, create=True)
        connection.driver.execute("CREATE TABLE IF NOT EXISTS t (a INTEGER NOT NULL)")
        self.statements: list[str] = []
        connection.driver.set_trace_callback(self.statements.append)
        self.writer = Writer("db", connection, None, MovableClock(), chosen)

    def count(self, statement: str) -> int:
        return self.statements.count(statement)

    def stored(self) -> list[int]:
        other = sqlite3.connect(self.path)
        found = [a for (a,) in other.execute("SELECT a FROM t ORDER BY a")]
        other.close()
        return found

    async def together(self, *works: Work) -> list[Any]:
        """Hand all the works over while the writer is busy, so that they share a transaction."""
        running, go = threading.Event(), threading.Event()

        def hold(_: Transaction) -> None:
            running.set()
            go.wait(20)

        holding = asyncio.ensure_future(self.writer.run(hold))
        await asyncio.to_thread(running.wait, 20)
        waiting = [asyncio.ensure_future(self.writer.run(work)) for work in works]
        await asyncio.sleep(0)
        self.statements.clear()
        go.set()
        await holding
        return await asyncio.gather(*waiting, return_exceptions=True)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path / "t.db")
    yield made
    await made.writer.close()


def insert(value: object) -> Work:
    return lambda transaction: transaction.change("INSERT INTO t VALUES (?)", (value,))


def fail_with(error: BaseException) -> Work:
    def work(transaction: Transaction) -> None:
        transaction.change("INSERT INTO t VALUES (-1)")
        raise error

    return work


async def test_what_waits_together_is_one_transaction(bench: Bench) -> None:
    assert await bench.together(*[insert(number) for number in range(50)]) == [1] * 50
    assert bench.count("BEGIN IMMEDIATE") == 1
    assert bench.count("COMMIT") == 2  # the one that held the writer up, and theirs
    assert not any("SAVEPOINT" in statement for statement in bench.statements)
    assert bench.stored() == list(range(50))


async def test_a_failing_job_fails_alone(bench: Bench) -> None:
    lost = LeaseLost("taken")
    results = await bench.together(
        insert(1), fail_with(lost), insert(2), insert(None), fail_with(KeyError("bug")), insert(3)
    )
    assert (results[0], results[2], results[5]) == (1, 1, 1)
    assert results[1] is lost
    assert isinstance(results[3], DatabaseRejected)
    assert isinstance(results[4], KeyError)
    assert bench.stored() == [1, 2, 3]


async def test_a_lone_failing_job_leaves_nothing(bench: Bench) -> None:
    with pytest.raises(LeaseLost):
        await bench.writer.run(fail_with(LeaseLost("taken")))
    assert bench.stored() == []
    assert bench.count("BEGIN IMMEDIATE") == 1


async def test_a_job_out_of_time_fails_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "slow.db", statement_timeout_s=0.2)

    def endless(transaction: Transaction) -> None:
        # Interrupted in the middle of a write, SQLite gives the whole transaction up.
        transaction.change(f"INSERT INTO t {FOREVER} SELECT i FROM n")

    results = await bench.together(insert(1), endless, insert(2))
    assert (results[0], results[2]) == (1, 1)
    assert isinstance(results[1], DatabaseUnavailable)
    assert "ran past its deadline" in str(results[1])
    assert bench.stored() == [1, 2]
    await bench.writer.close()


async def test_a_batch_with_a_conflict_does_not_spoil_its_neighbours(bench: Bench) -> None:
    def mixed(transaction: Transaction) -> list[Any]:
        def together(items: Any) -> bool:
            transaction.change_each("INSERT INTO t VALUES (?)", [(item,) for item in items])
            return False

        def single(item: int) -> Any:
            return item if item % 2 else transaction.change("INSERT INTO t VALUES (?)", (item,))

        return transaction.answer_each([10, 11, 12], together, single)

    assert await bench.together(insert(1), mixed, insert(2)) == [1, [1, 11, 1], 1]
    assert bench.stored() == [1, 2, 10, 12]


async def test_a_commit_that_fails_fails_all_of_it(bench: Bench) -> None:
    def owe(transaction: Transaction) -> None:
        transaction.change("CREATE TABLE IF NOT EXISTS p (id INTEGER PRIMARY KEY)")
        transaction.change(
            "CREATE TABLE IF NOT EXISTS c (p REFERENCES p DEFERRABLE INITIALLY DEFERRED)"
        )
        transaction.change("INSERT INTO c VALUES (1)")

    results = await bench.together(insert(1), owe)
    assert [type(result) for result in results] == [DatabaseRejected] * 2
    assert results[0] is not results[1]
    assert bench.stored() == []
    assert await bench.writer.run(insert(2)) == 1


async def test_what_was_cancelled_before_it_began_is_not_done(bench: Bench) -> None:
    running, go = threading.Event(), threading.Event()
    holding = asyncio.ensure_future(bench.writer.run(lambda _: (running.set(), go.wait(20))))
    await asyncio.to_thread(running.wait, 20)
    waiting = asyncio.ensure_future(bench.writer.run(insert(1)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go.set()
    await holding
    assert await bench.writer.run(insert(2)) == 1
    assert bench.stored() == [2]


async def test_answers_arrive_in_the_loop_of_their_caller(bench: Bench) -> None:
    async def elsewhere() -> tuple[int, int]:
        changed = await bench.writer.run(insert(2))
        return changed, threading.get_ident()

    thread = asyncio.to_thread(asyncio.run, elsewhere())
    here, (there, ident) = await asyncio.gather(bench.writer.run(insert(1)), thread)
    assert (here, there) == (1, 1)
    assert ident != threading.get_ident()


async def test_a_caller_whose_loop_is_gone_harms_nobody(bench: Bench) -> None:
    async def hand_over() -> None:
        task = asyncio.ensure_future(bench.writer.run(insert(1)))
        await asyncio.sleep(0)
        task.cancel()

    await asyncio.to_thread(asyncio.run, hand_over())
    assert await bench.writer.run(insert(2)) == 1


async def test_a_busy_file_is_waited_for(bench: Bench) -> None:
    other = sqlite3.connect(bench.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(bench.writer.run(insert(1)))
    await eventually(lambda: bench.statements)
    assert not waiting.done()
    other.execute("ROLLBACK")
    assert await waiting == 1
    other.close()


async def test_a_file_kept_busy_is_a_conflict(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "busy.db", busy_timeout_s=0.1)
    other = sqlite3.connect(bench.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseConflict, match="kept the file locked"):
        await bench.writer.run(insert(1))
    other.execute("ROLLBACK")
    assert await bench.writer.run(insert(2)) == 1
    other.close()
    await bench.writer.close()


async def test_closing_finishes_what_waits(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "closing.db")
    waiting = [asyncio.ensure_future(bench.writer.run(insert(number))) for number in range(9)]
    await asyncio.sleep(0)
    await bench.writer.close()
    assert await asyncio.gather(*waiting) == [1] * 9
    with pytest.raises(DatabaseRejected, match="is closed"):
        await bench.writer.run(insert(1))
    assert not [t for t in threading.enumerate() if t.name.startswith("perdure-sqlite-writer")]


async def test_closing_does_not_wait_for_a_busy_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "closing.db", busy_timeout_s=600)
    other = sqlite3.connect(bench.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = [asyncio.ensure_future(bench.writer.run(insert(number))) for number in range(3)]
    await eventually(lambda: bench.statements)
    await bench.writer.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [DatabaseUnavailable] * 3
    other.close()
