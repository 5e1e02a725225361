"""`RunStore.start`: what it answers about each item, and that the answer is the truth."""

import pytest

from perdure.errors import DatabaseRejected, LeaseLost
from perdure.model.answer import AnswerKind
from perdure.model.status import WorkflowState
from perdure.model.workflow import Fence, StandingWorkflow, Start, WorkflowKey
from tests.support import rows
from tests.support.store import Process, Site, kinds

WRITTEN, MINE, CONFLICT = AnswerKind.WRITTEN, AnswerKind.MINE, AnswerKind.CONFLICT


async def test_a_repeated_start_is_mine(site: Site, me: Process) -> None:
    """“*mine*: a row with the same id and the same `creator` stands; an earlier try got
    through”."""
    run = await me.running()
    before = await site.status(run.workflow_id)
    assert kinds(await me.start(run)) == [MINE]
    assert await site.status(run.workflow_id) == before


async def test_a_repeated_enqueue_is_mine_whatever_became_of_the_row(
    site: Site, me: Process
) -> None:
    """“a row with the same id and the same `creator` stands”: in any state, by any owner."""
    waiting = await me.waiting(deduplication_id="d")
    assert kinds(await me.start(waiting)) == [MINE]
    (claimed,) = await me.claim()
    assert kinds(await me.start(waiting)) == [MINE]
    await me.store.finish([rows.finish(Fence(claimed.workflow_id, claimed.owner))])
    ended = await site.status(waiting.workflow_id)
    assert kinds(await me.start(waiting)) == [MINE]
    assert await site.status(waiting.workflow_id) == ended


async def test_another_creators_row_is_a_conflict_that_shows_it(site: Site, me: Process) -> None:
    """“*conflict*: another creator's row stands under the id (`standing` shows it)”."""
    first = await me.running("taken", name="build", class_name="K", queue_name="q1")
    before = await site.status(first.workflow_id)
    (answer,) = await me.start(rows.direct("taken", inputs="other", serialization="other"))
    assert answer.kind is CONFLICT
    assert answer.standing == StandingWorkflow(
        workflow_id=first.workflow_id,
        state=WorkflowState.PENDING,
        key=WorkflowKey("build", "K", ""),
        queue_name="q1",
        creator=first.creator,
        serialization=first.serialization,
    )
    assert await site.status(first.workflow_id) == before
    stored = await site.payload("workflow_input", first.workflow_id)
    assert stored is not None
    assert stored["inputs"] == first.inputs


async def test_a_row_without_creator_is_a_conflict(site: Site, me: Process) -> None:
    """“another creator's row stands”: a row of another program has none."""
    await site.foreign("theirs", status="SUCCESS", name=None, serialization=None)
    (answer,) = await me.start(rows.direct("theirs"))
    assert answer.kind is CONFLICT
    assert answer.standing is not None
    assert answer.standing.creator is None
    assert answer.standing.state is WorkflowState.SUCCESS
    assert answer.standing.key == WorkflowKey("")
    assert answer.standing.serialization is None


@pytest.mark.parametrize("status", [None, "PAUSED"])
async def test_a_row_in_a_state_of_a_newer_schema_is_a_conflict_for_its_id_alone(
    me: Process, site: Site, status: str | None
) -> None:
    """“*conflict*: another creator's row stands under the id”; “one item never fails its
    neighbours”: also when nobody here knows the state."""
    await site.foreign("odd", status=status)
    answers = await me.start(rows.direct("odd"), rows.direct())
    assert kinds(answers) == [CONFLICT, WRITTEN]


async def test_a_held_deduplication_id_is_a_conflict_that_shows_the_holder(
    site: Site, me: Process
) -> None:
    """“or under the queue's deduplication id (`standing` shows the holder, whose id differs).
    Neither the workflow nor the caller's step row was written”."""
    holder = await me.waiting(deduplication_id="only-one")
    second = rows.enqueued(deduplication_id="only-one")
    (answer,) = await me.start(second)
    assert answer.kind is CONFLICT
    assert answer.standing is not None
    assert answer.standing.workflow_id == holder.workflow_id
    assert answer.standing.creator == holder.creator
    assert not await site.exists(second.workflow_id)
    assert await site.payload("workflow_input", second.workflow_id) is None


async def test_a_deduplication_id_belongs_to_one_queue(me: Process) -> None:
    """“the queue's deduplication id”: another queue has its own."""
    first = rows.enqueued(deduplication_id="d", queue_name="a")
    second = rows.enqueued(deduplication_id="d", queue_name="b")
    assert kinds(await me.start(first, second)) == [WRITTEN, WRITTEN]


@pytest.mark.parametrize("ending", ["finish", "cancel"])
async def test_an_ended_holder_frees_the_deduplication_id(me: Process, ending: str) -> None:
    """Finish “clears owner and deduplication id”; cancel “clears owner, queue name,
    deduplication id and start time”."""
    holder = await me.waiting(deduplication_id="d")
    (claimed,) = await me.claim()
    if ending == "finish":
        await me.store.finish([rows.finish(Fence(claimed.workflow_id, claimed.owner))])
    else:
        await me.cancel([holder.workflow_id])
    assert kinds(await me.start(rows.enqueued(deduplication_id="d"))) == [WRITTEN]


async def test_a_claimed_holder_still_holds_the_deduplication_id(me: Process) -> None:
    """“under the queue's deduplication id”: held through ENQUEUED and PENDING."""
    holder = await me.waiting(deduplication_id="d")
    await me.claim()
    (answer,) = await me.start(rows.enqueued(deduplication_id="d"))
    assert answer.kind is CONFLICT
    assert answer.standing is not None
    assert answer.standing.workflow_id == holder.workflow_id
    assert answer.standing.state is WorkflowState.PENDING


async def test_the_id_is_looked_at_before_the_deduplication_id(me: Process) -> None:
    """“another creator's row stands under the id (`standing` shows it), or under the queue's
    deduplication id”."""
    await me.waiting(deduplication_id="d")
    other = await me.waiting("taken")
    (answer,) = await me.start(rows.enqueued("taken", deduplication_id="d"))
    assert answer.kind is CONFLICT
    assert answer.standing is not None
    assert answer.standing.workflow_id == other.workflow_id


async def test_one_batch_can_hold_every_answer_in_its_order(site: Site, me: Process) -> None:
    """“Answers come in the order of the items” and “one item never fails its neighbours”."""
    mine = await me.waiting()
    theirs = await me.waiting()
    holder = await me.waiting(deduplication_id="d")
    batch = [
        rows.direct(),
        rows.enqueued(theirs.workflow_id),
        rows.enqueued(),
        mine,
        rows.enqueued(deduplication_id="d"),
        rows.direct(),
    ]
    answers = await me.start(*batch)
    assert kinds(answers) == [WRITTEN, CONFLICT, WRITTEN, MINE, CONFLICT, WRITTEN]
    standing = [answer.standing.workflow_id if answer.standing else None for answer in answers]
    assert standing == [None, theirs.workflow_id, None, None, holder.workflow_id, None]
    for index in (0, 2, 5):
        assert await site.exists(batch[index].workflow_id)
    assert not await site.exists(batch[4].workflow_id)


async def test_the_same_item_twice_in_a_batch_is_written_once(site: Site, me: Process) -> None:
    """“*written*: the row was inserted by this call”, “*mine*: a row with the same id and the
    same `creator` stands”."""
    run = rows.direct()
    assert sorted(answer.kind.value for answer in await me.start(run, run)) == ["mine", "written"]
    assert (await site.status(run.workflow_id))["owner_xid"] == run.creator


async def test_two_creators_of_one_id_in_a_batch_are_told_apart(site: Site, me: Process) -> None:
    """“another creator's row stands under the id (`standing` shows it)”, also within a batch."""
    batch = [rows.direct("both", inputs="1"), rows.direct("both", inputs="2")]
    answers = await me.start(*batch)
    assert sorted(answer.kind.value for answer in answers) == ["conflict", "written"]
    winner = batch[kinds(answers).index(WRITTEN)]
    loser = answers[kinds(answers).index(CONFLICT)]
    assert (await site.status(winner.workflow_id))["creator_xid"] == winner.creator
    stored = await site.payload("workflow_input", winner.workflow_id)
    assert stored is not None
    assert stored["inputs"] == winner.inputs
    assert loser.standing is not None
    assert loser.standing.creator == winner.creator


async def test_two_items_of_a_batch_never_share_a_deduplication_id(site: Site, me: Process) -> None:
    """“under the queue's deduplication id (`standing` shows the holder)”, also within a batch."""
    batch = [rows.enqueued(deduplication_id="d") for _ in range(3)]
    answers = await me.start(*batch)
    assert sorted(answer.kind.value for answer in answers) == ["conflict", "conflict", "written"]
    winner = batch[kinds(answers).index(WRITTEN)]
    for item, answer in zip(batch, answers, strict=True):
        if answer.kind is CONFLICT:
            assert answer.standing is not None
            assert answer.standing.workflow_id == winner.workflow_id
            assert not await site.exists(item.workflow_id)


async def test_without_a_lease_nothing_is_started(site: Site, me: Process) -> None:
    """“if that lease is missing or taken, raises `LeaseLost` and nothing is written”."""
    stranger = site.stranger(me.store)
    batch = [rows.direct(), rows.enqueued(), rows.enqueued(delay_ms=5)]
    with pytest.raises(LeaseLost):
        await stranger.start(*batch)
    assert [await site.exists(item.workflow_id) for item in batch] == [False] * 3


async def test_a_taken_lease_starts_nothing(site: Site, me: Process) -> None:
    """“if that lease is missing or taken, raises `LeaseLost` and nothing is written”."""
    victim = await site.process()
    old = await victim.running()
    await victim.running()
    await victim.link.close()
    site.clock.advance(victim.lease.period_ms + 1)
    taken = await me.store.take_over(await me.accuse(victim), 1)
    assert (taken.moved, taken.finished) == (1, False)
    fresh = rows.direct()
    with pytest.raises(LeaseLost):
        await victim.start(fresh)
    with pytest.raises(LeaseLost):
        await victim.start(old)
    assert not await site.exists(fresh.workflow_id)


async def test_a_value_the_database_cannot_store_rejects_the_whole_batch(
    site: Site, me: Process
) -> None:
    """“a value the database cannot store raises `DatabaseRejected` for the whole batch with
    nothing written”."""
    batch = [rows.direct(), rows.direct(inputs='"\ud800"'), rows.direct()]
    with pytest.raises(DatabaseRejected):
        await me.start(*batch)
    assert [await site.exists(item.workflow_id) for item in batch] == [False] * 3
    assert kinds(await me.start(batch[0], batch[2])) == [WRITTEN, WRITTEN]


async def test_a_nul_is_rejected_or_stored_as_it_is(site: Site, me: Process) -> None:
    """“a value the database cannot store raises `DatabaseRejected` for the whole batch”."""
    batch = [rows.direct(), rows.direct(inputs='"a\x00b"')]
    try:
        answers = await me.start(*batch)
    except DatabaseRejected:
        assert [await site.exists(item.workflow_id) for item in batch] == [False, False]
    else:
        assert kinds(answers) == [WRITTEN, WRITTEN]
        assert (await site.read(batch[1].workflow_id)).inputs == '"a\x00b"'


@pytest.mark.parametrize(
    "odd", ["a::b", "100%_x", 'o\'brien "q"', "naïve-☃-😀", "a/b\\c", "-", "x" * 1000, " lead"]
)
async def test_any_text_is_an_id(site: Site, me: Process, odd: str) -> None:
    """“Identifies a workflow in the whole database”: no character has a meaning."""
    run = rows.direct(odd, name=odd, queue_name=odd, deduplication_id=odd, partition_key=odd)
    assert kinds(await me.start(run)) == [WRITTEN]
    assert kinds(await me.start(run)) == [MINE]
    row = await site.status(run.workflow_id)
    assert (row["workflow_uuid"], row["name"], row["queue_name"]) == (odd, odd, odd)
    assert (row["deduplication_id"], row["queue_partition_key"]) == (odd, odd)
    (answer,) = await me.store.start([Start(rows.direct(odd))], me.executor)
    assert answer.kind is CONFLICT
