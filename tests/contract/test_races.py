"""Races between writers: whoever wins, the database tells one story.

Every race is run many times, with the runners let go together and one of them held back for a
varying number of turns of the loop, so that their statements meet in many orders.
"""

import asyncio
from functools import partial
from typing import Any

import pytest

from perdure.errors import LeaseLost
from perdure.model.answer import Answer, AnswerKind
from perdure.model.ids import BootId, ExecutorId, WorkflowId
from perdure.model.lease import LeaseSeen, LockState
from perdure.model.wire import INTERNAL_QUEUE
from perdure.model.workflow import Checkpoint, Fence
from perdure.ports.store import Store
from tests.support import rows
from tests.support.races import race
from tests.support.store import Process, Site

WRITTEN, LOST, BUSY = AnswerKind.WRITTEN, AnswerKind.LOST, AnswerKind.BUSY
ROUNDS = 1000


def abandoned(executor: ExecutorId) -> LeaseSeen:
    """The judgement on a boot that has no lease."""
    boot = BootId(executor.rpartition("/")[2])
    return LeaseSeen(boot, executor, -1, False, LockState.UNKNOWN, orphaned=True)


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_nothing_is_recorded_once_the_next_owner_has_read(site: Site, me: Process) -> None:
    """“The statement locks each distinct run's row … and checks PENDING and owner before it
    inserts, so a takeover, a cancel and a step of one run exclude each other”: 1,000 times, what
    the next owner reads after its claim is all that the old one ever records."""
    next_owner = await site.process()
    for number in range(ROUNDS):
        executor = rows.executor_of(rows.boot_id())
        old = Fence(rows.wid(), rows.token())
        await site.foreign(
            old.workflow_id, status="PENDING", executor_id=executor, owner_xid=old.owner
        )

        async def record(old: Fence = old) -> AnswerKind:
            (answer,) = await me.store.record([rows.checkpoint(old)])
            return answer.kind

        async def take(executor: ExecutorId = executor) -> dict[WorkflowId, list[Any]]:
            await next_owner.store.take_over(abandoned(executor), 10)
            claimed = await next_owner.claim()
            return await next_owner.store.history([run.workflow_id for run in claimed])

        recorded, read = await race(number, record, take)
        stored = await site.steps(old.workflow_id)
        if await site.backdoor.rows(
            "SELECT 1 FROM workflow_status WHERE workflow_uuid = ? AND owner_xid = ?",
            old.workflow_id,
            old.owner,
        ):
            # The step held the row's lock, the takeover went past it: the next sweep has it.
            read = await take()
        assert len(read.get(old.workflow_id, [])) == len(stored)
        assert len(stored) == (1 if recorded is WRITTEN else 0)
        assert recorded in (WRITTEN, LOST, BUSY)
        await next_owner.cancel([old.workflow_id])


@pytest.mark.parametrize("rival", ["cancel", "finish", "release"])
async def test_a_step_and_an_ending_exclude_each_other(site: Site, me: Process, rival: str) -> None:
    """“so a takeover, a cancel and a step of one run exclude each other”."""
    other = await site.process()
    for number in range(150):
        run = await me.running()
        item = rows.checkpoint(run)

        async def end(run: Any = run) -> Any:
            if rival == "cancel":
                return await other.cancel([run.workflow_id])
            if rival == "finish":
                return await other.store.finish([rows.finish(run)])
            return await other.store.release([rows.release(run)])

        async def record(item: Checkpoint = item) -> list[Answer[Any]]:
            return await me.store.record([item])

        (answer,), ended = await race(number, record, end)
        stored = await site.steps(run.workflow_id)
        assert len(stored) == (1 if answer.kind is WRITTEN else 0)
        held = (await site.status(run.workflow_id))["status"] == "PENDING"
        if rival != "cancel":
            assert held is (ended[0].kind is BUSY)
        assert answer.kind in (WRITTEN, LOST, BUSY)
        if answer.kind is LOST:
            assert not held


async def test_a_start_and_a_takeover_exclude_each_other(site: Site, me: Process) -> None:
    """“The statement holds a key-share lock on the lease”; a takeover “marks the lease taken, so
    that its boot can start and claim nothing more”: no run stays behind with a dead owner."""
    theirs = await site.store()
    for number in range(60):
        victim = await site.process(theirs, 1000)
        site.clock.advance(1001)
        suspect = await me.accuse(victim)
        run = rows.direct()
        waiting = rows.enqueued()
        await me.start(waiting)

        async def begin(victim: Process = victim, run: Any = run) -> Any:
            return await asyncio.gather(
                victim.start(run), victim.claim(limit=1), return_exceptions=True
            )

        async def take(suspect: LeaseSeen = suspect) -> Any:
            return await me.store.take_over(suspect, 100)

        begun, taken = await race(number, begin, take)
        failures = [result for result in begun if isinstance(result, BaseException)]
        assert {type(failure) for failure in failures} <= {LeaseLost}
        for _ in range(50):
            if taken.finished:
                break
            taken = await me.store.take_over(suspect, 100)
        assert taken.finished
        left = await site.backdoor.rows(
            "SELECT workflow_uuid FROM workflow_status WHERE status = 'PENDING'"
        )
        assert left == []
        await me.cancel([run.workflow_id, waiting.workflow_id])
        await victim.link.close()


async def test_two_takers_of_one_boot_move_each_row_once(site: Site, me: Process) -> None:
    """“Locks the lease row first (skipping if another holds it: `refused`)”."""
    other = await site.process()
    for number in range(30):
        victim = await site.process(me.store, 1000)
        await victim.start(*[rows.direct() for _ in range(5)])
        await victim.link.close()
        site.clock.advance(1001)
        suspect = await me.accuse(victim)

        async def mine(suspect: LeaseSeen = suspect) -> Any:
            return await me.store.take_over(suspect, 100)

        async def theirs(suspect: LeaseSeen = suspect) -> Any:
            return await other.store.take_over(suspect, 100)

        results = await race(number, mine, theirs)
        assert sum(result.moved for result in results) == 5
        assert any(result.finished for result in results)
        claimed = await me.claim(queues=(INTERNAL_QUEUE,))
        assert len(claimed) == 5
        await me.cancel([run.workflow_id for run in claimed])


async def until_written(store: Store, batch: list[Checkpoint]) -> None:
    """Record the batch, and what was busy again, until all of it is there."""
    while batch:
        answers = await store.record(batch)
        assert {answer.kind for answer in answers} <= {WRITTEN, BUSY}
        batch = [item for item, answer in zip(batch, answers, strict=True) if answer.kind is BUSY]


async def test_batches_in_opposite_orders_never_deadlock(site: Site, me: Process) -> None:
    """“locks each distinct run's row (in id order, skipping locked ones)”."""
    other = await site.process()
    runs = [await me.running() for _ in range(60)]
    for number in range(40):
        forth = [rows.checkpoint(run, 2 * number + 1) for run in runs]
        back = [rows.checkpoint(run, 2 * number + 2) for run in reversed(runs)]
        await race(
            number,
            partial(until_written, me.store, forth),
            partial(until_written, other.store, back),
        )
    histories = await me.store.history([run.workflow_id for run in runs])
    assert {len(steps) for steps in histories.values()} == {80}


async def test_endings_in_opposite_orders_never_deadlock(site: Site, me: Process) -> None:
    """“The rows it concerns are locked in id order”; “the five things that can have happened to one
    row”."""
    other = await site.process()
    for number in range(25):
        runs = [rows.direct() for _ in range(40)]
        await me.start(*runs)
        ids = [run.workflow_id for run in runs]
        finished, released, cancelled, recorded = await race(
            number,
            partial(me.store.finish, [rows.finish(run) for run in runs]),
            partial(other.store.release, [rows.release(run) for run in reversed(runs)]),
            partial(other.cancel, ids[::-1]),
            partial(me.store.record, [rows.checkpoint(run) for run in runs[::2]]),
        )
        await _one_story(site, runs, (finished, released, cancelled, recorded))


async def test_cancels_in_opposite_orders_never_deadlock(site: Site, me: Process) -> None:
    """“The rows it concerns are locked in id order”; a claim passes over what is locked."""
    other = await site.process()
    for number in range(25):
        batch = [rows.enqueued() for _ in range(60)]
        await me.start(*batch)
        ids = [item.workflow_id for item in batch]
        cancelled, again, claimed = await race(
            number,
            partial(me.cancel, ids),
            partial(other.cancel, ids[::-1]),
            partial(other.claim, limit=60),
        )
        assert set(cancelled) == set(again) == set(ids)
        fences = [Fence(run.workflow_id, run.owner) for run in claimed]
        assert sorted(await me.store.lost(fences)) == sorted(f.workflow_id for f in fences)
        states = {(await site.status(workflow_id))["status"] for workflow_id in ids}
        assert states == {"CANCELLED"}


async def _one_story(site: Site, runs: list[Any], results: tuple[Any, ...]) -> None:
    finished, released, cancelled, recorded = results
    steps = {
        row["workflow_uuid"]
        for row in await site.backdoor.rows("SELECT workflow_uuid FROM operation_outputs")
    }
    for index, run in enumerate(runs):
        status = (await site.status(run.workflow_id))["status"]
        if finished[index].kind is WRITTEN:
            assert (status, run.workflow_id in cancelled) == ("SUCCESS", False)
        else:
            # Nothing else stands against a cancel, which waits for whoever has the row.
            assert (status, run.workflow_id in cancelled) == ("CANCELLED", True)
        ends = [finished[index].kind, released[len(runs) - 1 - index].kind]
        assert ends.count(WRITTEN) <= 1
        if index % 2 == 0:
            written = recorded[index // 2].kind is WRITTEN
            assert written is (run.workflow_id in steps)
