"""SIGKILL at every checkpoint boundary: nothing recorded repeats, nothing is stuck.

At each hot write of a workflow with steps, a sleep, a child and concurrent steps a real process
is killed before, in the middle of, and after it. Then one other process has to bring every one of
these workflows to its right end by itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from perdure import Engine
from tests.acceptance.kill_program import STEPS, child, expected, parent
from tests.support.engines import Lab
from tests.support.process import ChildProcess

MOMENTS = ("before", "in", "after")


def run(url: str, effects: Path, *kills: str) -> list[str]:
    """What the program says of these kills, or of a process that lives."""
    with ChildProcess("-m", "tests.acceptance.kill_program", url, effects, *kills) as program:
        lines = program.succeed(deadline_s=300)
    assert "Traceback" not in program.errors, program.errors
    return lines


def count_writes(url: str, effects: Path) -> int:
    return int(run(url, effects)[-1].split()[1])


def kill_at(url: str, effects: Path, kills: list[str]) -> list[str]:
    """Run the workflow in processes that are killed there; returns its ids."""
    ids = [f"k{kill}" for kill in kills]
    assert sorted(run(url, effects, *kills)) == sorted(f"{each} -9" for each in ids)
    return ids


def counts_of(effects: Path) -> Counter[str]:
    """How often each effect happened."""
    return Counter(effects.read_text().splitlines())


async def recorded_words(lab: Lab) -> set[str]:
    """The effects whose step is recorded at this moment."""
    rows = await lab.rows("SELECT output FROM operation_outputs WHERE function_name LIKE '%effect'")
    return {row["output"].strip('"').lower() for row in rows}


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_kill_at_every_boundary_loses_and_repeats_nothing(
    shared_lab: Lab, tmp_path: Path
) -> None:
    lab, effects = shared_lab, tmp_path / "effects"
    async with Engine(lab.url, workflows=[]):
        pass
    writes = await asyncio.to_thread(count_writes, lab.url, effects)
    assert writes >= 9, "start, first, sleep, child, its step, its end, result, two, last, end"
    kills = [f"{number}-{moment}" for number in range(1, writes + 1) for moment in MOMENTS]
    ids = await asyncio.to_thread(kill_at, lab.url, effects, kills)
    recorded = await recorded_words(lab)

    survivor = await lab.start(parent, child, heartbeat=0.2)
    started = [each for each in ids if await lab.find(each) is not None]
    assert set(ids) - set(started) <= {"k1-before", "k1-in"}, "only an unwritten start is nothing"
    handles = [survivor.handle(each, parent) for each in started]
    async with asyncio.timeout(120):
        results = await asyncio.gather(*handles)

    assert results == [expected(each) for each in started]
    check_effects(counts_of(effects), started, recorded)
    stuck = await lab.rows("SELECT * FROM workflow_status WHERE status <> 'SUCCESS'")
    assert stuck == []
    for workflow_id in started:
        assert [row["function_id"] for row in await lab.steps(workflow_id)] == list(range(1, 8))


def check_effects(counts: Counter[str], ids: list[str], recorded: set[str]) -> None:
    """Recorded steps ran once, those in flight at the kill at most twice."""
    for workflow_id in ids:
        for each in STEPS:
            word = f"{workflow_id} {each}"
            most = 1 if word in recorded else 2
            assert 1 <= counts[word] <= most, f"{word} ran {counts[word]} times"
        # Killed once: whatever was in flight then, only steps of one moment can have repeated.
        assert sum(counts[f"{workflow_id} {each}"] for each in STEPS) <= len(STEPS) + 2
