"""`LeaseStore.take_over` and `LeaseStore.end_lease`."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from perdure.errors import LeaseLost
from perdure.model.answer import AnswerKind
from perdure.model.ids import BootId, ExecutorId
from perdure.model.lease import LeaseSeen, LockState, Takeover
from perdure.model.wire import INTERNAL_QUEUE
from perdure.model.workflow import Fence
from tests.support import rows
from tests.support.store import Process, Site, kinds

REFUSED = Takeover(moved=0, finished=False, refused=True)
Overdue = Callable[[Process], Awaitable[LeaseSeen]]


@pytest.fixture
def condemn(site: Site, me: Process) -> Overdue:
    """Lets a process stop renewing until its lease ran out, and says what is held against it."""

    async def condemned(victim: Process) -> LeaseSeen:
        await victim.link.close()
        site.clock.advance(victim.lease.period_ms + 1)
        return await me.accuse(victim)

    return condemned


def orphan(boot: str, executor: str | None = None) -> LeaseSeen:
    """A boot that owns rows and has no lease."""
    name = executor if executor is not None else f"worker/{boot}"
    return LeaseSeen(BootId(boot), ExecutorId(name), -1, False, LockState.UNKNOWN, True)


async def test_rows_of_a_dead_boot_go_back_to_their_queues(
    site: Site, me: Process, condemn: Overdue
) -> None:
    """“Each row becomes ENQUEUED …: owner and start time NULL, queue kept …; the attempt is
    counted at the next claim”."""
    victim = await site.process()
    waiting = await victim.waiting(deduplication_id="d", timeout_ms=90_000, partition_key="p")
    await victim.claim()
    before = await site.status(waiting.workflow_id)
    suspect = await condemn(victim)
    begun = await me.store.now_ms()
    done = await me.store.take_over(suspect, 10)
    assert done == Takeover(moved=1, finished=True, refused=False)
    after = await site.status(waiting.workflow_id)
    assert (after["status"], after["queue_name"]) == ("ENQUEUED", rows.QUEUE)
    assert (after["owner_xid"], after["started_at_epoch_ms"]) == (None, None)
    assert after["updated_at"] >= begun
    assert after["recovery_attempts"] == before["recovery_attempts"] == 1
    changed = {column for column in before if before[column] != after[column]}
    assert changed <= {"status", "owner_xid", "started_at_epoch_ms", "updated_at"}
    (again,) = await me.claim()
    assert again.attempts == 2
    assert again.deadline_ms == before["workflow_deadline_epoch_ms"]


async def test_a_direct_start_of_a_dead_boot_goes_to_the_internal_queue(
    site: Site, me: Process, condemn: Overdue
) -> None:
    """“queue kept or else the internal one”."""
    victim = await site.process()
    run = await victim.running()
    await me.store.take_over(await condemn(victim), 10)
    row = await site.status(run.workflow_id)
    assert (row["status"], row["queue_name"]) == ("ENQUEUED", INTERNAL_QUEUE)
    (again,) = await me.claim(queues=(INTERNAL_QUEUE,))
    assert (again.workflow_id, again.attempts) == (run.workflow_id, 2)


async def test_the_old_owner_can_write_nothing_more(
    site: Site, me: Process, condemn: Overdue
) -> None:
    """“Move up to `limit` PENDING rows of a dead boot back to their queues”: owner NULL."""
    victim = await site.process()
    run = await victim.running()
    await me.store.take_over(await condemn(victim), 10)
    lost = [AnswerKind.LOST]
    assert kinds(await victim.store.record([rows.checkpoint(run)])) == lost
    assert kinds(await victim.store.finish([rows.finish(run)])) == lost
    assert kinds(await victim.store.release([rows.release(run)])) == lost
    assert await victim.store.lost([rows.fence_of(run)]) == [run.workflow_id]
    await me.claim(queues=(INTERNAL_QUEUE,))
    assert kinds(await victim.store.record([rows.checkpoint(run)])) == lost


async def test_only_pending_rows_of_that_boot_are_moved(
    site: Site, me: Process, condemn: Overdue
) -> None:
    """“Each row becomes ENQUEUED, conditional on its executor”."""
    victim = await site.process()
    moved = await victim.running()
    done, kept = await victim.running(), await victim.waiting(delay_ms=999_999)
    await victim.store.finish([rows.finish(done)])
    mine = await me.running()
    same_name = await site.foreign(status="PENDING", executor_id="worker", owner_xid="x")
    result = await me.store.take_over(await condemn(victim), 10)
    assert (result.moved, result.finished) == (1, True)
    states = [
        (await site.status(workflow_id))["status"]
        for workflow_id in (
            moved.workflow_id,
            done.workflow_id,
            kept.workflow_id,
            mine.workflow_id,
            same_name,
        )
    ]
    assert states == ["ENQUEUED", "SUCCESS", "DELAYED", "PENDING", "PENDING"]


async def test_rows_of_another_application_stay(site: Site, me: Process, condemn: Overdue) -> None:
    """“Only rows of this application or of none. When no PENDING row names the boot any more, the
    lease row is deleted”."""
    victim = await site.process()
    pending = {"status": "PENDING", "executor_id": victim.executor, "owner_xid": "x"}
    theirs = await site.foreign(application_name="other", **pending)
    nobodys = await site.foreign(application_name=None, **pending)
    result = await me.store.take_over(await condemn(victim), 10)
    assert result == Takeover(moved=1, finished=False, refused=False)
    assert (await site.status(theirs))["status"] == "PENDING"
    assert (await site.status(nobodys))["status"] == "ENQUEUED"


async def test_a_takeover_in_bounded_batches(site: Site, me: Process, condemn: Overdue) -> None:
    """“Move up to `limit` PENDING rows … When no PENDING row names the boot any more, the lease
    row is deleted: `finished`”."""
    victim = await site.process()
    for _ in range(5):
        await victim.running()
    suspect = await condemn(victim)
    batches = [await me.store.take_over(suspect, 2) for _ in range(3)]
    assert [batch.moved for batch in batches] == [2, 2, 1]
    assert [batch.finished for batch in batches] == [False, False, True]
    assert not any(batch.refused for batch in batches)
    assert await me.suspicion(victim) is None


async def test_a_partly_taken_lease_is_still_seen(
    site: Site, me: Process, condemn: Overdue
) -> None:
    """“marks the lease taken”: whoever began may die, so another process must see the rest."""
    victim = await site.process()
    await victim.running()
    await victim.running()
    await me.store.take_over(await condemn(victim), 1)
    other = await site.process()
    rest = await other.accuse(victim)
    assert (await other.store.take_over(rest, 10)).finished
    assert await other.suspicion(victim) is None


async def test_a_renewed_lease_refuses(site: Site, me: Process, condemn: Overdue) -> None:
    """“checks that `renewals` is still what the judge saw (else `refused`)”."""
    victim = await site.process()
    run = await victim.running()
    suspect = await condemn(victim)
    assert await victim.link.open(victim.lease) in (True, False)
    await victim.beat()
    assert await me.store.take_over(suspect, 10) == REFUSED
    assert (await site.status(run.workflow_id))["status"] == "PENDING"
    assert kinds(await victim.start(rows.direct())) == [AnswerKind.WRITTEN]
    assert (await victim.beat()).held


async def test_a_lease_that_is_gone_refuses_an_old_judgement(
    site: Site, me: Process, condemn: Overdue
) -> None:
    """“Locks the lease row first … and checks that `renewals` is still what the judge saw (else
    `refused`)”: a row another process finished with is not what was seen."""
    victim = await site.process()
    await victim.running()
    suspect = await condemn(victim)
    await me.store.take_over(suspect, 10)
    again = await me.store.take_over(suspect, 10)
    assert again.moved == 0
    assert again.refused or again.finished


async def test_a_taken_boot_has_lost_its_lease(site: Site, me: Process, condemn: Overdue) -> None:
    """“marks the lease taken, so that its boot can start and claim nothing more”; `open` “raises
    `LeaseLost` if this boot's lease was taken: the boot must take a new id”."""
    victim = await site.process()
    await victim.running()
    await victim.running()
    assert not (await me.store.take_over(await condemn(victim), 1)).finished
    with pytest.raises(LeaseLost):
        await victim.start(rows.direct())
    with pytest.raises(LeaseLost):
        await victim.claim()
    link = victim.store.heartbeat_link()
    with pytest.raises(LeaseLost):
        await link.open(victim.lease)
    await link.close()


async def test_a_boot_that_was_taken_over_to_the_end_stays_dead(
    site: Site, me: Process, condemn: Overdue
) -> None:
    """“Raises `LeaseLost` if this boot's lease was taken: the boot must take a new id”: also when
    nothing is left that says so in the database."""
    victim = await site.process()
    await victim.running()
    assert (await me.store.take_over(await condemn(victim), 10)).finished
    link = victim.store.heartbeat_link()
    with pytest.raises(LeaseLost):
        await link.open(victim.lease)
    await link.close()
    with pytest.raises(LeaseLost):
        await victim.start(rows.direct())


async def test_rows_of_a_boot_without_lease_are_taken(site: Site, me: Process) -> None:
    """“A Perdure boot without a lease row counts as dead”: its rows move all the same."""
    boot = rows.boot_id()
    executor = rows.executor_of(boot)
    found = await site.foreign(
        status="PENDING",
        executor_id=executor,
        owner_xid="x",
        queue_name=None,
        started_at_epoch_ms=1,
    )
    suspect = await me.accuse(boot)
    assert suspect == replace(orphan(boot), lock=suspect.lock, overdue=suspect.overdue)
    assert (await me.store.take_over(suspect, 10)).moved == 1
    row = await site.status(found)
    assert (row["status"], row["queue_name"]) == ("ENQUEUED", INTERNAL_QUEUE)
    assert (row["owner_xid"], row["started_at_epoch_ms"]) == (None, None)
    assert await me.suspicion(boot) is None


async def test_a_lease_that_appeared_refuses_a_judgement_on_an_orphan(
    site: Site, me: Process
) -> None:
    """“checks that `renewals` is still what the judge saw (else `refused`)”: it saw none."""
    late = site.stranger(await site.store())
    found = await site.foreign(status="PENDING", executor_id=late.executor, owner_xid="x")
    suspect = await me.accuse(late)
    await late.link.open(late.lease)
    assert await me.store.take_over(suspect, 10) == REFUSED
    assert (await site.status(found))["status"] == "PENDING"
    await late.link.close()


async def test_a_pending_row_without_owner_is_moved_too(
    site: Site, me: Process, condemn: Overdue
) -> None:
    """“Move up to `limit` PENDING rows of a dead boot”: also one that can never be completed."""
    victim = await site.process()
    bare = await victim.running()
    await site.update(bare.workflow_id, owner_xid=None)
    assert (await me.store.take_over(await condemn(victim), 10)).finished
    assert (await site.status(bare.workflow_id))["status"] == "ENQUEUED"


async def test_a_boot_with_nothing_running_is_just_removed(
    site: Site, me: Process, condemn: Overdue
) -> None:
    """“When no PENDING row names the boot any more, the lease row is deleted: `finished`”."""
    victim = await site.process()
    done = await me.store.take_over(await condemn(victim), 10)
    assert done == Takeover(moved=0, finished=True, refused=False)
    assert await me.suspicion(victim) is None


async def test_a_boot_that_stops_in_order_leaves_no_lease(site: Site, me: Process) -> None:
    """“Delete the lease of a boot that stops in order”."""
    leaving = await site.process()
    await leaving.link.close()
    await leaving.store.end_lease(leaving.boot)
    site.clock.advance(leaving.lease.period_ms * 10)
    assert await me.suspicion(leaving) is None
    with pytest.raises(LeaseLost):
        await leaving.start(rows.direct())


async def test_a_lease_stays_while_a_pending_row_names_it(site: Site, me: Process) -> None:
    """“unless a PENDING row still names it”."""
    leaving = await site.process()
    run = await leaving.running()
    await leaving.store.end_lease(leaving.boot)
    assert kinds(await leaving.start(rows.direct())) == [AnswerKind.WRITTEN]
    await leaving.link.close()
    site.clock.advance(leaving.lease.period_ms + 1)
    suspect = await me.accuse(leaving)
    assert not suspect.orphaned
    assert (await me.store.take_over(suspect, 10)).moved == 2
    assert (await site.status(run.workflow_id))["status"] == "ENQUEUED"


async def test_a_lease_stays_for_another_applications_row(site: Site, me: Process) -> None:
    """“unless a PENDING row still names it”: whose row it is does not matter."""
    leaving = await site.process()
    await site.foreign(
        status="PENDING", executor_id=leaving.executor, owner_xid="x", application_name="other"
    )
    await leaving.store.end_lease(leaving.boot)
    assert (await leaving.beat()).held


async def test_ending_a_lease_that_is_not_there_is_nothing(me: Process) -> None:
    """“every method is safe to repeat after an unknown outcome”."""
    await me.store.end_lease(rows.boot_id())
    await me.link.close()
    await me.store.end_lease(me.boot)
    await me.store.end_lease(me.boot)


async def test_a_takeover_moves_the_rows_that_were_claimed_and_started(
    site: Site, me: Process, condemn: Overdue
) -> None:
    """“Move up to `limit` PENDING rows of a dead boot”, 1,000 at once."""
    victim = await site.process()
    await victim.start(*[rows.enqueued() for _ in range(500)])
    await victim.start(*[rows.direct() for _ in range(500)])
    claimed = await victim.claim(limit=1000)
    assert len(claimed) == 500
    assert (await me.store.take_over(await condemn(victim), 2000)).moved == 1000
    fences = [Fence(run.workflow_id, run.owner) for run in claimed]
    assert len(await me.store.lost(fences)) == 500
