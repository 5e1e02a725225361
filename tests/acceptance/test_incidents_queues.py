"""Faults of other queues, in processes of their own: each must be impossible here."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure import Queue, WorkflowState
from tests.acceptance.queue_fleet import Fleet, fleet_on
from tests.acceptance.queue_program import held, job, parent, stubborn
from tests.support.engines import Lab
from tests.support.ownership import peak
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def fleet(shared_lab: Lab, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet_on(shared_lab, tmp_path) as each:
        yield each


async def hold(fleet: Fleet, queue: str, *words: str) -> None:
    """Enqueue workflows of those ids that wait for the gate."""
    for word in words:
        await held.options(queue=queue, id=word).start(fleet.effects, word, fleet.gate)


async def insert_row(lab: Lab, workflow_id: str, **columns: object) -> None:
    """A row that another program enqueued."""
    values = {
        "workflow_uuid": workflow_id,
        "status": "ENQUEUED",
        "name": "job",
        "queue_name": "line",
        "serialization": "portable_json",
        **columns,
    }
    places = ", ".join("?" * len(values))
    await lab.backdoor.run(
        f"INSERT INTO workflow_status ({', '.join(values)}) VALUES ({places})", *values.values()
    )


async def insert_inputs(lab: Lab, workflow_id: str, inputs: str) -> None:
    await lab.backdoor.run(
        "INSERT INTO workflow_input (workflow_uuid, inputs) VALUES (?, ?)", workflow_id, inputs
    )


async def test_bad_rows_of_a_batch_end_alone(fleet: Fleet) -> None:
    """Those that nobody here can run stay in the queue; their slots are free."""
    lab = fleet.lab
    bad = {
        "w3": {"name": "unheard of"},
        "w5": {},
        "w7": {"config_name": "no such instance"},
        "w8": {},
    }
    engine = await fleet.submitter(Queue("line", global_concurrency=10))
    await engine.queues.pause("line")
    for number in range(10):
        workflow_id = f"w{number}"
        await insert_row(lab, workflow_id, priority=number, **bad.get(workflow_id, {}))
        inputs = '{"positionalArgs":["' + fleet.effects + f'","{workflow_id}"]' + "}"
        if workflow_id != "w8":
            await insert_inputs(lab, workflow_id, "{" if workflow_id == "w5" else inputs)
    await engine.queues.resume("line")
    worker = await fleet.worker()
    good = [f"w{number}" for number in range(10) if f"w{number}" not in bad]
    for workflow_id in good:
        assert (await lab.until(workflow_id))["status"] == "SUCCESS"
    for workflow_id in ("w5", "w8"):
        assert (await lab.until(workflow_id))["status"] == "ERROR"
    assert fleet.words == Counter(good)
    for workflow_id in ("w3", "w7"):
        row = await lab.status(workflow_id)
        assert (row["status"], row["owner_xid"], row["recovery_attempts"]) == ("ENQUEUED", None, 0)
    await hold(fleet, "line", *(f"new {number}" for number in range(10)))
    await fleet.until_pending("line", 10)
    assert worker.running


async def test_slots_of_a_killed_worker_are_used_again_and_no_more_than_there_are(
    fleet: Fleet,
) -> None:
    await fleet.submitter(Queue("line", global_concurrency=2))
    doomed = await fleet.worker()
    await hold(fleet, "line", "w0", "w1", "w2", "w3")
    await doomed.reaches("began w0")
    await doomed.reaches("began w1")
    other = await fleet.worker()
    doomed.kill()
    await fleet.lab.until_attempts("w0", 2)
    await fleet.lab.until_attempts("w1", 2)
    fleet.open_gate()
    await fleet.until_drained("line")
    assert peak(await fleet.log.entries("line")) == {"line": 2}
    assert await fleet.log.claims("line") == Counter({"w0": 2, "w1": 2, "w2": 1, "w3": 1})
    assert other.running


async def test_a_busy_partition_does_not_keep_another_waiting(fleet: Fleet) -> None:
    await fleet.submitter(Queue("line", partition_concurrency=2, global_concurrency=4))
    bound = job.options(queue="line", partition_key="a")
    await bound.start_many([(fleet.effects, f"a{number}") for number in range(2000)])
    await fleet.workers(2)
    await eventually(lambda: fleet.words)
    await job.options(queue="line", partition_key="b", id="b").start(fleet.effects, "b")
    await fleet.lab.until("b")
    assert await fleet.count("line") > 0, "the busy partition was not done yet"


async def test_a_hot_queue_does_not_keep_others_waiting(fleet: Fleet) -> None:
    names = [f"line-{number}" for number in range(50)]
    await fleet.submitter(*(Queue(name, global_concurrency=3) for name in names), Queue("hot"))
    await job.options(queue="hot").start_many(
        [(fleet.effects, f"hot {number}") for number in range(3000)]
    )
    await fleet.worker()
    await eventually(lambda: fleet.words)
    await asyncio.gather(
        *(job.options(queue=name, id=name).start(fleet.effects, name) for name in names)
    )
    for name in names:
        await fleet.lab.until(name)
    # It may be done by now; what counts is who was begun before its last ones.
    left = await fleet.count("hot", "('ENQUEUED')")
    begun = [each.queue for each in await fleet.log.entries() if each.begins]
    last = max(place for place, queue in enumerate(begun) if queue != "hot")
    assert left or "hot" in begun[last:], "the hot queue was not done yet"


async def test_a_worker_that_stood_still_after_its_claim_changes_nothing_later(
    fleet: Fleet,
) -> None:
    lab = fleet.lab
    await fleet.submitter(Queue("line", global_concurrency=1))
    stopped = await fleet.worker()
    await stubborn.options(queue="line", id="w").start(fleet.effects, "w", fleet.gate)
    await stopped.reaches("blocks")
    stopped.pause()
    await fleet.worker()
    await lab.until_attempts("w", 2)
    fleet.open_gate()
    await job.options(queue="line", id="next").start(fleet.effects, "next")
    assert (await lab.until("w"))["status"] == "SUCCESS"
    await lab.until("next")
    row, steps = await lab.status("w"), await lab.steps("w")
    stopped.resume()
    await stopped.reaches("went on")
    await job.options(queue="line", id="last").start(fleet.effects, "last")
    await lab.until("last")
    assert (await lab.status("w"), await lab.steps("w")) == (row, steps)
    assert [name for _, name in await lab.history("w")] == ["work", "block", "work"]
    assert fleet.words["w again"] == 1
    assert peak(await fleet.log.entries("line")) == {"line": 1}
    assert stopped.running


async def test_a_body_that_ends_after_its_slot_was_freed_frees_no_other(fleet: Fleet) -> None:
    """Cancelled, run again elsewhere, and only then does the first body return."""
    lab = fleet.lab
    engine = await fleet.submitter(Queue("line", global_concurrency=1))
    first = await fleet.worker()
    await stubborn.options(queue="line", id="w").start(fleet.effects, "w", fleet.gate)
    await first.reaches("blocks")
    await hold(fleet, "line", "next")
    await engine.handle("w").cancel()
    await lab.until("next", WorkflowState.PENDING)
    await resume(lab, "w")
    second = await fleet.worker()
    await hold(fleet, "line", "last")
    fleet.open_gate()
    await first.reaches("went on")
    await fleet.until_drained("line")
    assert (await lab.status("w"))["status"] == "SUCCESS"
    assert peak(await fleet.log.entries("line")) == {"line": 1}
    assert await fleet.log.claims("line") == Counter({"w": 2, "next": 1, "last": 1})
    assert fleet.words["w again"] == 1
    assert second.running


async def resume(lab: Lab, workflow_id: str) -> None:
    """Put a cancelled workflow back into its queue, as other programs do it."""
    await lab.backdoor.run(
        "UPDATE workflow_status SET status = 'ENQUEUED', queue_name = 'line',"
        " recovery_attempts = 0, completed_at = NULL WHERE workflow_uuid = ?",
        workflow_id,
    )


async def test_a_row_of_another_version_takes_no_place_of_a_process(fleet: Fleet) -> None:
    """It bears this process's name, and nothing here will ever run it."""
    lab = fleet.lab
    await fleet.submitter(Queue("line", worker_concurrency=1))
    worker = await fleet.worker()
    executor_id = worker.lines[0].split()[1]
    await insert_row(
        lab,
        "old",
        status="PENDING",
        executor_id=executor_id,
        owner_xid="somebody",
        application_name="app",
        application_version="old",
        recovery_attempts=1,
    )
    await job.options(queue="line", id="new").start(fleet.effects, "new")
    assert (await lab.until("new"))["executor_id"] == executor_id
    # Nobody runs the row, so the process that is said to gives it back.
    await lab.until("old", WorkflowState.ENQUEUED)
    await job.options(queue="line", id="newer").start(fleet.effects, "newer")
    await lab.until("newer")
    assert (await lab.status("old"))["status"] == "ENQUEUED"


async def test_parents_that_fill_a_queue_wait_for_their_children_until_one_is_cancelled(
    fleet: Fleet,
) -> None:
    """The limit is kept; the process goes on with other work, and a cancel makes room."""
    lab = fleet.lab
    engine = await fleet.submitter(Queue("line", global_concurrency=2), Queue("beside"))
    worker = await fleet.worker()
    for word in ("p0", "p1"):
        await parent.options(queue="line", id=word).start(fleet.effects, word, "line")
    await fleet.until_pending("line", 2)

    async def both_wait() -> bool:
        return await fleet.count("line") == 4

    await eventually(both_wait)
    await job.options(queue="beside", id="other").start(fleet.effects, "other")
    await lab.until("other")
    assert await fleet.pending("line") == 2
    why = await engine.workflows.explain("p0-2")
    assert why.cause.value == "global_concurrency"
    await engine.handle("p0").cancel()
    assert (await lab.until("p1"))["status"] == "SUCCESS"
    await fleet.until_drained("line")
    assert await lab.state("p0") == "CANCELLED"
    assert set(fleet.words) == {"p0", "p1", "other", "p0 child", "p1 child"}
    assert peak(await fleet.log.entries("line")) == {"line": 2}
    assert worker.running
