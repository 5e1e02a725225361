"""`RunStore.start` of children: the workflow and its parent's step row, or neither."""

import pytest

from perdure.errors import DatabaseRejected
from perdure.model.answer import AnswerKind
from perdure.model.status import WorkflowState
from perdure.model.workflow import Fence, NewWorkflow, Start
from tests.support import rows
from tests.support.store import Process, Site, kinds

WRITTEN, MINE = AnswerKind.WRITTEN, AnswerKind.MINE
CONFLICT, LOST = AnswerKind.CONFLICT, AnswerKind.LOST


async def nothing_of(site: Site, item: Start) -> bool:
    """Whether neither the child nor its parent's step row was written."""
    assert item.caller is not None
    recorded = [
        step
        for step in await site.steps(item.caller.workflow_id)
        if step["child_workflow_id"] == item.workflow.workflow_id
    ]
    payload = await site.payload("workflow_input", item.workflow.workflow_id)
    return not recorded and payload is None and not await site.exists(item.workflow.workflow_id)


@pytest.mark.parametrize("kind", ["direct", "enqueued", "delayed"])
async def test_a_child_is_written_with_its_parents_step_row(
    site: Site, me: Process, kind: str
) -> None:
    """“Insert new workflows with their inputs, each child together with its parent's step row”."""
    parent = await me.running()
    made = {
        "direct": rows.direct(name="childish"),
        "enqueued": rows.enqueued(name="childish"),
        "delayed": rows.enqueued(name="childish", delay_ms=1000),
    }[kind]
    item = rows.child_of(parent, 3, made)
    assert kinds(await me.start(item)) == [WRITTEN]
    (step,) = await site.steps(parent.workflow_id)
    caller = item.caller
    assert caller is not None
    assert step["function_id"] == 3
    assert step["function_name"] == "childish"
    assert step["child_workflow_id"] == item.workflow.workflow_id
    assert (step["output"], step["error"], step["serialization"]) == (None, None, None)
    assert step["started_at_epoch_ms"] == caller.started_at_ms
    assert step["completed_at_epoch_ms"] == caller.completed_at_ms
    assert step["application_name"] == "app"
    row = await site.status(item.workflow.workflow_id)
    assert row["parent_workflow_id"] == parent.workflow_id
    assert await site.payload("workflow_input", item.workflow.workflow_id) is not None


async def test_a_repeated_child_start_is_mine(site: Site, me: Process) -> None:
    """“*mine*: a row with the same id and the same `creator` stands; an earlier try got
    through”."""
    parent = await me.running()
    item = rows.child_of(parent, 1, rows.direct())
    await me.start(item)
    assert kinds(await me.start(item)) == [MINE]
    assert len(await site.steps(parent.workflow_id)) == 1


async def test_a_repeated_child_start_is_mine_after_the_parent_was_lost(me: Process) -> None:
    """“They are checked in this order of precedence: *written*, *mine*, *conflict*, *lost*”."""
    parent = await me.running()
    item = rows.child_of(parent, 1, rows.direct())
    await me.start(item)
    await me.cancel([parent.workflow_id])
    assert kinds(await me.start(item)) == [MINE]


async def lose(site: Site, me: Process, parent: NewWorkflow, how: str) -> Fence:
    """Take the parent from its owner, and return the fence the owner still believes in."""
    fence = rows.fence_of(parent)
    if how == "cancelled":
        await me.cancel([parent.workflow_id])
    elif how == "finished":
        await me.store.finish([rows.finish(parent)])
    elif how == "released":
        await me.store.release([rows.release(parent)])
    elif how == "wrong owner":
        fence = Fence(parent.workflow_id, rows.token())
    else:
        fence = Fence(rows.wid(), parent.creator)
    return fence


@pytest.mark.parametrize("how", ["cancelled", "finished", "released", "wrong owner", "gone"])
async def test_a_lost_parent_starts_no_child(site: Site, me: Process, how: str) -> None:
    """“*lost* / *busy*: as for `record`, about the caller's run”: nothing is written."""
    parent = await me.running()
    fence = await lose(site, me, parent, how)
    items = [rows.child_of(fence, 1, rows.direct()), rows.child_of(fence, 2, rows.enqueued())]
    assert kinds(await me.start(*items)) == [LOST, LOST]
    assert [await nothing_of(site, item) for item in items] == [True, True]


async def test_a_taken_step_id_starts_no_child(site: Site, me: Process) -> None:
    """“An item whose caller's step id is already taken by another record is *conflict* with
    `standing` None”."""
    parent = await me.running()
    await me.store.record([rows.checkpoint(parent, 1)])
    item = rows.child_of(parent, 1, rows.direct())
    (answer,) = await me.start(item)
    assert (answer.kind, answer.standing) == (CONFLICT, None)
    assert await nothing_of(site, item)
    (step,) = await site.steps(parent.workflow_id)
    assert step["function_name"] == "step"


async def test_a_step_id_taken_by_another_child_starts_no_child(site: Site, me: Process) -> None:
    """“An item whose caller's step id is already taken by another record is *conflict*”."""
    parent = await me.running()
    first = rows.child_of(parent, 1, rows.direct())
    await me.start(first)
    second = rows.child_of(parent, 1, rows.direct())
    (answer,) = await me.start(second)
    assert (answer.kind, answer.standing) == (CONFLICT, None)
    assert await nothing_of(site, second)


async def test_a_child_that_exists_by_another_writes_no_step_row(site: Site, me: Process) -> None:
    """“another creator's row stands under the id … Neither the workflow nor the caller's step row
    was written”."""
    parent = await me.running()
    other = await me.running("there")
    item = rows.child_of(parent, 1, rows.direct("there"))
    (answer,) = await me.start(item)
    assert answer.kind is CONFLICT
    assert answer.standing is not None
    assert answer.standing.creator == other.creator
    assert await site.steps(parent.workflow_id) == []
    assert (await site.status(other.workflow_id))["parent_workflow_id"] is None


async def test_a_child_whose_deduplication_id_is_held_writes_no_step_row(
    site: Site, me: Process
) -> None:
    """“or under the queue's deduplication id … Neither the workflow nor the caller's step row was
    written”."""
    parent = await me.running()
    holder = await me.waiting(deduplication_id="d")
    item = rows.child_of(parent, 1, rows.enqueued(deduplication_id="d"))
    (answer,) = await me.start(item)
    assert answer.kind is CONFLICT
    assert answer.standing is not None
    assert answer.standing.workflow_id == holder.workflow_id
    assert await nothing_of(site, item)
    assert await site.steps(parent.workflow_id) == []


@pytest.mark.parametrize("parent_state", ["held", "cancelled"])
@pytest.mark.parametrize("step_taken", [False, True])
async def test_a_conflict_about_the_child_comes_before_anything_about_its_parent(
    site: Site, me: Process, parent_state: str, step_taken: bool
) -> None:
    """“They are checked in this order of precedence: *written*, *mine*, *conflict*, *lost*”."""
    parent = await me.running()
    if step_taken:
        await me.store.record([rows.checkpoint(parent, 1)])
    await me.running("there")
    if parent_state == "cancelled":
        await me.cancel([parent.workflow_id])
    before = await site.steps(parent.workflow_id)
    assert kinds(await me.start(rows.child_of(parent, 1, rows.direct("there")))) == [CONFLICT]
    assert await site.steps(parent.workflow_id) == before


async def test_a_taken_step_id_is_a_conflict_also_when_the_parent_is_lost(
    site: Site, me: Process
) -> None:
    """“They are checked in this order of precedence: *written*, *mine*, *conflict*, *lost*”."""
    parent = await me.running()
    await me.store.record([rows.checkpoint(parent, 1)])
    await me.cancel([parent.workflow_id])
    item = rows.child_of(parent, 1, rows.direct())
    (answer,) = await me.start(item)
    assert (answer.kind, answer.standing) == (CONFLICT, None)
    assert await nothing_of(site, item)


async def test_every_combination_side_by_side_in_one_batch(site: Site, me: Process) -> None:
    """“One item never fails its neighbours”."""
    held, lost = await me.running(), await me.running()
    await me.store.record([rows.checkpoint(held, 1)])
    await me.cancel([lost.workflow_id])
    await me.running("there")
    repeated = rows.child_of(held, 9, rows.direct())
    await me.start(repeated)
    batch = [
        rows.child_of(held, 2, rows.direct()),
        rows.child_of(lost, 1, rows.direct()),
        rows.child_of(held, 1, rows.direct()),
        rows.child_of(held, 3, rows.direct("there")),
        repeated,
        Start(rows.direct()),
        rows.child_of(held, 4, rows.enqueued()),
    ]
    answers = await me.start(*batch)
    assert kinds(answers) == [WRITTEN, LOST, CONFLICT, CONFLICT, MINE, WRITTEN, WRITTEN]
    recorded = [step["function_id"] for step in await site.steps(held.workflow_id)]
    assert recorded == [1, 2, 4, 9]
    assert await nothing_of(site, batch[1])
    assert await nothing_of(site, batch[2])


async def test_many_children_of_one_parent_in_one_batch(site: Site, me: Process) -> None:
    """“each child together with its parent's step row”: 300 of one parent at once."""
    parent = await me.running()
    batch = [rows.child_of(parent, number, rows.enqueued()) for number in range(300, 0, -1)]
    assert set(kinds(await me.start(*batch))) == {WRITTEN}
    recorded = await site.steps(parent.workflow_id)
    assert [step["function_id"] for step in recorded] == list(range(1, 301))
    by_step = {item.caller.step_id: item.workflow.workflow_id for item in batch if item.caller}
    assert all(by_step[step["function_id"]] == step["child_workflow_id"] for step in recorded)


async def test_two_children_under_one_step_id_in_a_batch(site: Site, me: Process) -> None:
    """“An item whose caller's step id is already taken by another record is *conflict*”."""
    parent = await me.running()
    batch = [rows.child_of(parent, 1, rows.direct()) for _ in range(2)]
    answers = await me.start(*batch)
    assert sorted(answer.kind.value for answer in answers) == ["conflict", "written"]
    loser = batch[kinds(answers).index(CONFLICT)]
    assert await nothing_of(site, loser)
    assert len(await site.steps(parent.workflow_id)) == 1


async def test_a_child_with_a_conflict_keeps_its_step_id_free_for_its_neighbour(
    site: Site, me: Process
) -> None:
    """“Neither the workflow nor the caller's step row was written”: the id is still free."""
    parent = await me.running()
    await me.running("there")
    await me.start(rows.child_of(parent, 1, rows.direct("there")))
    attach = rows.checkpoint(
        parent, 1, name="job", output=None, child_workflow_id=rows.wid("there"), serialization=None
    )
    assert kinds(await me.store.record([attach])) == [WRITTEN]
    (step,) = await site.steps(parent.workflow_id)
    assert step["child_workflow_id"] == "there"


async def test_a_rejected_value_in_a_parents_step_row_writes_no_child(
    site: Site, me: Process
) -> None:
    """“a value the database cannot store raises `DatabaseRejected` for the whole batch with
    nothing written”."""
    parent = await me.running()
    items = [
        rows.child_of(parent, 1, rows.direct()),
        rows.child_of(parent, 2, rows.direct(), name="\ud800"),
    ]
    with pytest.raises(DatabaseRejected):
        await me.start(*items)
    assert [await nothing_of(site, item) for item in items] == [True, True]
    assert (await site.status(parent.workflow_id))["status"] == WorkflowState.PENDING
