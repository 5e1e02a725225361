"""`ClaimStore.claim_shared`: what it takes under a rate that the fleet shares."""

from typing import Any

import pytest

from perdure.model.ids import WorkflowId
from perdure.model.queue import QueueTurn, Rate
from perdure.model.workflow import ClaimedRun, Fence
from tests.support import rows
from tests.support.store import Process, Site

PERIOD_MS = 60_000
TWO_A_MINUTE = Rate(2, 60.0)


async def backlog(me: Process, number: int, **fields: Any) -> None:
    """So many workflows that wait."""
    await me.start(*[rows.enqueued(**fields) for _ in range(number)])


async def take(me: Process, **fields: Any) -> ClaimedRun:
    """One that is claimed alone."""
    (run,) = (await me.claim_shared(limit=1, **fields)).runs
    return run


async def started(site: Site, workflow_id: WorkflowId) -> int:
    """When that row was claimed."""
    at_ms: int = (await site.status(workflow_id))["started_at_epoch_ms"]
    return at_ms


def full(frees_at_ms: int) -> QueueTurn:
    """A turn that found the rate used up until then."""
    return QueueTurn(rows.QUEUE, is_full=True, frees_at_ms=frees_at_ms)


async def test_no_more_start_in_a_period_than_the_rate(me: Process) -> None:
    """“for a rate the claims in the rate log of the last period”."""
    await me.queue(rate=Rate(5, 60.0))
    await backlog(me, 12)
    assert (await me.turn(limit=3)).taken == 3
    assert (await me.turn()).taken == 2
    turn = await me.turn()
    assert (turn.taken, turn.is_full) == (0, True)


async def test_the_log_of_a_deleted_queue_is_forgotten(site: Site, me: Process) -> None:
    """“Delete the queue's row, its settings and its rate log”: of no other queue."""
    for name in (rows.QUEUE, "other"):
        await me.queue(name, rate=TWO_A_MINUTE)
        await backlog(me, 1, queue_name=name)
    await me.claim_shared(rows.QUEUE, "other")
    assert len(await site.own("rate_log")) == 2
    await me.store.delete_queue(rows.QUEUE)
    assert [row["queue_name"] for row in await site.own("rate_log")] == ["other"]


async def test_a_claim_is_logged_with_the_time_of_its_row(site: Site, me: Process) -> None:
    """“A claim from a queue with a rate writes `rate_limited` true and an entry of the log, with
    one time for both”."""
    await me.queue(rate=TWO_A_MINUTE)
    await backlog(me, 2, partition_key="p")
    runs = (await me.claim_shared()).runs
    logged = {row["workflow_id"]: row for row in await site.own("rate_log")}
    assert set(logged) == {run.workflow_id for run in runs}
    for run in runs:
        row, entry = await site.status(run.workflow_id), logged[run.workflow_id]
        assert row["rate_limited"]
        assert (entry["queue_name"], entry["partition_key"]) == (rows.QUEUE, "p")
        assert entry["started_at"] == row["started_at_epoch_ms"] <= row["updated_at"]


@pytest.mark.parametrize(
    ("limits", "marked"),
    [
        ({"rate": TWO_A_MINUTE}, True),
        ({"partition_rate": TWO_A_MINUTE, "partitioned": True}, True),
        ({"concurrency": 2}, False),
        ({"partition_concurrency": 2, "partitioned": True}, False),
    ],
)
async def test_only_claims_under_a_rate_are_marked_and_logged(
    site: Site, me: Process, limits: dict[str, Any], *, marked: bool
) -> None:
    """“A claim from a queue with a rate writes `rate_limited` true and an entry of the log”."""
    await me.queue(**limits)
    waiting = await me.waiting(partition_key="p")
    await site.update(waiting.workflow_id, rate_limited=not marked)
    assert (await me.turn()).taken == 1
    assert bool((await site.status(waiting.workflow_id))["rate_limited"]) is marked
    assert len(await site.own("rate_log")) == int(marked)


async def test_the_window_slides(site: Site, me: Process) -> None:
    """“the claims in the rate log of the last period”; “`frees_at_ms` is when the window has room
    for one more claim”."""
    await me.queue(rate=TWO_A_MINUTE)
    await backlog(me, 9)
    times = []
    for _ in range(2):
        times.append(await started(site, (await take(me)).workflow_id))
        site.clock.advance(20_000)
    for _ in range(4):
        oldest = times[-2]
        assert await me.turn() == full(oldest + PERIOD_MS)
        site.clock.advance(oldest + PERIOD_MS - await me.store.now_ms())
        runs = (await me.claim_shared()).runs
        assert len(runs) == 1
        times.append(await started(site, runs[0].workflow_id))
    assert all(third - first >= PERIOD_MS for first, third in zip(times, times[2:], strict=False))


@pytest.mark.parametrize("period_s", [60.25, 77.001, 64.4999, 99.9995, 300.3])
async def test_a_period_may_be_a_fraction(site: Site, me: Process, period_s: float) -> None:
    """“the claims … of the last period”: whole milliseconds, of which none is lost."""
    await me.queue(rate=Rate(1, period_s))
    await backlog(me, 2)
    at_ms = await started(site, (await take(me)).workflow_id)
    turn = await me.turn()
    assert turn.frees_at_ms is not None
    assert period_s * 1000 - 1e-6 <= turn.frees_at_ms - at_ms < period_s * 1000 + 1


async def test_a_very_long_period_is_a_period(me: Process) -> None:
    """“the claims … of the last period”: also of one that began before time was counted."""
    await me.queue(rate=Rate(1, 1e9))
    await backlog(me, 2)
    assert (await me.turn()).taken == 1
    turn = await me.turn()
    assert (turn.taken, turn.is_full) == (0, True)
    assert turn.frees_at_ms is not None
    assert turn.frees_at_ms > await me.store.now_ms() + 900_000_000_000


async def test_what_becomes_of_a_run_gives_no_claim_back(site: Site, me: Process) -> None:
    """“claims in the rate log”: what happens to the workflows afterwards does not change how many
    were claimed."""
    await me.queue(rate=Rate(4, 60.0))
    await backlog(me, 9)
    runs = (await me.claim_shared()).runs
    fences = [Fence(run.workflow_id, run.owner) for run in runs]
    await me.cancel([fences[0].workflow_id])
    await me.store.release([rows.release(fences[1])])
    await me.store.finish([rows.finish(fences[2])])
    first = min(row["started_at"] for row in await site.own("rate_log"))
    assert await me.turn() == full(first + PERIOD_MS)


async def test_a_takeover_gives_no_claim_back(site: Site, me: Process) -> None:
    """“claims in the rate log”: also not to those who recover what a dead process claimed."""
    await me.queue(rate=TWO_A_MINUTE)
    await backlog(me, 4)
    victim = await site.process(period_ms=1000)
    assert (await victim.turn()).taken == 2
    await victim.link.close()
    site.clock.advance(1001)
    await me.store.take_over(await me.accuse(victim), 10)
    turn = await me.turn()
    assert (turn.taken, turn.is_full) == (0, True)
    site.clock.advance(PERIOD_MS)
    assert (await me.turn()).taken == 2


async def test_claiming_one_row_again_counts_again(site: Site, me: Process) -> None:
    """“the claims in the rate log”, not the rows: and however soon one follows the other."""
    await me.queue(rate=Rate(20, 60.0))
    await backlog(me, 1)
    for _ in range(20):
        run = await take(me)
        await me.store.release([rows.release(Fence(run.workflow_id, run.owner))])
    assert len(await site.own("rate_log")) == 20
    assert (await me.turn()).is_full


@pytest.mark.parametrize(
    ("columns", "left"),
    [
        ({}, 1),
        ({"application_name": "app", "status": "PENDING"}, 1),
        ({"status": "ERROR"}, 1),
        ({"queue_partition_key": "p"}, 1),
        ({"application_name": "other"}, 2),
        ({"rate_limited": False}, 2),
        ({"status": "ENQUEUED", "name": "unregistered"}, 2),
        ({"status": "DELAYED"}, 2),
        ({"queue_name": "another"}, 2),
        ({"started_at_epoch_ms": None}, 2),
    ],
)
async def test_starts_of_other_programs_count(
    site: Site, me: Process, columns: dict[str, Any], left: int
) -> None:
    """“and shared rows with `rate_limited` that started in it, are neither ENQUEUED nor DELAYED”;
    “rows of this application and of none”."""
    await me.queue(rate=TWO_A_MINUTE)
    now = await me.store.now_ms()
    row = {"status": "SUCCESS", "rate_limited": True, "started_at_epoch_ms": now - 30_000}
    await site.foreign(**{**row, **columns})
    await backlog(me, 3)
    assert (await me.turn()).taken == left
    assert (await me.turn()).is_full


async def test_starts_of_other_programs_leave_the_window(site: Site, me: Process) -> None:
    """“that started in it”: in the last period, as the log's."""
    await me.queue(rate=Rate(1, 60.0))
    now = await me.store.now_ms()
    row = {"status": "SUCCESS", "rate_limited": True}
    await site.foreign(started_at_epoch_ms=now - 61_000, **row)
    await site.foreign(started_at_epoch_ms=now - 30_000, **row)
    await backlog(me, 1)
    assert await me.turn() == full(now + 30_000)
    site.clock.advance(30_000)
    assert (await me.turn()).taken == 1


async def test_a_claim_and_its_row_are_one(site: Site, me: Process) -> None:
    """“and have no entry in the log with the same workflow id and start time”."""
    await me.queue(rate=Rate(3, 60.0))
    await backlog(me, 9)
    first = await take(me)
    await me.store.finish([rows.finish(Fence(first.workflow_id, first.owner))])
    second = await take(me)
    # Another program takes the row over: a start of its own, beside the claim.
    at_ms = await started(site, second.workflow_id)
    await site.update(second.workflow_id, started_at_epoch_ms=at_ms + 1)
    assert await me.turn() == full(await started(site, first.workflow_id) + PERIOD_MS)


async def test_only_starts_under_a_rate_count_when_one_is_set(site: Site, me: Process) -> None:
    """“rows with `rate_limited`”: a queue that gets a rate has all of it."""
    await me.queue(concurrency=50)
    await backlog(me, 30)
    for run in (await me.claim_shared()).runs[:20]:
        await me.store.finish([rows.finish(Fence(run.workflow_id, run.owner))])
    await backlog(me, 5)
    await me.queue(rate=TWO_A_MINUTE)
    assert (await me.turn()).taken == 2
    assert (await me.turn()).is_full


async def test_a_rate_changed_live_binds_at_once(me: Process) -> None:
    """“The limits are those of the locked rows”: and what was claimed before counts for them."""
    await me.queue(rate=Rate(4, 60.0))
    await backlog(me, 9)
    assert (await me.turn(limit=3)).taken == 3
    await me.queue(rate=Rate(2, 60.0))
    assert (await me.turn()).is_full
    await me.queue(rate=Rate(5, 60.0))
    assert (await me.turn()).taken == 2


async def test_a_concurrency_and_a_rate_both_bind(site: Site, me: Process) -> None:
    """“as many rows are claimed as `logic.admission` leaves room for”."""
    await me.queue(concurrency=2, rate=Rate(3, 60.0))
    await backlog(me, 9)
    runs = (await me.claim_shared()).runs
    assert len(runs) == 2
    assert await me.turn() == QueueTurn(rows.QUEUE, is_full=True)
    await me.cancel([run.workflow_id for run in runs])
    assert (await me.turn()).taken == 1
    turn = await me.turn()
    assert (turn.is_full, turn.frees_at_ms is not None) == (True, True)


async def test_the_time_it_frees_is_that_of_enough_claims(site: Site, me: Process) -> None:
    """“`frees_at_ms` is when the window has room for one more claim”: after a rate was lowered,
    when enough of what it counts has left."""
    await me.queue(rate=Rate(4, 60.0))
    await backlog(me, 9)
    times = []
    for _ in range(4):
        times.append(await started(site, (await take(me)).workflow_id))
        site.clock.advance(1000)
    await me.queue(rate=TWO_A_MINUTE)
    turn = await me.turn()
    assert turn == full(times[2] + PERIOD_MS)
    site.clock.advance(times[2] + PERIOD_MS - await me.store.now_ms())
    assert (await me.turn()).taken == 1


async def test_the_log_keeps_what_a_window_needs(site: Site, me: Process) -> None:
    """“for as long as a window needs them”: it does not grow for ever."""
    await me.queue(rate=Rate(5, 1.0))
    for _ in range(40):
        await backlog(me, 5)
        assert (await me.turn()).taken == 5
        await me.sweep()
        site.clock.advance(3000)
    assert len(await site.own("rate_log")) <= 50


async def test_a_failed_claim_spends_nothing(site: Site, me: Process) -> None:
    """“A claim … writes … an entry of the log”: and only for a row it takes."""
    await me.queue(rate=TWO_A_MINUTE)
    await site.foreign(name="unregistered")
    for _ in range(3):
        assert await me.turn() == QueueTurn(rows.QUEUE)
    assert await site.own("rate_log") == []
