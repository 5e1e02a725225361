"""Several real processes on one database: who dies, stands still, or races, and what goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from perdure import Engine
from tests.acceptance.fleet_program import TURNS, turns
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


def process(lab: Lab, effects: Path, pause_s: float, *ids: str) -> ChildProcess:
    return ChildProcess(
        "-m", "tests.acceptance.fleet_program", lab.url, effects, str(pause_s), *ids
    )


def words(workflow_id: str) -> list[str]:
    return [f"{workflow_id} {number}" for number in range(TURNS)]


def counts(effects: Path) -> Counter[str]:
    return Counter(effects.read_text().splitlines())


async def test_the_runs_of_a_killed_process_go_on_in_another(
    shared_lab: Lab, effects: Path
) -> None:
    lab = shared_lab
    with process(lab, effects, 0.3, "a", "b") as doomed, process(lab, effects, 0) as other:
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
    lab = shared_lab
    with process(lab, effects, 0.3, "w") as stopped, process(lab, effects, 0) as other:
        await other.reaches("ready")
        await stopped.reaches("turn w 0")
        # In the midst of its turn, when it writes nothing: a file would stand still with it.
        await asyncio.sleep(0.15)
        stopped.pause()
        await lab.until("w")
        before = await lab.steps("w")
        stopped.resume()
        await stopped.reaches("result w 4")
        assert await lab.steps("w") == before
        assert stopped.running
    found = counts(effects)
    assert set(found) == set(words("w"))
    assert sum(found.values()) <= TURNS + 1
    assert (await lab.status("w"))["recovery_attempts"] == 2


async def test_one_id_started_by_several_processes_runs_once(
    shared_lab: Lab, effects: Path
) -> None:
    lab = shared_lab
    ids = [f"w{number}" for number in range(10)]
    starters = [process(lab, effects, 0, *ids) for _ in range(3)]
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
    with process(lab, effects, 60, "w") as leaving:
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
    with process(lab, effects, 0.5, *ids) as first:
        await first.reaches("turn w99 0")
        first.kill()
    for _ in range(2):
        with process(lab, effects, 0) as next_one:
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
