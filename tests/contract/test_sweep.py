"""`ClaimStore.sweep`: what is due becomes claimable, and what is overdue ends."""

import asyncio
from typing import Any

import pytest

from perdure.model.ids import WorkflowId
from perdure.model.queue import Swept
from tests.support import rows
from tests.support.store import Process, Site

NOTHING = Swept(moved=0, ready=(), expired=(), next_at_ms=None, more=False)
LEFT_TO_ITS_PROCESS_MS = 2000


async def overdue(site: Site, me: Process, state: str, by_ms: int, **columns: Any) -> WorkflowId:
    """A row in that state whose deadline came so long ago."""
    now = await me.store.now_ms()
    return await site.foreign(
        status=state,
        delay_until_epoch_ms=now + 3_600_000,
        workflow_deadline_epoch_ms=now - by_ms,
        **columns,
    )


async def state_of(site: Site, workflow_id: WorkflowId) -> str:
    """The state of that row."""
    state: str = (await site.status(workflow_id))["status"]
    return state


async def test_with_nothing_to_do_nothing_is_swept(site: Site, me: Process) -> None:
    """“What one bounded sweep did”: nothing, and nothing is due later."""
    await me.waiting()
    await me.running()
    assert await me.sweep() == NOTHING


async def test_what_is_due_becomes_claimable(site: Site, me: Process) -> None:
    """“DELAYED rows whose `delay_until` has come become ENQUEUED”."""
    early, late = await me.waiting(delay_ms=10_000), await me.waiting(delay_ms=50_000)
    assert (await me.sweep()).moved == 0
    site.clock.advance(10_001)
    swept = await me.sweep()
    assert (swept.moved, swept.ready, swept.expired) == (1, (rows.QUEUE,), ())
    assert await state_of(site, early.workflow_id) == "ENQUEUED"
    assert await state_of(site, late.workflow_id) == "DELAYED"
    assert [run.workflow_id for run in await me.claim()] == [early.workflow_id]


async def test_queues_with_new_work_are_named(site: Site, me: Process) -> None:
    """“`moved` DELAYED workflows became ENQUEUED, in the queues named in `ready`”: each once."""
    for name in ("b", "a", "b", "later"):
        delay = 90_000 if name == "later" else 1
        await me.waiting(queue_name=name, delay_ms=delay)
    site.clock.advance(1000)
    swept = await me.sweep()
    assert (swept.moved, sorted(swept.ready)) == (3, ["a", "b"])


async def test_a_row_that_becomes_claimable_keeps_all_else(site: Site, me: Process) -> None:
    """“`updated_at` stays as the other SDKs leave it”: and so does everything but the state."""
    waiting = await me.waiting(delay_ms=1, deduplication_id="d", priority=3, partition_key="p")
    before = await site.status(waiting.workflow_id)
    site.clock.advance(1000)
    await me.sweep()
    assert await site.status(waiting.workflow_id) == {**before, "status": "ENQUEUED"}


async def test_a_debounced_row_frees_its_deduplication_id(site: Site, me: Process) -> None:
    """“a debounced row's deduplication id is cleared”: and no other's."""
    debounced = await me.waiting(delay_ms=1, deduplication_id="a")
    plain = await me.waiting(delay_ms=1, deduplication_id="b")
    waiting = await me.waiting(delay_ms=90_000, deduplication_id="c")
    for workflow in (debounced, waiting):
        await site.update(workflow.workflow_id, is_debounced=True)
    site.clock.advance(1000)
    assert (await me.sweep()).moved == 2
    ids = [
        (await site.status(w.workflow_id))["deduplication_id"] for w in (debounced, plain, waiting)
    ]
    assert ids == [None, "b", "c"]
    await me.waiting(deduplication_id="a")


async def test_the_longest_due_are_moved_first(site: Site, me: Process) -> None:
    """“Up to `limit` DELAYED rows …, the longest due first”; “`more`: there was more to do”."""
    for delay in (50, 10, 30, 20, 40):
        await me.waiting(f"d{delay}", delay_ms=delay * 1000)
    site.clock.advance(60_000)
    moved = []
    for expected in (2, 2, 1):
        swept = await me.sweep(2)
        assert swept.moved == expected
        assert swept.more or expected < 2
        moved.append({run.workflow_id for run in await me.claim()})
    assert moved == [{"d10", "d20"}, {"d30", "d40"}, {"d50"}]
    assert await me.sweep(2) == NOTHING


async def test_a_sweep_of_less_than_it_may_had_no_more_to_do(site: Site, me: Process) -> None:
    """“`more`: there was more to do than one sweep does”."""
    await me.waiting(delay_ms=1)
    await overdue(site, me, "ENQUEUED", 5)
    site.clock.advance(1000)
    swept = await me.sweep(2)
    assert (swept.moved, len(swept.expired), swept.more) == (1, 1, False)


async def test_a_delayed_row_without_time_is_never_due(site: Site, me: Process) -> None:
    """“whose `delay_until` has come”: a row that says no time never is, and breaks nothing."""
    found = await site.foreign(status="DELAYED")
    good = await me.waiting(delay_ms=1)
    site.clock.advance(1000)
    assert await me.sweep() == Swept(1, (rows.QUEUE,), (), None, more=False)
    assert await state_of(site, found) == "DELAYED"
    assert await state_of(site, good.workflow_id) == "ENQUEUED"


@pytest.mark.parametrize("state", ["ENQUEUED", "DELAYED"])
async def test_what_waits_past_its_deadline_ends_at_once(
    site: Site, me: Process, state: str
) -> None:
    """“ENQUEUED, DELAYED or PENDING rows whose deadline has come become CANCELLED”."""
    late = await overdue(site, me, state, 1)
    early = await overdue(site, me, state, -60_000)
    swept = await me.sweep()
    assert (swept.expired, swept.moved, swept.ready) == ((late,), 0, ())
    assert await state_of(site, late) == "CANCELLED"
    assert await state_of(site, early) == state


async def test_a_run_is_left_to_its_process_for_a_moment(site: Site, me: Process) -> None:
    """“PENDING rows whose deadline has come become CANCELLED”: by more than 2,000 ms, because the
    process that runs them ends them exactly."""
    run = await me.running(timeout_ms=10_000)
    deadline_ms = (await site.status(run.workflow_id))["workflow_deadline_epoch_ms"]
    site.clock.advance(deadline_ms + 1 - await me.store.now_ms())
    early = await me.sweep()
    left = await site.status(run.workflow_id)
    # Unless that moment was over before the sweep looked.
    is_over = (left["completed_at"] or 0) >= deadline_ms + LEFT_TO_ITS_PROCESS_MS
    assert is_over or (early.expired, left["owner_xid"]) == ((), run.creator)
    site.clock.advance(LEFT_TO_ITS_PROCESS_MS)
    late = await me.sweep()
    assert (*early.expired, *late.expired) == (run.workflow_id,)
    assert await state_of(site, run.workflow_id) == "CANCELLED"


async def test_an_overdue_row_ends_as_a_cancelled_one(site: Site, me: Process) -> None:
    """“become CANCELLED, as a `Cancel` does it”: the same columns, to the last."""
    swept, cancelled = [
        await overdue(
            site,
            me,
            "PENDING",
            5000,
            owner_xid="x",
            executor_id="worker/1",
            deduplication_id=dedup,
            started_at_epoch_ms=7,
            recovery_attempts=2,
            rate_limited=True,
            updated_at=8,
        )
        for dedup in ("a", "b")
    ]
    begun = await me.store.now_ms()
    await site.update(cancelled, workflow_deadline_epoch_ms=None)
    assert (await me.sweep()).expired == (swept,)
    await me.cancel([cancelled])
    found, expected = await site.status(swept), await site.status(cancelled)
    assert found["completed_at"] == found["updated_at"] >= begun
    own = {"workflow_uuid", "completed_at", "updated_at", "created_at", "delay_until_epoch_ms"}
    own.add("workflow_deadline_epoch_ms")
    assert {c: found[c] for c in found if c not in own} == {
        c: expected[c] for c in expected if c not in own
    }


async def test_a_row_that_is_due_and_overdue_ends(site: Site, me: Process) -> None:
    """“Move what is due and end what is overdue, in one transaction”."""
    now = await me.store.now_ms()
    found = await site.foreign(
        status="DELAYED", delay_until_epoch_ms=now - 10, workflow_deadline_epoch_ms=now - 5
    )
    assert (await me.sweep()).expired == (found,)
    assert await state_of(site, found) == "CANCELLED"
    assert await me.sweep() == NOTHING


@pytest.mark.parametrize(
    "state", ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
)
async def test_what_has_ended_ends_no_more(site: Site, me: Process, state: str) -> None:
    """“Up to `limit` ENQUEUED, DELAYED or PENDING rows”."""
    found = await overdue(site, me, state, 60_000)
    before = await site.status(found)
    assert await me.sweep() == NOTHING
    assert await site.status(found) == before


async def test_the_number_of_overdue_rows_is_bounded(site: Site, me: Process) -> None:
    """“Up to `limit` …”; “`more`: there was more to do than one sweep does”."""
    late = [await overdue(site, me, "ENQUEUED", by_ms) for by_ms in (10, 20, 30)]
    first = await me.sweep(2)
    assert (len(first.expired), first.more) == (2, True)
    second = await me.sweep(2)
    assert sorted((*first.expired, *second.expired)) == sorted(late)
    assert await me.sweep(2) == NOTHING


async def test_rows_of_another_application_are_left_alone(site: Site, me: Process) -> None:
    """“Only rows of this application or of none”."""
    now = await me.store.now_ms()
    due = {"status": "DELAYED", "delay_until_epoch_ms": now - 5}
    theirs = await site.foreign(application_name="other", **due)
    nobodys = await site.foreign(**due)
    late = await overdue(site, me, "PENDING", 60_000, application_name="other")
    nobodys_late = await overdue(site, me, "PENDING", 60_000)
    swept = await me.sweep()
    assert (swept.moved, swept.expired) == (1, (nobodys_late,))
    states = [await state_of(site, found) for found in (theirs, nobodys, late)]
    assert states == ["DELAYED", "ENQUEUED", "PENDING"]


async def test_the_next_time_is_that_of_what_is_left(site: Site, me: Process) -> None:
    """“`next_at_ms` is when the next of either is due”: a delay or a deadline, whichever is first,
    and for a PENDING row 2,000 ms after its deadline."""
    now = await me.store.now_ms()
    await me.waiting(delay_ms=1)
    await site.foreign(workflow_deadline_epoch_ms=now - 5)
    await site.foreign(status="DELAYED", delay_until_epoch_ms=now + 90_000)
    site.clock.advance(1000)
    swept = await me.sweep()
    assert (swept.moved, len(swept.expired), swept.next_at_ms) == (1, 1, now + 90_000)
    await site.foreign(status="PENDING", workflow_deadline_epoch_ms=now + 70_000)
    assert (await me.sweep()).next_at_ms == now + 72_000
    await site.foreign(workflow_deadline_epoch_ms=now + 71_000)
    assert (await me.sweep()).next_at_ms == now + 71_000
    await site.foreign(application_name="other", workflow_deadline_epoch_ms=now + 60_000)
    await site.foreign(status="ERROR", workflow_deadline_epoch_ms=now + 60_000)
    assert (await me.sweep()).next_at_ms == now + 71_000


async def test_what_a_sweep_left_behind_is_due_now(site: Site, me: Process) -> None:
    """“`next_at_ms` is when the next of either is due”: at once, where there was more to do."""
    for _ in range(3):
        await me.waiting(delay_ms=1)
    site.clock.advance(1000)
    swept = await me.sweep(1)
    assert swept.more
    assert swept.next_at_ms is not None
    assert swept.next_at_ms <= await me.store.now_ms()
    assert (await me.beat()).next_at_ms == swept.next_at_ms


async def test_every_row_is_moved_by_one_of_many_sweepers(site: Site, me: Process) -> None:
    """“rows locked are skipped”: no two move one row, and none is forgotten."""
    others = [await site.process() for _ in range(3)]
    await me.start(*[rows.enqueued(delay_ms=1) for _ in range(300)])
    late = [await overdue(site, me, "ENQUEUED", 5) for _ in range(20)]
    site.clock.advance(1000)
    moved, expired = 0, []
    while moved < 300 or len(expired) < len(late):
        results = await asyncio.gather(*(process.sweep() for process in (me, *others)))
        assert any(swept.moved or swept.expired for swept in results)
        moved += sum(swept.moved for swept in results)
        expired += [found for swept in results for found in swept.expired]
    assert (moved, sorted(expired)) == (300, sorted(late))
