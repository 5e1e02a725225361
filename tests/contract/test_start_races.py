"""Races between starts: for one id, for one deduplication id, and of the same call with itself."""

import asyncio
from functools import partial

from perdure.model.answer import Answer, AnswerKind
from perdure.model.workflow import StandingWorkflow, Start
from tests.support import rows
from tests.support.races import race
from tests.support.store import Process, Site, kinds

WRITTEN, CONFLICT = AnswerKind.WRITTEN, AnswerKind.CONFLICT


async def one_writer_each(site: Site, mine: list[Start], theirs: list[Start]) -> None:
    """Of two items for one id exactly one was inserted, whole."""
    for one, other in zip(mine, theirs, strict=True):
        row = await site.status(one.workflow.workflow_id)
        assert row["creator_xid"] in (one.workflow.creator, other.workflow.creator)
        payload = await site.payload("workflow_input", one.workflow.workflow_id)
        winner = one if row["creator_xid"] == one.workflow.creator else other
        assert payload is not None
        assert payload["inputs"] == winner.workflow.inputs


async def test_starts_in_opposite_orders_never_deadlock(site: Site, me: Process) -> None:
    """“One item never fails its neighbours”: two batches for the same ids, in opposite orders."""
    other = await site.process()
    for number in range(25):
        names = [f"{number}-{index}" for index in range(40)]
        mine = rows.starts(*[rows.direct(name, inputs="mine") for name in names])
        theirs = rows.starts(*[rows.enqueued(name, inputs="theirs") for name in names])
        answers, rival = await race(
            number,
            partial(me.store.start, mine, me.executor),
            partial(other.store.start, theirs[::-1], other.executor),
        )
        for one, two in zip(answers, rival[::-1], strict=True):
            assert {one.kind, two.kind} == {WRITTEN, CONFLICT}
        await one_writer_each(site, mine, theirs)


async def test_deduplication_ids_in_opposite_orders_never_deadlock(site: Site, me: Process) -> None:
    """“under the queue's deduplication id (`standing` shows the holder, whose id differs)”."""
    other = await site.process()
    for number in range(25):
        names = [f"{number}-{index}" for index in range(20)]
        mine = rows.starts(*[rows.enqueued(deduplication_id=name) for name in names])
        theirs = rows.starts(*[rows.enqueued(deduplication_id=name) for name in names])
        answers, rival = await race(
            number,
            partial(me.store.start, mine, me.executor),
            partial(other.store.start, theirs[::-1], other.executor),
        )
        for one, two in zip(answers, rival[::-1], strict=True):
            assert {one.kind, two.kind} == {WRITTEN, CONFLICT}
        held = await site.backdoor.rows(
            "SELECT deduplication_id FROM workflow_status WHERE deduplication_id LIKE ?",
            f"{number}-%",
        )
        assert sorted(row["deduplication_id"] for row in held) == sorted(names)


async def test_a_start_while_the_holder_ends(site: Site, me: Process) -> None:
    """“*busy* also where what stood in the way was gone before it could be shown”: never a conflict
    with nobody."""
    other = await site.process()
    for number in range(150):
        holder = await me.waiting(deduplication_id="d")
        wanted = rows.enqueued(deduplication_id="d")
        _, (answer,) = await race(
            number,
            partial(other.cancel, [holder.workflow_id]),
            partial(me.store.start, rows.starts(wanted), me.executor),
        )
        assert answer.kind in (WRITTEN, CONFLICT, AnswerKind.BUSY)
        if answer.kind is CONFLICT:
            assert answer.standing is not None
            assert answer.standing.workflow_id == holder.workflow_id
        assert await site.exists(wanted.workflow_id) is (answer.kind is WRITTEN)
        await me.cancel([wanted.workflow_id])


async def test_children_of_one_parent_in_opposite_orders_never_deadlock(
    site: Site, me: Process
) -> None:
    """“each child together with its parent's step row”, while the parents' steps are recorded in
    the opposite order."""
    other = await site.process()
    parents = [await me.running() for _ in range(30)]
    for number in range(20):
        children = [rows.child_of(parent, 2 * number + 1, rows.direct()) for parent in parents]
        steps = [rows.checkpoint(parent, 2 * number + 2) for parent in reversed(parents)]
        started, recorded = await race(
            number,
            partial(me.store.start, children, me.executor),
            partial(other.store.record, steps),
        )
        await _all_or_nothing(site, children, started)
        assert set(kinds(recorded)) <= {WRITTEN, AnswerKind.BUSY}


async def _all_or_nothing(
    site: Site, children: list[Start], answers: list[Answer[StandingWorkflow]]
) -> None:
    for item, answer in zip(children, answers, strict=True):
        assert answer.kind in (WRITTEN, AnswerKind.BUSY)
        assert item.caller is not None
        recorded = [
            step
            for step in await site.steps(item.caller.workflow_id)
            if step["child_workflow_id"] == item.workflow.workflow_id
        ]
        written = answer.kind is WRITTEN
        assert (len(recorded) == 1) is written
        assert await site.exists(item.workflow.workflow_id) is written


async def test_racing_starts_of_one_id_have_one_writer(site: Site, me: Process) -> None:
    """“*written*: the row was inserted by this call”: of many callers, one."""
    rivals = [me, await site.process(), await site.process()]
    for attempt in range(20):
        wanted = [rows.direct(f"race-{attempt}") for _ in rivals]
        answers = await asyncio.gather(
            *(rival.start(item) for rival, item in zip(rivals, wanted, strict=True))
        )
        flat = [answer for (answer,) in answers]
        assert sorted(answer.kind.value for answer in flat) == ["conflict", "conflict", "written"]
        winner = wanted[kinds(flat).index(WRITTEN)]
        assert {answer.standing.creator for answer in flat if answer.standing} == {winner.creator}


async def test_repeats_of_one_batch_at_the_same_time(site: Site, me: Process) -> None:
    """“every method is safe to repeat after an unknown outcome”: also while the first try is still
    under way."""
    other = await site.store()
    for number in range(40):
        run = rows.direct()
        batch = rows.starts(run, *[rows.enqueued() for _ in range(5)])
        starts = await race(
            number,
            partial(me.store.start, batch, me.executor),
            partial(other.start, batch, me.executor),
        )
        for pair in zip(*starts, strict=True):
            assert sorted(answer.kind.value for answer in pair) == ["mine", "written"]
        item = [rows.checkpoint(run)]
        records = await race(
            number,
            partial(me.store.record, item),
            partial(other.record, item),
        )
        ends = sorted(kind.value for kind in kinds([answer for (answer,) in records]))
        assert ends in (["mine", "written"], ["busy", "written"])
        assert len(await site.steps(run.workflow_id)) == 1
