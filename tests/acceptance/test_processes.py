"""Several real processes on one database: who dies, stands still, or races, and what goes on."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine
from tests.acceptance.fleet_program import TURNS, turns
from tests.support.backdoor import SQLITE_PREFIX
from tests.support.engines import Lab
from tests.support.process import ChildProcess

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    return tmp_path / "effects"


@pytest.fixture(autouse=True)
async def schema(shared_lab: Lab) -> None:
    async with Engine(shared_lab.url, workflows=[]):
        return


def process(lab: Lab, effects: Path, *ids: str, **settings: Any) -> ChildProcess:
    """One that starts a workflow of each id; `settings` are those of `fleet_program`."""
    return ChildProcess(
        "-m", "tests.acceptance.fleet_program", lab.url, effects, json.dumps(settings), *ids
    )


def words(workflow_id: str) -> list[str]:
    return [f"{workflow_id} {number}" for number in range(TURNS)]


def counts(effects: Path) -> Counter[str]:
    return Counter(effects.read_text().splitlines())


async def test_the_runs_of_a_killed_process_go_on_in_another(
    shared_lab: Lab, effects: Path
) -> None:
    lab = shared_lab
    with (
        process(lab, effects, "a", "b", pause_s=0.1, stands_at=2) as doomed,
        process(lab, effects) as other,
    ):
        await other.reaches("ready")
        await doomed.reaches("turn b 1")
        doomed.kill()
        await other.reaches("turn b 3")
        await lab.until("a")
        await lab.until("b")
    found = counts(effects)
    assert set(found) == {*words("a"), *words("b")}
    assert sum(found.values()) <= 2 * TURNS + 2, "only what was in flight at the kill repeats"
    for workflow_id in "ab":
        row = await lab.status(workflow_id)
        assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 2)


async def test_a_process_that_stood_still_can_write_nothing_more(
    shared_lab: Lab, effects: Path
) -> None:
    """It was in a step, and comes to its end: that is not recorded any more."""
    lab = shared_lab
    with (
        process(lab, effects, "w", stands_at=1, lease=2) as stopped,
        process(lab, effects, lease=2) as other,
    ):
        await other.reaches("ready")
        await stopped.reaches("turn w 1")
        stop_between_writes(lab, stopped)
        await lab.until("w")
        before = await lab.steps("w")
        effects.with_suffix(".gate").touch()
        stopped.resume()
        await stopped.reaches("result w 4")
        assert await lab.steps("w") == before
        assert stopped.running
    found = counts(effects)
    assert set(found) == set(words("w"))
    assert sum(found.values()) <= TURNS + 1
    assert (await lab.status("w"))["recovery_attempts"] == 2


def stop_between_writes(lab: Lab, process: ChildProcess) -> None:
    """Stop it when it, and so its heartbeat, holds no lock of a file: that would stand with it."""
    process.pause()
    while lab.kind == "sqlite" and not is_writable(lab.url.removeprefix(SQLITE_PREFIX)):
        process.resume()
        process.pause()


def is_writable(path: str) -> bool:
    """Whether nobody writes to the file for longer than a moment."""
    connection = sqlite3.connect(path, timeout=1, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return True


async def test_one_id_started_by_several_processes_runs_once(
    shared_lab: Lab, effects: Path
) -> None:
    lab = shared_lab
    ids = [f"w{number}" for number in range(10)]
    starters = [process(lab, effects, *ids) for _ in range(3)]
    try:
        for starter in starters:
            for workflow_id in ids:
                await starter.reaches(f"result {workflow_id} {TURNS}")
    finally:
        for starter in starters:
            starter.close()
    assert counts(effects) == Counter(word for each in ids for word in words(each))
    rows = await lab.rows("SELECT DISTINCT recovery_attempts AS n FROM workflow_status")
    assert [row["n"] for row in rows] == [1]


async def test_an_orderly_stop_gives_the_attempt_back(shared_lab: Lab, effects: Path) -> None:
    """A run that sleeps is released by a Ctrl-C, and goes on elsewhere without a death counted."""
    lab = shared_lab
    with process(lab, effects, "w", pause_s=60) as leaving:
        await leaving.reaches("turn w 0")
        leaving.interrupt()
        leaving.wait()
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"], row["owner_xid"]) == ("ENQUEUED", 0, None)
    assert counts(effects) == Counter(["w 0"])
    engine = await lab.start(turns, heartbeat=0.1)
    await lab.until_attempts("w", 1)
    assert (await lab.status("w"))["executor_id"] == engine.executor_id


async def test_a_hundred_runs_survive_a_chain_of_deaths(shared_lab: Lab, effects: Path) -> None:
    """Each process is killed while it works; the last one brings everything home."""
    lab = shared_lab
    ids = [f"w{number}" for number in range(100)]
    with process(lab, effects, *ids, pause_s=0.5, stands_at=2) as first:
        await first.reaches("turn w99 0")
        first.kill()
    for _ in range(2):
        with process(lab, effects, stands_at=3) as next_one:
            await next_one.reaches("turn")
            next_one.kill()
    await lab.start(turns, heartbeat=0.1)
    async with asyncio.timeout(60):
        for workflow_id in ids:
            await lab.until(workflow_id)
    found = counts(effects)
    assert set(found) == {word for each in ids for word in words(each)}
    rows = await lab.rows("SELECT DISTINCT status FROM workflow_status")
    assert [row["status"] for row in rows] == ["SUCCESS"]
