"""The clock port's offset: every instant a store writes or compares moves with it."""

from typing import Any

import pytest

from perdure.model.queue import Rate
from perdure.model.status import WorkflowState
from tests.support import rows
from tests.support.store import Process, Site

AHEAD = 10 * 365 * 86_400_000


@pytest.fixture
async def later(site: Site, me: Process) -> int:
    """A moment ten years from now, by the database's clock as the stores see it."""
    site.clock.advance(AHEAD)
    now = await me.store.now_ms()
    assert now > AHEAD
    return now


def instants(row: dict[str, Any] | None, *columns: str) -> list[int]:
    """These columns of that row."""
    assert row is not None
    return [row[column] for column in columns]


async def test_a_start_is_later(site: Site, me: Process, later: int) -> None:
    """“What is added to the database's”: by creation, deadlines, delays and the payload row."""
    run = await me.running(timeout_ms=1000)
    row = await site.status(run.workflow_id)
    payload = await site.payload("workflow_input", run.workflow_id)
    assert min(instants(row, "created_at", "updated_at")) >= later
    assert row["workflow_deadline_epoch_ms"] >= later + 1000
    assert min(instants(payload, "retention_timestamp")) >= later
    waiting = await me.waiting(delay_ms=500)
    assert (await site.status(waiting.workflow_id))["delay_until_epoch_ms"] >= later + 500


async def test_a_claim_is_later(site: Site, me: Process, later: int) -> None:
    """“Milliseconds every statement adds to the database's clock”: by start time and deadline."""
    waiting = await me.waiting(timeout_ms=1000)
    (run,) = await me.claim()
    row = await site.status(waiting.workflow_id)
    assert min(instants(row, "started_at_epoch_ms", "updated_at")) >= later
    assert row["workflow_deadline_epoch_ms"] >= later + 1000
    assert run.deadline_left_ms is not None
    assert run.deadline_left_ms <= 1000


async def test_a_claim_under_limits_is_later(site: Site, me: Process, later: int) -> None:
    """“Milliseconds every statement adds to the database's clock”: by its row and its log."""
    await me.queue(rate=Rate(1, 60.0))
    waiting = await me.waiting(timeout_ms=1000)
    (run,) = (await me.claim_shared()).runs
    row = await site.status(waiting.workflow_id)
    (logged,) = await site.own("rate_log")
    assert min(instants(row, "started_at_epoch_ms", "updated_at")) >= later
    assert logged["started_at"] == row["started_at_epoch_ms"]
    assert run.deadline_ms is not None
    assert run.deadline_ms >= later + 1000


async def test_a_sweep_is_later(site: Site, me: Process, later: int) -> None:
    """“Milliseconds every statement adds to the database's clock”: by what is due and overdue."""
    due = await site.foreign(status="DELAYED", delay_until_epoch_ms=later - 1)
    late = await site.foreign(workflow_deadline_epoch_ms=later - 1)
    await site.foreign(status="DELAYED", delay_until_epoch_ms=later + 3_600_000)
    swept = await me.sweep()
    assert (swept.moved, swept.expired, swept.next_at_ms) == (1, (late,), later + 3_600_000)
    assert (await site.status(due))["status"] == "ENQUEUED"
    assert min(instants(await site.status(late), "completed_at", "updated_at")) >= later


async def test_a_queue_is_later(site: Site, me: Process, later: int) -> None:
    """“Milliseconds every statement adds to the database's clock”: by all its instants."""
    row = await me.queue()
    paused = await me.store.pause_queue(rows.QUEUE, paused=True)
    assert min(row.created_at_ms, row.updated_at_ms) >= later
    assert paused is not None
    assert paused.paused_at_ms is not None
    assert paused.paused_at_ms >= later
    waiting = await me.waiting()
    found = await me.store.circumstances(waiting.workflow_id)
    assert found is not None
    assert found.now_ms >= later


@pytest.mark.parametrize("state", list(WorkflowState)[3:])
async def test_an_ending_is_later(
    site: Site, me: Process, later: int, state: WorkflowState
) -> None:
    """“Milliseconds every statement adds to the database's clock”: by completion."""
    run = await me.running()
    await me.store.finish([rows.finish(run, state)])
    assert min(instants(await site.status(run.workflow_id), "completed_at", "updated_at")) >= later
    if state in (WorkflowState.SUCCESS, WorkflowState.ERROR):
        payload = await site.payload("workflow_output", run.workflow_id)
        assert min(instants(payload, "retention_timestamp")) >= later


async def test_releases_cancels_and_steps_are_later(site: Site, me: Process, later: int) -> None:
    """“Milliseconds every statement adds to the database's clock”."""
    one, two = await me.running(), await me.running()
    await me.store.record([rows.checkpoint(one)])
    await me.store.release([rows.release(one, 500)])
    await me.cancel([two.workflow_id])
    (step,) = await site.steps(one.workflow_id)
    released, cancelled = await site.status(one.workflow_id), await site.status(two.workflow_id)
    assert step["retention_timestamp"] >= later
    assert released["updated_at"] >= later
    assert released["delay_until_epoch_ms"] >= later + 500
    assert min(instants(cancelled, "completed_at", "updated_at")) >= later


async def test_a_takeover_is_later(site: Site, me: Process, later: int) -> None:
    """“Milliseconds every statement adds to the database's clock”."""
    boot = rows.boot_id()
    found = await site.foreign(
        status="PENDING", executor_id=rows.executor_of(boot), owner_xid="x", updated_at=1
    )
    await me.store.take_over(await me.accuse(boot), 10)
    assert (await site.status(found))["updated_at"] >= later


async def test_a_version_is_later(site: Site, me: Process, later: int) -> None:
    """“Milliseconds every statement adds to the database's clock”: also to a version's time."""
    await me.store.register_version("v1")
    (row,) = await site.backdoor.rows("SELECT * FROM application_versions")
    assert min(instants(row, "version_timestamp", "created_at")) >= later


async def test_every_read_of_the_clock_is_later(site: Site, me: Process, later: int) -> None:
    """“The database's clock plus the clock port's offset”."""
    assert later <= (await me.beat()).now_ms <= await me.store.now_ms()


async def test_the_offset_is_read_for_every_statement(site: Site, me: Process) -> None:
    """“Milliseconds every statement adds”: not once when the store was opened."""
    first = await me.running()
    site.clock.advance(1_000_000)
    second = await me.running()
    site.clock.advance(-1_000_000)
    third = await me.running()
    created = [(await site.status(run.workflow_id))["created_at"] for run in (first, second, third)]
    assert created[1] - created[0] >= 1_000_000
    assert created[2] < created[1] - 900_000
