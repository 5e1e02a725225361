"""Forks and rewinds beside those who write at the same time: one of the legal stories, always."""

import asyncio
from typing import Any

import pytest

from perdure.errors import WorkflowIdInUse, WorkflowNotEnded, WorkflowNotFound
from perdure.model.answer import AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.management import Delete, Fork, ForkItem, Managed, Rewind
from perdure.model.retention import Expired
from perdure.model.status import WorkflowState
from tests.support import rows
from tests.support.lives import everything, lived, told
from tests.support.races import race, rounds
from tests.support.store import Process, Site

WRITTEN, LOST, BUSY = AnswerKind.WRITTEN, AnswerKind.LOST, AnswerKind.BUSY
ROUNDS = rounds(40)
BEYOND = 1_000_000


async def test_a_fork_sees_what_its_source_writes_or_does_not(site: Site, me: Process) -> None:
    """“The rows it concerns are locked … before they are judged”: a step and what it published are
    copied together or not at all."""
    other = await site.process()
    seen = set()
    for number in range(ROUNDS):
        source = await me.running()
        wanted = ForkItem(source.workflow_id, WorkflowId(rows.fresh("fork")), BEYOND)

        async def publish(source: Any = source) -> Any:
            return await me.store.publish([rows.event(source, 1)])

        async def fork(wanted: ForkItem = wanted) -> Managed:
            return await other.managed(Fork((wanted,)))

        (answer,), made = await race(number, publish, fork)
        assert made.ids == (wanted.fork_id,)
        assert answer.kind in (WRITTEN, BUSY)
        steps = len(await site.steps(wanted.fork_id))
        for table in ("workflow_events", "workflow_events_history"):
            assert len(await told(site, table, wanted.fork_id)) == steps
        seen.add(steps)
    assert seen <= {0, 1}


async def test_one_fork_of_one_source_is_made_once(site: Site, me: Process) -> None:
    """“not if a fork of that source stands under it”: two who ask for it at once get the same."""
    other = await site.process()
    source = await lived(me)
    for number in range(ROUNDS):
        wanted = Fork((ForkItem(source.workflow_id, WorkflowId(rows.fresh("fork")), 6),))
        made = await race(number, lambda w=wanted: me.managed(w), lambda w=wanted: other.managed(w))
        assert [managed.refusal for managed in made] == [None, None]
        assert len(await site.steps(wanted.items[0].fork_id)) == 5


async def test_one_id_is_of_one_source(site: Site, me: Process) -> None:
    """“a fork's id stands already … (`WorkflowIdInUse`”: of two sources one has it."""
    other = await site.process()
    sources = [await me.running(), await me.running()]
    for number in range(ROUNDS):
        fork_id = WorkflowId(rows.fresh("fork"))
        mine, theirs = (Fork((ForkItem(s.workflow_id, fork_id),)) for s in sources)
        made = await race(number, lambda w=mine: me.managed(w), lambda w=theirs: other.managed(w))
        refused = [managed.refusal for managed in made]
        assert refused.count(None) == 1
        assert sum(isinstance(refusal, WorkflowIdInUse) for refusal in refused) == 1
        winner = sources[refused.index(None)]
        assert (await site.status(fork_id))["forked_from"] == winner.workflow_id


@pytest.mark.parametrize("by", ["delete", "purge"])
async def test_a_fork_of_what_is_removed_is_whole_or_refused(
    site: Site, me: Process, by: str
) -> None:
    """“refused if a source is missing”: and else all of it is copied; whoever removes it."""
    other = await site.process()
    for number in range(ROUNDS):
        source = await me.running()
        await me.store.record([rows.checkpoint(source, step_id) for step_id in range(1, 7)])
        await me.store.finish([rows.finish(source)])
        wanted = ForkItem(source.workflow_id, WorkflowId(rows.fresh("fork")), 6)

        async def fork(wanted: ForkItem = wanted) -> Managed:
            return await other.managed(Fork((wanted,)))

        async def remove(source: Any = source) -> Any:
            if by == "delete":
                return await me.managed(Delete((source.workflow_id,)))
            return await me.store.purge(Expired(before_ms=2**50), 0, 100)

        made, _ = await race(number, fork, remove)
        if made.refusal is None:
            assert len(await site.steps(wanted.fork_id)) == 5
            assert await site.payload("workflow_input", wanted.fork_id) is not None
        else:
            assert isinstance(made.refusal, WorkflowNotFound)
            assert not await site.exists(wanted.fork_id)


async def test_a_waiter_sees_the_whole_outcome_or_none(site: Site, me: Process) -> None:
    """“and so is the outcome, in whichever place”: in one transaction with the state; whoever looks
    all the time sees it, and from some moment on nothing."""
    other = await site.process()
    for number in range(ROUNDS):
        run, gone = await me.running(), asyncio.Event()
        await me.store.finish([rows.finish(run, text='"out"')])

        async def rewind(run: Any = run, gone: asyncio.Event = gone) -> Managed:
            try:
                return await other.managed(Rewind(run.workflow_id, rows.token()))
            finally:
                gone.set()

        async def look(run: Any = run, gone: asyncio.Event = gone) -> list[Any]:
            seen = []
            while not gone.is_set():
                found = (await me.store.settled([run.workflow_id])).outcomes
                seen.append([(each.state, each.output) for each in found])
            return seen

        made, seen = await race(number, rewind, look)
        assert made.refusal is None
        whole = seen.count([(WorkflowState.SUCCESS, '"out"')])
        assert seen[whole:] == [[]] * (len(seen) - whole)


async def test_two_rewinds_are_one(site: Site, me: Process) -> None:
    """“`WorkflowNotEnded`” is what the second one is told."""
    other = await site.process()
    for number in range(ROUNDS):
        run = await me.running()
        await me.cancel([run.workflow_id])
        one, two = (Rewind(run.workflow_id, rows.token()) for _ in range(2))
        made = await race(number, lambda w=one: me.managed(w), lambda w=two: other.managed(w))
        refused = [managed.refusal for managed in made]
        assert refused.count(None) == 1
        assert sum(isinstance(refusal, WorkflowNotEnded) for refusal in refused) == 1


@pytest.mark.parametrize("late", ["record", "finish", "receive"])
async def test_a_late_write_meets_the_old_life_or_nothing(
    site: Site, me: Process, late: str
) -> None:
    """“Needs no ownership of the rows: it takes it away from whoever runs them”: what the cancelled
    execution still tries is lost, before and after the rewind."""
    other = await site.process()
    for number in range(ROUNDS):
        run = await lived(me, state=None) if number < 10 else await me.running()
        await me.cancel([run.workflow_id])
        await me.store.send([rows.sending(rows.message(run))])

        async def rewind(run: Any = run) -> Managed:
            return await other.managed(
                Rewind(run.workflow_id, rows.token(), 3, queue_name=rows.QUEUE)
            )

        async def write(run: Any = run) -> Any:
            if late == "record":
                return await me.store.record([rows.checkpoint(run, 50)])
            if late == "finish":
                return await me.store.finish([rows.finish(run)])
            return await me.store.receive([rows.receiving(run, 50)])

        made, (answer,) = await race(number, rewind, write)
        assert made.refusal is None
        # A finish that meets the cancelled row learns of its end.
        assert answer.kind in ((LOST, AnswerKind.MINE) if late == "finish" else (LOST,))
        status, steps, *_ = await everything(site, run.workflow_id)
        assert status[0]["status"] == "ENQUEUED"
        assert all(step["function_id"] < 3 for step in steps)
