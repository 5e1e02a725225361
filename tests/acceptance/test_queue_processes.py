"""Several real processes on the queues of one database: limits are exact, and nothing is lost."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine, Queue, RateLimit, WorkflowState
from tests.acceptance.queue_fleet import Fleet, fleet_on
from tests.acceptance.queue_program import held, job, short
from tests.support.engines import Lab
from tests.support.ownership import most_in_window, peak
from tests.support.process import ChildProcess
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120)

STEADY = {"lease": 60}
"""Of workers of which none dies: nobody is to take one for dead that gets no turn for a while."""


@pytest.fixture
async def fleet(shared_lab: Lab, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet_on(shared_lab, tmp_path) as each:
        yield each


async def enqueue_jobs(fleet: Fleet, queue: str, count: int, **options: Any) -> list[str]:
    """Enqueue that many with the words `w0`, `w1`, …; returns the words."""
    words = [f"{options.get('partition_key', 'w')}{number}" for number in range(count)]
    bound = job.options(queue=queue, engine=fleet.lab.engine, **options)
    await bound.start_many([(fleet.effects, word) for word in words])
    return words


async def looked_again(fleet: Fleet) -> None:
    """Let the workers claim from another queue for a while, so that they looked at all again."""
    await enqueue_jobs(fleet, "beside", 50)
    await fleet.until_drained("beside")


@pytest.mark.parametrize("limit", [1, 3])
async def test_no_more_run_at_any_moment_than_the_fleet_may(fleet: Fleet, limit: int) -> None:
    await fleet.submitter(Queue("line", global_concurrency=limit))
    await fleet.workers(4, **STEADY)
    words = await enqueue_jobs(fleet, "line", 200)
    await fleet.until_drained("line")
    assert peak(await fleet.log.entries("line")) == {"line": limit}
    assert set((await fleet.log.claims("line")).values()) == {1}
    assert fleet.words == Counter(words)
    assert await fleet.states("line") == {"SUCCESS": 200}


async def test_many_claimants_take_every_workflow_once(fleet: Fleet) -> None:
    await fleet.submitter(Queue("line"))
    workers = await fleet.workers(3, engines=3, **STEADY)
    words = await enqueue_jobs(fleet, "line", 300)
    await fleet.until_drained("line")
    assert fleet.words == Counter(words)
    claims = await fleet.log.claims("line")
    assert (len(claims), set(claims.values())) == (300, {1})
    assert await fleet.states("line") == {"SUCCESS": 300}
    for worker in workers:
        assert "locked" not in worker.errors
        assert "Traceback" not in worker.errors


@pytest.mark.parametrize(("workers", "period"), [(1, 0.4), (3, 0.35)])
async def test_no_window_has_more_claims_than_the_rate(
    fleet: Fleet, workers: int, period: float
) -> None:
    await fleet.submitter(Queue("line", rate_limit=RateLimit(5, period)))
    await fleet.workers(workers, **STEADY)
    words = await enqueue_jobs(fleet, "line", 30)
    await fleet.until_drained("line")
    starts = await fleet.log.starts_ms("line")
    assert len(starts) == 30
    assert most_in_window(starts, round(period * 1000)) == 5
    assert fleet.words == Counter(words)


async def test_a_rate_is_one_of_the_whole_fleet_and_a_new_one_holds_at_once(fleet: Fleet) -> None:
    engine = await fleet.submitter(Queue("line", rate_limit=RateLimit(3, 600)), Queue("beside"))
    await fleet.workers(3, **STEADY)
    await enqueue_jobs(fleet, "line", 20)
    await until_claimed(fleet, "line", 3)
    await looked_again(fleet)
    assert len(await fleet.log.starts_ms("line")) == 3
    await engine.queues.update("line", rate_limit=RateLimit(5, 600))
    await until_claimed(fleet, "line", 5)
    # One process of the fleet is started again with another limit in its code.
    await fleet.worker(rates={"line": [9, 600]}, **STEADY)
    await until_claimed(fleet, "line", 9)
    await looked_again(fleet)
    assert len(await fleet.log.starts_ms("line")) == 9
    await engine.queues.update("line", rate_limit=None)
    await fleet.until_drained("line")
    assert await fleet.states("line") == {"SUCCESS": 20}


async def until_claimed(fleet: Fleet, queue: str, count: int) -> None:
    async def claimed() -> bool:
        return len(await fleet.log.starts_ms(queue)) >= count

    await eventually(claimed)


async def test_a_rate_counts_only_claims_made_under_it(fleet: Fleet) -> None:
    engine = await fleet.submitter(Queue("line"), Queue("beside"))
    await fleet.workers(2, **STEADY)
    await enqueue_jobs(fleet, "line", 300)
    await fleet.until_drained("line")
    await engine.queues.pause("line")
    await engine.queues.update("line", rate_limit=RateLimit(5, 600))
    handles = await job.options(queue="line").start_many(
        [(fleet.effects, f"later {number}") for number in range(12)]
    )
    for handle in handles[:4]:
        await handle.cancel()
    await engine.queues.resume("line")
    await until_claimed(fleet, "line", 305)
    await looked_again(fleet)
    await fleet.until_pending("line", 0)
    assert len(await fleet.log.starts_ms("line")) == 305
    for handle in handles[:4]:
        assert (await handle.status()).state is WorkflowState.CANCELLED
    assert set(fleet.words) >= {f"later {number}" for number in range(4, 9)}


async def test_a_worker_takes_no_more_than_it_can_run(fleet: Fleet) -> None:
    await fleet.submitter(Queue("line", worker_concurrency=2))
    first = await fleet.worker(**STEADY)
    await held.options(queue="line").start_many(
        [(fleet.effects, f"w{number}", fleet.gate) for number in range(40)]
    )
    await first.reaches("began w0")
    await first.reaches("began w1")
    assert await fleet.pending("line") == 2
    second = await fleet.worker(**STEADY)
    await second.reaches("began w2")
    await second.reaches("began w3")
    assert await fleet.pending("line") == 4
    fleet.open_gate()
    await fleet.until_drained("line")
    entries = await fleet.log.entries("line")
    owners = peak(entries, lambda each: each.executor_id)
    assert list(owners.values()) == [2, 2]
    assert peak(entries) == {"line": 4}
    assert fleet.words == Counter(f"w{number}" for number in range(40))


async def test_each_partition_keeps_its_limit_through_kills_and_resumes(fleet: Fleet) -> None:
    """One of each key at a time, whoever dies and whatever is run again; keys side by side."""
    await fleet.submitter(Queue("line", partition_concurrency=1))
    doomed, *_ = await fleet.workers(3)
    for key in "abc":
        await held.options(queue="line", partition_key=key, id=f"{key} held").start(
            fleet.effects, f"{key} held", fleet.gate
        )
        await enqueue_jobs(fleet, "line", 10, partition_key=key)
    await fleet.until_pending("line", 3)
    doomed.kill()
    fleet.open_gate()
    await fleet.until_drained("line")
    for workflow_id in ("a held", "b held"):
        await fleet.lab.hand_back(workflow_id)
    await enqueue_jobs(fleet, "line", 5, partition_key="a")
    await fleet.until_drained("line")
    entries = await fleet.log.entries("line")
    assert peak(entries, lambda each: each.partition_key) == {"a": 1, "b": 1, "c": 1}
    assert peak(entries) == {"line": 3}
    assert await fleet.states("line") == {"SUCCESS": 38}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
async def test_workers_come_and_go_while_a_queue_drains(fleet: Fleet, seed: int) -> None:
    """In order, and by kills: each job has one outcome, and no slot is lost."""
    chance = random.Random(seed)
    await fleet.submitter(Queue("line", global_concurrency=6, worker_concurrency=3))
    staff = await fleet.workers(3, grace=0.1)
    words = [f"w{number}" for number in range(300)]
    for turn in range(3):
        await short.options(queue="line").start_many(
            [(fleet.effects, word, chance.random() * 0.05) for word in words[turn::3]]
        )
        await until_fewer(fleet, 40)
        await leave(staff.pop(chance.randrange(3)), orderly=chance.random() < 0.5)
        staff.append(await fleet.worker(grace=0.1))
    await fleet.until_drained("line")
    await everything_ended_once(fleet, words)
    await a_new_workflow_starts(fleet.lab.engine, fleet)


async def leave(worker: ChildProcess, *, orderly: bool) -> None:
    if orderly:
        worker.interrupt()
        await asyncio.to_thread(worker.wait)
    else:
        worker.kill()


async def until_fewer(fleet: Fleet, count: int) -> None:
    async def fewer() -> bool:
        return await fleet.count("line") <= count

    await eventually(fewer)


async def everything_ended_once(fleet: Fleet, words: list[str]) -> None:
    entries = await fleet.log.entries("line")
    assert peak(entries)["line"] <= 6
    assert max(peak(entries, lambda each: each.executor_id).values()) <= 3
    assert await fleet.states("line") == {"SUCCESS": len(words)}
    assert (await fleet.lab.rows("SELECT count(*) AS n FROM workflow_output"))[0]["n"] == 300
    steps = await fleet.lab.rows(
        "SELECT count(*) AS n FROM operation_outputs GROUP BY workflow_uuid"
    )
    assert Counter(row["n"] for row in steps) == {3: 300}
    executions = sum((await fleet.log.claims("line")).values())
    assert set(fleet.words) == {*words, *(f"{word} again" for word in words)}
    # Only what was in flight in an execution that broke off is done again.
    assert sum(fleet.words.values()) <= 600 + (executions - 300)


async def a_new_workflow_starts(engine: Engine, fleet: Fleet) -> None:
    """Six at once, as many as may run: no slot is taken by what is over."""
    handles = await held.options(queue="line", engine=engine).start_many(
        [(fleet.effects, f"new {number}", fleet.gate) for number in range(6)]
    )
    await fleet.until_pending("line", 6)
    fleet.open_gate()
    for number, handle in enumerate(handles):
        assert await handle.result() == f"new {number}"
