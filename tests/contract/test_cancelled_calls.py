"""Calls cancelled or out of time: the store stays usable, and the truth can be learnt."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest

from perdure.errors import DatabaseConflict, DatabaseUnavailable
from perdure.model.answer import AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.queue import Rate
from perdure.model.workflow import Fence
from tests.support import rows
from tests.support.backdoor import SQLITE_PREFIX, connect_file
from tests.support.database import MovableClock, build_store
from tests.support.store import Process, Site, cancel, kinds
from tests.support.waiting import eventually

WRITTEN, MINE, LOST = AnswerKind.WRITTEN, AnswerKind.MINE, AnswerKind.LOST
ROUNDS = 60


async def interrupted(turns: int, call: Callable[[], Awaitable[Any]]) -> None:
    """Begin the call, and cancel it after that many turns of the loop."""
    task = asyncio.ensure_future(call())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_cancelled_start(site: Site, me: Process) -> None:
    """“every method is safe to repeat after an unknown outcome”."""
    for turns in range(ROUNDS):
        batch = rows.starts(rows.direct(), rows.enqueued(), rows.direct())
        await interrupted(turns, partial(me.store.start, batch, me.executor))
        answers = kinds(await me.store.start(batch, me.executor))
        assert answers in ([WRITTEN] * 3, [MINE] * 3)


async def test_a_cancelled_record(site: Site, me: Process) -> None:
    """“every method is safe to repeat after an unknown outcome”."""
    run = await me.running()
    for turns in range(ROUNDS):
        batch = [rows.checkpoint(run, 2 * turns + 1), rows.checkpoint(run, 2 * turns + 2)]
        await interrupted(turns, partial(me.store.record, batch))
        answers = kinds(await me.store.record(batch))
        assert answers in ([WRITTEN] * 2, [MINE] * 2)
    assert len(await site.steps(run.workflow_id)) == 2 * ROUNDS


async def test_a_cancelled_claim(site: Site, me: Process) -> None:
    """“Repeating a call with the same token after an unknown outcome also returns the rows the
    first try claimed”."""
    await me.open_queue()
    await me.start(*[rows.enqueued() for _ in range(2 * ROUNDS)])
    taken: list[Fence] = []
    for turns in range(ROUNDS):
        request = rows.claim(me.executor, limit=2)
        await interrupted(turns, partial(me.store.claim, request))
        claimed = await me.store.claim(request)
        taken += [Fence(run.workflow_id, run.owner) for run in claimed]
    assert len({fence.workflow_id for fence in taken}) == len(taken) == 2 * ROUNDS
    assert await me.store.lost(taken) == []
    assert set(await me.store.owned(me.executor)) == set(taken)


async def test_a_cancelled_claim_under_limits(site: Site, me: Process) -> None:
    """“Repeating a call with the same token after an unknown outcome also returns the rows the
    first try claimed”: and a call that was given up holds no queue and spends nothing."""
    await me.queue(concurrency=2 * ROUNDS, rate=Rate(2 * ROUNDS, 3600.0))
    await me.start(*[rows.enqueued() for _ in range(3 * ROUNDS)])
    taken: list[Fence] = []
    for turns in range(ROUNDS):
        request = rows.shared_claim(me.executor, (rows.load(),), limit=2)
        await interrupted(turns, partial(me.store.claim_shared, request))
        claim = await me.store.claim_shared(request)
        while claim.turns[0].contended:
            claim = await me.store.claim_shared(request)
        taken += [Fence(run.workflow_id, run.owner) for run in claim.runs]
    assert len({fence.workflow_id for fence in taken}) == len(taken) == 2 * ROUNDS
    assert set(await me.store.owned(me.executor)) == set(taken)
    assert len(await site.own("rate_log")) == 2 * ROUNDS
    assert (await me.turn()).is_full


async def test_a_cancelled_change_of_a_queue(site: Site, me: Process) -> None:
    """“every method is safe to repeat after an unknown outcome”: what it says that it wrote, others
    see."""
    await me.queue(concurrency=1000)
    for turns in range(ROUNDS):
        settings = rows.queue(concurrency=turns + 1)
        change = partial(me.store.change_queue, rows.QUEUE, lambda _, new=settings: new)
        await interrupted(turns, change)
        changed = await change()
        assert changed is not None
        (found,) = await site.backdoor.rows("SELECT concurrency FROM queues")
        assert changed.settings.limits.concurrency == found["concurrency"] == turns + 1


async def swept_up(site: Site, me: Process, expected: dict[WorkflowId, str]) -> None:
    """Sweep until the rows are in those states."""

    async def is_done() -> bool:
        # What a call that was given up while it committed has locked, it has for a moment longer.
        await me.sweep()
        states = {each: (await site.status(each))["status"] for each in expected}
        return states == expected

    await eventually(is_done)


async def test_a_cancelled_sweep(site: Site, me: Process) -> None:
    """“every method is safe to repeat after an unknown outcome”."""
    for turns in range(ROUNDS):
        due, late = await me.waiting(delay_ms=1), await me.waiting(deadline_ms=5)
        site.clock.advance(1000)
        await interrupted(turns, me.sweep)
        await swept_up(site, me, {due.workflow_id: "ENQUEUED", late.workflow_id: "CANCELLED"})


async def test_a_cancelled_ending(site: Site, me: Process) -> None:
    """“every method is safe to repeat after an unknown outcome”."""
    for turns in range(ROUNDS):
        run = await me.running()
        await interrupted(turns, partial(me.store.finish, [rows.finish(run)]))
        (answer,) = await me.store.finish([rows.finish(run)])
        assert answer.kind in (WRITTEN, MINE)
        assert (await site.status(run.workflow_id))["status"] == "SUCCESS"


async def test_cancelled_reads(site: Site, me: Process) -> None:
    """“Plain reads”: one that nobody waits for any more disturbs no other."""
    run = await me.running()
    await me.store.record([rows.checkpoint(run)])
    for turns in range(ROUNDS):
        await interrupted(turns, partial(me.store.history, [run.workflow_id]))
        await interrupted(turns, partial(me.store.settled, [run.workflow_id]))
        assert len((await me.store.history([run.workflow_id]))[run.workflow_id]) == 1
        assert (await me.store.settled([run.workflow_id])).outcomes == ()


@asynccontextmanager
async def locked(site: Site, run: Fence) -> AsyncIterator[None]:
    """Somebody else is at work on that row and does not end."""
    if site.kind == "postgres":
        lock = "SELECT 1 FROM workflow_status WHERE workflow_uuid = ? FOR UPDATE"
        async with site.postgres.transaction(lock, run.workflow_id):
            yield
        return
    connection = connect_file(site.database.url.removeprefix(SQLITE_PREFIX))
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


@pytest.mark.parametrize("site_kind", ["sqlite", "postgres"])
async def test_every_statement_has_a_deadline(site: Site, me: Process) -> None:
    """“Every statement has a deadline”: also one that waits for a lock."""
    run = await me.running()
    store = build_store(site.database.url, "app", MovableClock(), deadline_s=0.2)
    await store.open()
    try:
        async with locked(site, rows.fence_of(run)):
            with pytest.raises((DatabaseUnavailable, DatabaseConflict)):
                await cancel(store, [run.workflow_id])

        async def is_usable() -> bool:
            # Whatever the machine is busy with may also take longer than the deadline.
            with suppress(DatabaseUnavailable, DatabaseConflict):
                return await cancel(store, [run.workflow_id]) == [run.workflow_id]
            return False

        await eventually(is_usable)
    finally:
        await store.close()
