"""Processes that stand still in the middle of a claim, with a queue's lock in their hands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure import Queue
from tests.acceptance.queue_fleet import Fleet, fleet_on
from tests.acceptance.queue_program import job
from tests.support.backdoor import PostgresBackdoor
from tests.support.engines import Lab
from tests.support.ownership import peak
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120)

TRAP = 4711
"""The advisory lock that a claim of the workflow named `trap` waits for."""

SETUP = (
    "CREATE SCHEMA trap",
    f"""
    CREATE FUNCTION trap.spring() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock({TRAP});
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER trap BEFORE UPDATE ON workflow_status FOR EACH ROW
    WHEN (OLD.workflow_uuid = 'trap' AND OLD.status = 'ENQUEUED' AND NEW.status = 'PENDING')
    EXECUTE FUNCTION trap.spring()
    """,
)


@pytest.fixture
async def fleet(shared_lab: Lab, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet_on(shared_lab, tmp_path) as each:
        yield each


@pytest.fixture
async def trap(shared_lab: Lab) -> AsyncIterator[PostgresBackdoor]:
    backdoor = shared_lab.backdoor
    assert isinstance(backdoor, PostgresBackdoor)
    for statement in SETUP:
        await backdoor.run(statement)
    yield backdoor
    await backdoor.run("DROP TRIGGER trap ON workflow_status")
    await backdoor.run("DROP SCHEMA trap CASCADE")


async def is_sprung(backdoor: PostgresBackdoor) -> bool:
    # Other tests may set the same trap in other databases of the server.
    waiting = await backdoor.rows(
        "SELECT FROM pg_locks JOIN pg_database d ON d.oid = database"
        " WHERE datname = current_database() AND locktype = 'advisory' AND objid = ?"
        " AND NOT granted",
        TRAP,
    )
    return bool(waiting)


@pytest.mark.parametrize("shared_lab", ["postgres"], indirect=True)
@pytest.mark.parametrize("killed", [False, True])
async def test_a_process_stopped_in_its_claim_delays_the_queue_for_a_moment(
    fleet: Fleet, trap: PostgresBackdoor, *, killed: bool
) -> None:
    lab = fleet.lab
    # Its claim may be one from several limited queues, which wait with it; others never do.
    await fleet.submitter(Queue("line", global_concurrency=1), Queue("beside"))
    stopped = await fleet.worker()
    async with trap.transaction(f"SELECT pg_advisory_xact_lock({TRAP})"):
        await job.options(queue="line", id="trap").start(fleet.effects, "trap")
        await eventually(lambda: is_sprung(trap))
        stopped.pause()
        await fleet.worker()
        await job.options(queue="beside", id="other").start(fleet.effects, "other")
        await lab.until("other")
        await job.options(queue="line", id="next").start(fleet.effects, "next")
        if killed:
            stopped.kill()
    # Its claim is free to go on: it holds the queue, and perhaps the workflow too by now.
    assert (await lab.until("next"))["status"] == "SUCCESS"
    assert (await lab.until("trap"))["status"] == "SUCCESS"
    assert peak(await fleet.log.entries("line")) == {"line": 1}
    stopped.resume()
    await job.options(queue="line", id="last").start(fleet.effects, "last")
    await lab.until("last")
    assert set(fleet.words) == {"other", "next", "trap", "last"}
    assert stopped.running is not killed
