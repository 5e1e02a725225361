"""Row locks held by others, on Postgres: *busy*, and never a delay for the neighbours.

A third party holds a row lock for as long as the call under test runs, so that a call which
waited for it would never return.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from perdure.model.answer import AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.lease import LeaseSeen, LockState, Takeover
from perdure.model.queue import QueueTurn
from perdure.model.wire import INTERNAL_QUEUE
from perdure.model.workflow import Fence
from tests.support import rows
from tests.support.store import Process, Site, kinds
from tests.support.waiting import eventually

WRITTEN, MINE, BUSY = AnswerKind.WRITTEN, AnswerKind.MINE, AnswerKind.BUSY
CONFLICT, LOST = AnswerKind.CONFLICT, AnswerKind.LOST
LOCK = "SELECT 1 FROM workflow_status WHERE workflow_uuid = ? FOR UPDATE"
QUEUE_LOCK = "SELECT 1 FROM queues WHERE name = ? FOR NO KEY UPDATE"


@pytest.fixture(params=["postgres"])
def site_kind(request: pytest.FixtureRequest) -> str:
    """Only Postgres has row locks that somebody else can hold."""
    kind: str = request.param
    return kind


@asynccontextmanager
async def held(site: Site, workflow_id: WorkflowId) -> AsyncIterator[None]:
    """A third party holds the lock of that workflow's row."""
    async with site.postgres.transaction(LOCK, workflow_id):
        yield


async def test_a_step_of_a_locked_run_is_busy(site: Site, me: Process) -> None:
    """“*busy*: the run's row is locked by someone”: its neighbours in the batch are written."""
    one, locked, three = [await me.running() for _ in range(3)]
    batch = [
        rows.checkpoint(three),
        rows.checkpoint(locked),
        rows.checkpoint(one),
        rows.checkpoint(locked, 2),
    ]
    async with held(site, locked.workflow_id):
        answers = await me.store.record(batch)
        assert kinds(answers) == [WRITTEN, BUSY, WRITTEN, BUSY]
        assert await site.steps(locked.workflow_id) == []
    assert kinds(await me.store.record(batch)) == [MINE, WRITTEN, MINE, WRITTEN]


async def test_what_a_locked_run_recorded_already_is_not_busy(site: Site, me: Process) -> None:
    """“They are checked in this order of precedence: *written*, *mine*, *conflict*, *lost*,
    *busy*”."""
    run = await me.running()
    item = rows.checkpoint(run)
    await me.store.record([item])
    stale = Fence(run.workflow_id, rows.token())
    async with held(site, run.workflow_id):
        answers = await me.store.record(
            [item, rows.checkpoint(run, name="other"), rows.checkpoint(stale, 2)]
        )
    assert kinds(answers) == [MINE, CONFLICT, LOST]


async def test_a_child_of_a_locked_parent_is_busy(site: Site, me: Process) -> None:
    """“*lost* / *busy*: as for `record`, about the caller's run”: the child is not written."""
    locked, free = await me.running(), await me.running()
    busy = rows.child_of(locked, 1, rows.direct())
    fine = rows.child_of(free, 1, rows.direct())
    async with held(site, locked.workflow_id):
        answers = await me.start(busy, fine, rows.direct())
        assert kinds(answers) == [BUSY, WRITTEN, WRITTEN]
        assert not await site.exists(busy.workflow.workflow_id)
        assert await site.payload("workflow_input", busy.workflow.workflow_id) is None
    assert await site.steps(locked.workflow_id) == []
    assert kinds(await me.start(busy)) == [WRITTEN]


async def test_a_repeated_child_start_of_a_locked_parent_is_mine(site: Site, me: Process) -> None:
    """“They are checked in this order of precedence: *written*, *mine*, *conflict*, *lost*,
    *busy*”."""
    parent = await me.running()
    mine = rows.child_of(parent, 1, rows.direct())
    await me.start(mine)
    await me.running("there")
    taken = rows.child_of(parent, 1, rows.direct())
    exists = rows.child_of(parent, 2, rows.direct("there"))
    async with held(site, parent.workflow_id):
        assert kinds(await me.start(mine, taken, exists)) == [MINE, CONFLICT, CONFLICT]


async def test_a_locked_row_under_the_id_does_not_delay_a_start(site: Site, me: Process) -> None:
    """“*mine*: a row with the same id and the same `creator` stands”: to see it, no lock of it is
    needed."""
    mine, theirs = await me.running(), await me.running()
    fresh = rows.direct()
    async with held(site, mine.workflow_id), held(site, theirs.workflow_id):
        answers = await me.start(mine, rows.direct(theirs.workflow_id), fresh)
    assert kinds(answers) == [MINE, CONFLICT, WRITTEN]


async def test_an_ending_of_a_locked_run_is_busy(site: Site, me: Process) -> None:
    """“*busy*: its lock is held elsewhere”."""
    locked, free = await me.running(), await me.running()
    batch = [rows.finish(locked), rows.finish(free)]
    async with held(site, locked.workflow_id):
        assert kinds(await me.store.finish(batch)) == [BUSY, WRITTEN]
        assert await site.payload("workflow_output", locked.workflow_id) is None
    assert kinds(await me.store.finish(batch)) == [WRITTEN, MINE]


async def test_a_locked_row_that_has_ended_is_not_busy(site: Site, me: Process) -> None:
    """“They are checked in this order of precedence: *written*, *mine*, *conflict*, *lost*,
    *busy*”."""
    ended, other = await me.running(), await me.running()
    await me.store.finish([rows.finish(ended)])
    stale = Fence(other.workflow_id, rows.token())
    async with held(site, ended.workflow_id), held(site, other.workflow_id):
        assert kinds(await me.store.finish([rows.finish(ended), rows.finish(stale)])) == [
            MINE,
            LOST,
        ]
        assert kinds(await me.store.release([rows.release(ended), rows.release(stale)])) == [
            LOST,
            LOST,
        ]


async def test_a_release_of_a_locked_run_is_busy(site: Site, me: Process) -> None:
    """“*written*, *busy*, or *lost* for anything else”."""
    locked, free = await me.running(), await me.running()
    batch = [rows.release(locked), rows.release(free)]
    async with held(site, locked.workflow_id):
        assert kinds(await me.store.release(batch)) == [BUSY, WRITTEN]
    assert kinds(await me.store.release(batch)) == [WRITTEN, LOST]


async def test_locked_rows_are_skipped_by_a_claim(site: Site, me: Process) -> None:
    """“Rows locked by others are skipped”: and do not use up the limit."""
    first, second, third = [await me.waiting(f"w{number}") for number in range(3)]
    async with held(site, first.workflow_id):
        claimed = await me.claim(limit=2)
        assert [run.workflow_id for run in claimed] == [second.workflow_id, third.workflow_id]
    assert [run.workflow_id for run in await me.claim()] == [first.workflow_id]


async def test_locked_rows_are_skipped_by_a_sweep(site: Site, me: Process) -> None:
    """“Move what is due and end what is overdue, in one transaction; rows locked are skipped”."""
    locked, due = await me.waiting(delay_ms=1), await me.waiting(delay_ms=2)
    late, overdue = await me.waiting(deadline_ms=1), await me.waiting(deadline_ms=2)
    site.clock.advance(1000)
    async with held(site, locked.workflow_id), held(site, late.workflow_id):
        swept = await me.sweep()
        assert (swept.moved, swept.expired) == (1, (overdue.workflow_id,))
        assert (await site.status(due.workflow_id))["status"] == "ENQUEUED"
    again = await me.sweep()
    assert (again.moved, again.expired) == (1, (late.workflow_id,))


@pytest.mark.parametrize("strength", ["NO KEY UPDATE", "UPDATE", "SHARE"])
async def test_a_queue_that_is_locked_is_contended(site: Site, me: Process, strength: str) -> None:
    """“(one that is locked by somebody is `contended`)”, “without waiting”: and others are not."""
    for name in ("a", "b"):
        await me.queue(name, concurrency=1)
        await me.waiting(name, queue_name=name)
    lock = f"SELECT 1 FROM queues WHERE name = ? FOR {strength}"
    async with site.postgres.transaction(lock, "a"):
        claim = await me.claim_shared("a", "b")
        assert [run.workflow_id for run in claim.runs] == ["b"]
        assert claim.turns[0] == QueueTurn("a", contended=True)
        assert (claim.turns[1].taken, claim.turns[1].contended) == (1, False)
    assert (await me.turn("a")).taken == 1


async def test_a_queue_that_is_changed_waits_for_its_lock(site: Site, me: Process) -> None:
    """“Change a queue as `decide` says under the row's lock”; “The lock is the one claims hold”."""
    await me.queue(concurrency=1)
    async with site.postgres.transaction(QUEUE_LOCK, rows.QUEUE):
        changing = [
            asyncio.create_task(me.store.change_queue(rows.QUEUE, lambda _: rows.queue())),
            asyncio.create_task(me.store.pause_queue(rows.QUEUE, paused=True)),
            asyncio.create_task(
                me.store.register_queue(rows.QUEUE, rows.VERSION, lambda *_: rows.queue())
            ),
        ]
        await eventually(lambda: _waiting_for_locks(site, len(changing)))
        assert not any(task.done() for task in changing)
    await asyncio.gather(*changing)
    (row,) = await me.store.queues()
    assert (row.settings, row.is_paused) == (rows.queue(), True)


async def test_a_lock_held_for_a_change_contends_no_heartbeat(site: Site, me: Process) -> None:
    """“Renew the lease and look around, in one statement”: nothing of it waits for a queue."""
    await me.queue(concurrency=1)
    await me.waiting()
    async with site.postgres.transaction(QUEUE_LOCK, rows.QUEUE):
        assert (await me.beat()).ready == (rows.QUEUE,)
        assert len(await me.store.queues()) == 1
        assert (await me.sweep()).moved == 0


async def test_locked_rows_are_skipped_by_a_claim_under_limits(site: Site, me: Process) -> None:
    """“Rows locked by others are skipped”: and use up no limit, unless they are PENDING."""
    await me.queue(concurrency=3)
    running = await me.running(queue_name=rows.QUEUE)
    first, *others = [await me.waiting(f"w{number}") for number in range(4)]
    async with held(site, first.workflow_id), held(site, running.workflow_id):
        claim = await me.claim_shared()
        assert [run.workflow_id for run in claim.runs] == [w.workflow_id for w in others[:2]]
        assert (await me.turn()).is_full


async def test_locked_rows_are_skipped_in_partitions(site: Site, me: Process) -> None:
    """“Rows locked by others are skipped”: the next of its partition comes in its place."""
    await me.queue(partitioned=True, partition_concurrency=1)
    made = [await me.waiting(f"w{n}", partition_key="ab"[n % 2]) for n in range(4)]
    async with held(site, made[0].workflow_id):
        claim = await me.claim_shared()
    assert sorted(run.workflow_id for run in claim.runs) == ["w1", "w2"]


async def _waiting_for_locks(site: Site, number: int) -> bool:
    found = await site.backdoor.rows(
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND datname = current_database()"
    )
    return len(found) >= number


async def test_a_locked_row_does_not_stop_a_takeover(site: Site, me: Process) -> None:
    """“When no PENDING row names the boot any more, the lease row is deleted: `finished`”: a row
    that is locked still names it, and the others are moved without waiting for it."""
    victim = await site.process()
    locked, free = await victim.running(), await victim.running()
    await victim.link.close()
    site.clock.advance(victim.lease.period_ms + 1)
    suspect = await me.accuse(victim)
    async with held(site, locked.workflow_id):
        first = await me.store.take_over(suspect, 10)
        assert first == Takeover(moved=1, finished=False, refused=False)
        assert (await site.status(free.workflow_id))["queue_name"] == INTERNAL_QUEUE
    assert await me.store.take_over(suspect, 10) == Takeover(1, finished=True, refused=False)


async def test_a_lease_another_takes_over_is_refused(site: Site, me: Process) -> None:
    """“Locks the lease row first (skipping if another holds it: `refused`)”."""
    victim = await site.process()
    run = await victim.running()
    site.clock.advance(victim.lease.period_ms + 1)
    suspect = await me.accuse(victim)
    lock = "SELECT 1 FROM leases WHERE boot_id = ? FOR UPDATE"
    async with site.postgres.transaction(lock, victim.boot):
        assert await me.store.take_over(suspect, 10) == Takeover(0, finished=False, refused=True)
    assert (await site.status(run.workflow_id))["status"] == "PENDING"


async def waiters(site: Site) -> int:
    """How many sessions wait for a lock in this database."""
    (row,) = await site.backdoor.rows(
        "SELECT COUNT(*) AS n FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    count: int = row["n"]
    return count


async def test_a_cancel_waits_for_the_lock(site: Site, me: Process) -> None:
    """“The rows it concerns are locked in id order”."""
    run = await me.running()
    async with held(site, run.workflow_id):
        cancelling = asyncio.create_task(me.cancel([run.workflow_id]))
        await eventually(lambda: waiters(site))
        assert not cancelling.done()
    assert await cancelling == [run.workflow_id]


async def test_a_start_waits_for_a_takeover_and_learns_of_it(site: Site, me: Process) -> None:
    """“The statement holds a key-share lock on the lease”."""
    lock = "SELECT 1 FROM leases WHERE boot_id = ? FOR UPDATE"
    run = rows.direct()
    async with site.postgres.transaction(lock, me.boot):
        starting = asyncio.create_task(me.start(run))
        await eventually(lambda: waiters(site))
        assert not await site.exists(run.workflow_id)
    assert kinds(await starting) == [WRITTEN]


async def test_a_claim_knows_of_steps_recorded_while_it_waited(site: Site, me: Process) -> None:
    """“nothing was recorded before this claim”: also not by one that was made and given back after
    its statement had begun."""
    other = await site.process()
    await me.open_queue()
    await me.waiting()
    lock = "SELECT 1 FROM leases WHERE boot_id = ? FOR UPDATE"
    async with site.postgres.transaction(lock, me.boot):
        claiming = asyncio.create_task(me.claim())
        await eventually(lambda: waiters(site))
        (theirs,) = await other.claim()
        fence = Fence(theirs.workflow_id, theirs.owner)
        await other.store.record([rows.checkpoint(fence)])
        await other.store.release([rows.release(fence)])
    (run,) = await claiming
    assert (run.workflow_id, run.attempts, run.may_have_steps) == (theirs.workflow_id, 1, True)


@pytest.mark.parametrize("reader", ["settled", "list", "history", "owned", "lost", "beat"])
async def test_a_read_takes_no_lock(site: Site, me: Process, reader: str) -> None:
    """“Plain reads; none takes a lock”."""
    run = await me.running()
    reads: dict[str, Any] = {
        "settled": lambda: me.store.settled([run.workflow_id]),
        "list": lambda: me.store.list_workflows(rows.by_ids(run.workflow_id)),
        "history": lambda: me.store.history([run.workflow_id]),
        "owned": lambda: me.store.owned(me.executor),
        "lost": lambda: me.store.lost([rows.fence_of(run)]),
        "beat": me.beat,
    }
    async with held(site, run.workflow_id):
        await reads[reader]()


async def test_an_outsiders_transaction_does_not_hold_up_a_heartbeat(
    site: Site, me: Process
) -> None:
    """“Renew the lease and look around”: a suspect's locked lease is just read."""
    victim = await site.process()
    site.clock.advance(victim.lease.period_ms + 1)
    lock = "SELECT 1 FROM leases WHERE boot_id = ? FOR UPDATE"
    async with site.postgres.transaction(lock, victim.boot):
        seen = await me.accuse(victim)
    assert isinstance(seen, LeaseSeen)
    assert seen.lock is LockState.HELD
