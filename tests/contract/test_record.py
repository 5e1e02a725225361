"""`StepStore.record`: fenced step rows, and what is answered about each."""

from typing import Any

import pytest

from perdure.errors import DatabaseRejected
from perdure.model.answer import AnswerKind
from perdure.model.workflow import Fence, NewWorkflow, StepRow
from tests.support import rows
from tests.support.store import Process, Site, kinds

WRITTEN, MINE = AnswerKind.WRITTEN, AnswerKind.MINE
CONFLICT, LOST = AnswerKind.CONFLICT, AnswerKind.LOST


async def test_a_step_row_holds_what_the_item_says(site: Site, me: Process) -> None:
    """“*written*”: every column, the application and the time of writing included."""
    run = await me.running()
    before = await me.store.now_ms()
    item = rows.checkpoint(run, 4, name="fetch", output='{"π":[1,null]}')
    assert kinds(await me.store.record([item])) == [WRITTEN]
    after = await me.store.now_ms()
    (step,) = await site.steps(run.workflow_id)
    retention = step.pop("retention_timestamp")
    assert before <= retention <= after
    assert step == {
        "workflow_uuid": run.workflow_id,
        "function_id": 4,
        "function_name": "fetch",
        "output": '{"π":[1,null]}',
        "error": None,
        "child_workflow_id": None,
        "started_at_epoch_ms": item.started_at_ms,
        "completed_at_epoch_ms": item.completed_at_ms,
        "serialization": "portable_json",
        "application_name": "app",
    }


async def test_a_failed_step_and_a_marker_keep_their_nulls(site: Site, me: Process) -> None:
    """“Exactly one of `output` and `error` is set for an ordinary step”; a marker has neither."""
    run = await me.running()
    failed = rows.checkpoint(run, 1, output=None, error='{"name":"ValueError"}')
    marker = rows.checkpoint(
        run, 2, output=None, child_workflow_id=rows.wid("c"), serialization=None
    )
    assert kinds(await me.store.record([failed, marker])) == [WRITTEN, WRITTEN]
    one, two = await site.steps(run.workflow_id)
    assert (one["output"], one["error"]) == (None, '{"name":"ValueError"}')
    assert (two["output"], two["error"], two["serialization"]) == (None, None, None)
    assert two["child_workflow_id"] == "c"


async def test_recording_leaves_the_run_as_it_was(site: Site, me: Process) -> None:
    """“Insert step rows, each fenced on its run”: the run's row is checked, not changed."""
    run = await me.running()
    before = await site.status(run.workflow_id)
    await me.store.record([rows.checkpoint(run)])
    assert await site.status(run.workflow_id) == before


async def test_a_repeated_record_is_mine(site: Site, me: Process) -> None:
    """“*mine*: the step id holds a row with the same name and `completed_at_ms`”."""
    run = await me.running()
    item = rows.checkpoint(run)
    await me.store.record([item])
    before = await site.steps(run.workflow_id)
    assert kinds(await me.store.record([item])) == [MINE]
    assert await site.steps(run.workflow_id) == before


@pytest.mark.parametrize("ending", ["takeover", "cancel", "finish", "release"])
async def test_a_repeated_record_is_mine_after_the_run_was_lost(
    site: Site, me: Process, ending: str
) -> None:
    """“(checked before *lost*, so a repeated write after a takeover still learns the truth)”."""
    run = await me.running()
    item = rows.checkpoint(run)
    await me.store.record([item])
    if ending == "takeover":
        await site.update(run.workflow_id, owner_xid="the next owner")
    elif ending == "cancel":
        await me.cancel([run.workflow_id])
    elif ending == "finish":
        await me.store.finish([rows.finish(run)])
    else:
        await me.store.release([rows.release(run)])
    repeated, unwritten = await me.store.record([item, rows.checkpoint(run, 2)])
    assert (repeated.kind, unwritten.kind) == (MINE, LOST)
    assert len(await site.steps(run.workflow_id)) == 1


@pytest.mark.parametrize("difference", [{"name": "other"}, {"completed_at_ms": 5}])
async def test_another_record_is_a_conflict_that_shows_it(
    site: Site, me: Process, difference: dict[str, Any]
) -> None:
    """“*conflict*: it holds another record, shown in `standing`”."""
    run = await me.running()
    first = rows.checkpoint(run, 7, output="1")
    await me.store.record([first])
    before = await site.steps(run.workflow_id)
    (answer,) = await me.store.record([rows.checkpoint(run, 7, output="2", **difference)])
    assert answer.kind is CONFLICT
    assert answer.standing == StepRow(
        workflow_id=run.workflow_id,
        step_id=first.step_id,
        name="step",
        output="1",
        error=None,
        child_workflow_id=None,
        started_at_ms=first.started_at_ms,
        completed_at_ms=first.completed_at_ms,
        serialization="portable_json",
    )
    assert await site.steps(run.workflow_id) == before


async def test_another_record_is_a_conflict_also_for_a_stale_owner(me: Process) -> None:
    """“They are checked in this order of precedence: *written*, *mine*, *conflict*, *lost*”."""
    run = await me.running()
    await me.store.record([rows.checkpoint(run)])
    stale = rows.checkpoint(Fence(run.workflow_id, rows.token()), name="other")
    assert kinds(await me.store.record([stale])) == [CONFLICT]


async def test_a_row_without_times_is_another_record(site: Site, me: Process) -> None:
    """“*conflict*: it holds another record”: a row that another program wrote has what it has."""
    run = await me.running()
    await site.insert("operation_outputs", workflow_uuid=run.workflow_id, function_id=1)
    (answer,) = await me.store.record([rows.checkpoint(run, name="")])
    assert answer.kind is CONFLICT
    assert answer.standing is not None
    assert (answer.standing.name, answer.standing.completed_at_ms) == ("", None)


async def wrong(site: Site, me: Process, run: NewWorkflow, how: str) -> Fence:
    """A fence that does not hold for that run."""
    if how == "wrong owner":
        return Fence(run.workflow_id, rows.token())
    if how == "gone":
        return Fence(rows.wid(), run.creator)
    if how == "no owner":
        await site.update(run.workflow_id, owner_xid=None)
    else:
        await site.update(run.workflow_id, status=how)
    return rows.fence_of(run)


@pytest.mark.parametrize(
    "how",
    ["wrong owner", "gone", "no owner", "ENQUEUED", "DELAYED", "SUCCESS", "CANCELLED", "ODD"],
)
async def test_a_run_not_held_is_lost(site: Site, me: Process, how: str) -> None:
    """“*lost*: the run is not PENDING under this owner, or gone”: nothing is written."""
    run = await me.running()
    fence = await wrong(site, me, run, how)
    answers = await me.store.record([rows.checkpoint(fence, 1), rows.checkpoint(fence, 2)])
    assert kinds(answers) == [LOST, LOST]
    assert await site.steps(fence.workflow_id) == []


async def test_one_batch_can_hold_every_answer_in_its_order(site: Site, me: Process) -> None:
    """“Answers in the order of the items”."""
    held, other, lost = await me.running(), await me.running(), await me.running()
    await me.store.record([rows.checkpoint(held, 1), rows.checkpoint(held, 2)])
    await me.cancel([lost.workflow_id])
    answers = await me.store.record(
        [
            rows.checkpoint(other, 5),
            rows.checkpoint(lost, 1),
            rows.checkpoint(held, 1),
            rows.checkpoint(held, 2, name="other"),
            rows.checkpoint(held, 3),
            rows.checkpoint(Fence(other.workflow_id, held.creator), 6),
        ]
    )
    assert kinds(answers) == [WRITTEN, LOST, MINE, CONFLICT, WRITTEN, LOST]
    assert [step["function_id"] for step in await site.steps(held.workflow_id)] == [1, 2, 3]
    assert [step["function_id"] for step in await site.steps(other.workflow_id)] == [5]
    assert await site.steps(lost.workflow_id) == []


async def test_the_same_item_twice_in_a_batch_is_written_once(site: Site, me: Process) -> None:
    """“*mine*: the step id holds a row with the same name and `completed_at_ms`”."""
    run = await me.running()
    item = rows.checkpoint(run)
    answers = await me.store.record([item, item])
    assert sorted(answer.kind.value for answer in answers) == ["mine", "written"]
    assert len(await site.steps(run.workflow_id)) == 1


async def test_two_records_of_one_step_id_in_a_batch(site: Site, me: Process) -> None:
    """“*conflict*: it holds another record, shown in `standing`”, also within a batch."""
    run = await me.running()
    batch = [rows.checkpoint(run, name="a"), rows.checkpoint(run, name="b")]
    answers = await me.store.record(batch)
    assert sorted(answer.kind.value for answer in answers) == ["conflict", "written"]
    (step,) = await site.steps(run.workflow_id)
    winner = batch[kinds(answers).index(WRITTEN)]
    assert step["function_name"] == winner.name
    loser = answers[kinds(answers).index(CONFLICT)]
    assert loser.standing is not None
    assert loser.standing.name == winner.name


async def test_a_thousand_steps_of_many_runs_in_one_batch(site: Site, me: Process) -> None:
    """“Insert step rows, each fenced on its run”: 1,000 rows of 100 runs, one of them lost."""
    runs = [rows.direct() for _ in range(100)]
    await me.start(*runs)
    await me.cancel([runs[50].workflow_id])
    batch = [rows.checkpoint(run, step) for step in range(1, 11) for run in reversed(runs)]
    answers = await me.store.record(batch)
    for item, answer in zip(batch, answers, strict=True):
        lost = item.workflow_id == runs[50].workflow_id
        assert answer.kind is (LOST if lost else WRITTEN)
    counted = await site.backdoor.rows("SELECT COUNT(*) AS n FROM operation_outputs")
    assert counted[0]["n"] == 990
    assert [s["function_id"] for s in await site.steps(runs[0].workflow_id)] == list(range(1, 11))


async def test_an_empty_batch_has_no_answers(me: Process) -> None:
    """“Answers in the order of the items”."""
    assert await me.store.record([]) == []


@pytest.mark.parametrize(
    "bad", [{"output": "\ud800"}, {"name": "\ud800"}, {"completed_at_ms": 2**63}]
)
async def test_a_value_the_database_cannot_store_writes_nothing(
    site: Site, me: Process, bad: dict[str, Any]
) -> None:
    """“A value the database cannot store raises `DatabaseRejected` with nothing written”."""
    first, second = await me.running(), await me.running()
    batch = [rows.checkpoint(first), rows.checkpoint(second, **bad), rows.checkpoint(first, 2)]
    with pytest.raises(DatabaseRejected):
        await me.store.record(batch)
    assert await site.steps(first.workflow_id) == []
    assert await site.steps(second.workflow_id) == []
    assert kinds(await me.store.record([batch[0], batch[2]])) == [WRITTEN, WRITTEN]


async def test_a_nul_is_rejected_or_stored_as_it_is(site: Site, me: Process) -> None:
    """“A value the database cannot store raises `DatabaseRejected` with nothing written”."""
    run = await me.running()
    batch = [rows.checkpoint(run, 1), rows.checkpoint(run, 2, output='"\x00"')]
    try:
        answers = await me.store.record(batch)
    except DatabaseRejected:
        assert await site.steps(run.workflow_id) == []
    else:
        assert kinds(answers) == [WRITTEN, WRITTEN]
        assert (await me.store.history([run.workflow_id]))[run.workflow_id][1].output == '"\x00"'


async def test_the_largest_step_id_is_stored(site: Site, me: Process) -> None:
    """“*written*”: up to the largest id the column holds."""
    run = await me.running()
    assert kinds(await me.store.record([rows.checkpoint(run, 2**31 - 1)])) == [WRITTEN]
    (step,) = await site.steps(run.workflow_id)
    assert step["function_id"] == 2**31 - 1


async def test_a_large_value_is_stored_whole(me: Process) -> None:
    """“Payload fields hold encoded text”: of any length the engine lets through."""
    run = await me.running()
    text = '"' + "é☃😀a" * 300_000 + '"'
    assert kinds(await me.store.record([rows.checkpoint(run, output=text)])) == [WRITTEN]
    assert (await me.store.history([run.workflow_id]))[run.workflow_id][0].output == text
