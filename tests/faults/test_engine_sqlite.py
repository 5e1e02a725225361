"""What a SQLite file that fails does to running workflows: delay, never loss, never an outcome."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure import sleep, step, workflow
from perdure.errors import DatabaseError, WaitInterrupted
from tests.support.backdoor import connect_file
from tests.support.database import SqliteDatabase
from tests.support.engines import Lab, open_lab
from tests.support.process import ChildProcess
from tests.support.waiting import eventually

effects: Counter[str] = Counter()
DAY = 86_400


@pytest.fixture(autouse=True)
def fresh() -> None:
    effects.clear()


@pytest.fixture
async def file_lab(
    sqlite_database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Lab]:
    async for each in open_lab(sqlite_database.url, monkeypatch):
        yield each


def path_of(lab: Lab) -> Path:
    return Path(lab.url.removeprefix("sqlite:///"))


class Gated:
    """A workflow of three steps, the second of which waits for a word."""

    def __init__(self, big: str = "") -> None:
        self.go = asyncio.Event()

        @step(name="effect")
        async def effect(word: str) -> str:
            effects[word] += 1
            if word == "two":
                await self.go.wait()
            return word + big

        @workflow(name="three")
        async def three() -> str:
            return "".join([await effect(word) for word in ("one", "two", "three")])

        self.workflow = three

    async def begun(self, lab: Lab, workflow_id: str = "w") -> Any:
        """Start it, and wait until it stands in its second step."""
        handle = await self.workflow.options(id=workflow_id, engine=lab.engine).start()
        await eventually(lambda: effects["two"])
        return handle


@pytest.fixture
def gated() -> Gated:
    return Gated()


ONCE = {"one": 1, "two": 1, "three": 1}


async def test_a_file_locked_by_another_process_delays_a_run(file_lab: Lab, gated: Gated) -> None:
    """Nothing is written while it is locked, and all of it afterwards, once."""
    lab = file_lab
    await lab.start(gated.workflow)
    handle = await gated.begun(lab)
    with ChildProcess("-m", "tests.support.sqlite_programs", "hold", lab.url, "600") as holder:
        await holder.reaches("holding")
        gated.go.set()
        await eventually(lambda: lab.store.counts["record"] >= 2)
        assert await lab.history("w") == [(1, "effect")]
        assert effects["three"] == 0
        # With it goes its lock.
        holder.kill()
        assert await handle == "onetwothree"
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 1)
    assert row["executor_id"] == lab.engine.executor_id
    assert effects == ONCE


async def test_a_full_disk_delays_a_run_until_there_is_room(file_lab: Lab) -> None:
    """A quota stands for the disk: the step's effect is not repeated, and nobody fails."""
    lab, gated = file_lab, Gated(big="x" * 200_000)
    await lab.start(gated.workflow)
    handle = await gated.begun(lab)
    waiting = asyncio.ensure_future(handle.result())
    await quota(lab, pages=1)
    gated.go.set()
    await eventually(lambda: lab.store.counts["record"] >= 4)
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"]) == ("PENDING", 1)
    assert not waiting.done()
    assert len(await lab.steps("w")) == 1
    await quota(lab, pages=1_000_000)
    assert len(await waiting) > 600_000
    assert effects == ONCE
    assert (await lab.status("w"))["recovery_attempts"] == 1


async def quota(lab: Lab, *, pages: int) -> None:
    """Let the file grow to that many pages, or not at all if it has as many."""
    store: Any = lab.store.inner
    # A limit of the one connection that writes, which only its store can reach.
    database = store._access.database  # noqa: SLF001
    await database.write(lambda work: work.rows(f"PRAGMA max_page_count={pages}"))


async def test_a_file_that_was_away_for_a_while_costs_nothing(file_lab: Lab, gated: Gated) -> None:
    lab = file_lab
    await lab.start(gated.workflow)
    handle = await gated.begun(lab)
    path, away = path_of(lab), path_of(lab).with_suffix(".away")
    path.rename(away)
    gated.go.set()
    await eventually(lambda: effects["three"])
    assert not path.exists(), "no empty database takes its place"
    away.rename(path)
    assert await handle == "onetwothree"
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 1)
    assert effects == ONCE


async def test_a_deleted_file_is_no_outcome_and_does_not_hold_up_a_stop(
    file_lab: Lab, gated: Gated
) -> None:
    """What was in it is lost; nobody is told that a workflow failed, and no file is made anew."""
    lab = file_lab

    @workflow(name="naps")
    async def naps() -> None:
        await sleep(DAY)

    engine = await lab.start(gated.workflow, naps)
    handle = await gated.begun(lab)
    await naps.options(id="n").start()
    waiting = [asyncio.ensure_future(each.result()) for each in (handle, engine.handle("n", naps))]
    path = path_of(lab)
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        file.unlink()
    gated.go.set()
    await eventually(lambda: effects["two"] and lab.store.counts["record"] >= 2)
    async with asyncio.timeout(30):
        await engine.stop()
        results = await asyncio.gather(*waiting, return_exceptions=True)
    assert results[0] == "onetwothree" or isinstance(results[0], WaitInterrupted | DatabaseError)
    assert isinstance(results[1], WaitInterrupted)
    assert not path.exists()
    assert effects["one"] == effects["two"] == 1


async def test_a_damaged_file_is_no_outcome(file_lab: Lab, gated: Gated) -> None:
    """A page of rubbish in the middle of a run: it waits, saying what is wrong, and can stop."""
    lab = file_lab
    engine = await lab.start(gated.workflow)
    handle = await gated.begun(lab)
    waiting = asyncio.ensure_future(handle.result())
    connection = connect_file(str(path_of(lab)))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (page,) = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'operation_outputs'"
    ).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    whole = path_of(lab).read_bytes()
    with path_of(lab).open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)
    assert damaged(path_of(lab))
    gated.go.set()
    await eventually(lambda: lab.store.counts["record"] >= 2)
    with path_of(lab).open("r+b") as file:
        file.write(whole)
    async with asyncio.timeout(40):
        await engine.stop()
        results = await asyncio.gather(waiting, return_exceptions=True)
    assert results == ["onetwothree"] or isinstance(results[0], WaitInterrupted | DatabaseError)
    assert effects["one"] == effects["two"] == 1


def damaged(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA quick_check").fetchall() != [("ok",)]
    except sqlite3.DatabaseError:
        return True
    finally:
        connection.close()


async def test_an_engine_that_starts_while_others_have_the_file_alone_waits(
    file_lab: Lab, gated: Gated
) -> None:
    """As who leaves a file last does for a moment, and who opens it after a crash."""
    lab = file_lab
    holder = connect_file(str(path_of(lab)))
    try:
        holder.execute("PRAGMA locking_mode=EXCLUSIVE")
        holder.execute("UPDATE workflow_status SET name = name")
        starting = asyncio.ensure_future(lab.start(gated.workflow, migrate=False))
        await asyncio.wait([starting], timeout=0.3)
        assert not starting.done()
    finally:
        holder.close()
    await starting
    gated.go.set()
    assert await gated.workflow() == "onetwothree"
