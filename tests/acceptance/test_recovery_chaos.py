"""Engines that come, stop and die at any moment, until every workflow is at its one right end."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from perdure import Engine, gather, sleep, step, workflow
from tests.support.deaths import crash
from tests.support.engines import Lab

ran: Counter[str] = Counter()
chance = random.Random()


@step(name="part")
async def part(word: str) -> str:
    ran[word] += 1
    await asyncio.sleep(chance.random() * 0.02)
    if chance.random() < 0.2:
        raise ValueError(word)
    return word


@step(name="blocking part")
def blocking_part(word: str) -> str:
    ran[word] += 1
    return word


@workflow(name="leg")
async def leg(word: str) -> list[str]:
    await sleep(chance.random() * 0.05 + 0.001)
    return [await safe(f"{word} leg"), await blocking_part(f"{word} thread")]


async def safe(word: str) -> str:
    """The part's word, or what its failure said: either stays what it was the first time."""
    try:
        return await part(word)
    except ValueError as error:
        return f"not {error}"


@workflow(name="tour", max_recovery_attempts=10_000)
async def tour(word: str) -> list[Any]:
    first = await safe(f"{word} first")
    both = await gather(leg(f"{word} a"), blocking_part(f"{word} beside"))
    return [first, *both, await safe(f"{word} last")]


def parts(word: str) -> list[str]:
    ends = ("first", "a leg", "a thread", "beside", "last")
    return [f"{word} {end}" for end in ends]


def right(word: str, result: Any) -> bool:
    """Whether a result is one of those that the coin tosses of its steps allow."""
    first, (inner, thread), beside, last = result
    return (
        first in {f"{word} first", f"not {word} first"}
        and inner in {f"{word} a leg", f"not {word} a leg"}
        and (thread, beside) == (f"{word} a thread", f"{word} beside")
        and last in {f"{word} last", f"not {word} last"}
    )


async def some_life(lab: Lab, number: int, ids: list[str]) -> None:
    """An engine that starts a share of the workflows, and ends in one way or the other."""
    engine = await lab.start(tour, leg, lease=1, grace=chance.choice([0, 0.05]))
    for each in ids[number::5]:
        await asyncio.wait_for(tour.options(id=each, engine=engine).start(each), 20)
    await asyncio.sleep(chance.random() * 0.3)
    await end(engine)


async def end(engine: Engine) -> None:
    if chance.random() < 0.5:
        await crash(engine)
    else:
        await engine.stop()


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [1, 2])
async def test_whoever_dies_everything_ends_once_and_right(shared_lab: Lab, seed: int) -> None:
    lab = shared_lab
    ran.clear()
    chance.seed(seed)
    ids = [f"w{number}" for number in range(40)]
    for _ in range(3):
        await asyncio.gather(*(some_life(lab, number, ids) for number in range(5)))
    survivor = await lab.start(tour, leg, lease=1)
    results = [await asyncio.wait_for(survivor.handle(each, tour).result(), 60) for each in ids]
    assert [
        each for each, result in zip(ids, results, strict=True) if not right(each, result)
    ] == []
    rows = await lab.rows("SELECT status, owner_xid, recovery_attempts AS n FROM workflow_status")
    assert len(rows) == 2 * len(ids)
    assert {(row["status"], row["owner_xid"]) for row in rows} == {("SUCCESS", None)}
    for each in ids:
        assert [step_id for step_id, _ in await lab.history(each)] == [1, 2, 3, 4, 5]
        for word in parts(each):
            assert ran[word] >= 1
    # At most what was in flight in an execution repeats in the next.
    executions = sum(row["n"] for row in rows)
    assert sum(ran.values()) <= 5 * len(ids) + 2 * executions
