"""`RunStore.finish` and `RunStore.release`: the guarded ways out of PENDING."""

from typing import Any

import pytest

from perdure.errors import DatabaseRejected
from perdure.model.answer import AnswerKind
from perdure.model.status import WorkflowState
from perdure.model.wire import INTERNAL_QUEUE
from perdure.model.workflow import Fence, Outcome, Release
from tests.support import rows
from tests.support.backdoor import Row
from tests.support.store import Process, Site, kinds

WRITTEN, MINE, LOST = AnswerKind.WRITTEN, AnswerKind.MINE, AnswerKind.LOST
SUCCESS, ERROR = WorkflowState.SUCCESS, WorkflowState.ERROR
CANCELLED = WorkflowState.CANCELLED
DEAD = WorkflowState.MAX_RECOVERY_ATTEMPTS_EXCEEDED


async def claimed(me: Process, **fields: Any) -> Fence:
    """A run that came from a queue and is owned through a claim."""
    await me.waiting(deduplication_id=rows.fresh("dedup"), timeout_ms=60_000, **fields)
    (run,) = await me.claim()
    return Fence(run.workflow_id, run.owner)


def changed(before: Row, after: Row) -> set[str]:
    """The columns that differ."""
    return {column for column in before if before[column] != after[column]}


@pytest.mark.parametrize("state", [SUCCESS, ERROR])
async def test_an_outcome_is_recorded(site: Site, me: Process, state: WorkflowState) -> None:
    """“End owned runs: the row's state and, for SUCCESS and ERROR, its `workflow_output` row …
    Sets `completed_at` = `updated_at` = database clock, clears owner and deduplication id”."""
    run = await claimed(me)
    before = await site.status(run.workflow_id)
    begun = await me.store.now_ms()
    assert kinds(await me.store.finish([rows.finish(run, state, '"é"')])) == [WRITTEN]
    ended = await me.store.now_ms()
    after = await site.status(run.workflow_id)
    assert changed(before, after) <= {
        "status",
        "owner_xid",
        "deduplication_id",
        "completed_at",
        "updated_at",
    }
    assert after["status"] == state.value
    assert (after["owner_xid"], after["deduplication_id"]) == (None, None)
    assert begun <= after["completed_at"] == after["updated_at"] <= ended
    stored = await site.payload("workflow_output", run.workflow_id)
    assert stored is not None
    assert begun <= stored["retention_timestamp"] <= ended
    assert stored["output"] == ('"é"' if state is SUCCESS else None)
    assert stored["error"] == ('"é"' if state is ERROR else None)


@pytest.mark.parametrize("state", [CANCELLED, DEAD])
async def test_an_ending_without_outcome_also_leaves_its_queue(
    site: Site, me: Process, state: WorkflowState
) -> None:
    """“CANCELLED and MAX_RECOVERY_ATTEMPTS_EXCEEDED also clear queue name and start time”."""
    run = await claimed(me, partition_key="p", priority=3)
    before = await site.status(run.workflow_id)
    assert kinds(await me.store.finish([rows.finish(run, state)])) == [WRITTEN]
    after = await site.status(run.workflow_id)
    assert changed(before, after) <= {
        "status",
        "owner_xid",
        "deduplication_id",
        "completed_at",
        "updated_at",
        "queue_name",
        "started_at_epoch_ms",
    }
    assert after["status"] == state.value
    assert after["completed_at"] == after["updated_at"] > 0
    for column in ("owner_xid", "deduplication_id", "queue_name", "started_at_epoch_ms"):
        assert after[column] is None
    assert after["recovery_attempts"] == 1
    assert await site.payload("workflow_output", run.workflow_id) is None


async def test_an_old_output_row_is_replaced(site: Site, me: Process) -> None:
    """“for SUCCESS and ERROR, its `workflow_output` row”: also where one was left over."""
    run = await me.running()
    await site.insert("workflow_output", workflow_uuid=run.workflow_id, output="old", error="old")
    await me.store.finish([rows.finish(run, SUCCESS, "new")])
    stored = await site.payload("workflow_output", run.workflow_id)
    assert stored is not None
    assert (stored["output"], stored["error"]) == ("new", None)


@pytest.mark.parametrize("state", [SUCCESS, ERROR, CANCELLED, DEAD])
async def test_a_repeated_finish_is_mine_and_shows_the_outcome(
    site: Site, me: Process, state: WorkflowState
) -> None:
    """“*mine*: the row is terminal already, `standing` is its recorded outcome”."""
    run = await me.running()
    item = rows.finish(run, state, '"text"')
    await me.store.finish([item])
    before = await site.status(run.workflow_id)
    (answer,) = await me.store.finish([item])
    assert answer.kind is MINE
    assert answer.standing == Outcome(
        workflow_id=run.workflow_id,
        state=state,
        output=item.output,
        error=item.error,
        serialization=run.serialization,
        attempts=1,
    )
    assert await site.status(run.workflow_id) == before


async def test_an_outcome_another_execution_recorded_is_adopted(site: Site, me: Process) -> None:
    """“the row is terminal already, `standing` is its recorded outcome (whoever wrote it)”."""
    run = await me.running()
    other = Fence(run.workflow_id, rows.token())
    await site.update(run.workflow_id, owner_xid=other.owner)
    await me.store.finish([rows.finish(other, ERROR, '"theirs"')])
    (answer,) = await me.store.finish([rows.finish(run, SUCCESS, '"ours"')])
    assert answer.kind is MINE
    assert answer.standing is not None
    assert (answer.standing.state, answer.standing.error) == (ERROR, '"theirs"')
    assert (await site.read(run.workflow_id)).output is None


async def test_a_cancelled_run_is_mine_to_its_execution(me: Process) -> None:
    """“the row is terminal already, `standing` is its recorded outcome (whoever wrote it)”."""
    run = await me.running()
    await me.cancel([run.workflow_id])
    (answer,) = await me.store.finish([rows.finish(run)])
    assert answer.kind is MINE
    assert answer.standing is not None
    assert (answer.standing.state, answer.standing.output) == (CANCELLED, None)


@pytest.mark.parametrize("how", ["wrong owner", "gone", "no owner", "ENQUEUED", "DELAYED"])
async def test_a_run_not_held_cannot_be_ended_or_given_back(
    site: Site, me: Process, how: str
) -> None:
    """“*lost*: it is active under another owner or in another state, or gone”."""
    run = await me.running()
    fence = rows.fence_of(run)
    if how == "wrong owner":
        fence = Fence(run.workflow_id, rows.token())
    elif how == "gone":
        fence = Fence(rows.wid(), run.creator)
    elif how == "no owner":
        await site.update(run.workflow_id, owner_xid=None)
    else:
        await site.update(run.workflow_id, status=how)
    before = await site.status(run.workflow_id)
    assert kinds(await me.store.finish([rows.finish(fence)])) == [LOST]
    assert kinds(await me.store.release([rows.release(fence)])) == [LOST]
    assert await site.status(run.workflow_id) == before
    assert await site.payload("workflow_output", fence.workflow_id) is None


async def test_finish_answers_in_order_and_each_for_itself(site: Site, me: Process) -> None:
    """“Answers come in the order of the items”."""
    one, two, three, four = [await me.running() for _ in range(4)]
    await me.store.finish([rows.finish(two, ERROR, '"two"')])
    answers = await me.store.finish(
        [
            rows.finish(four, DEAD),
            rows.finish(Fence(three.workflow_id, rows.token())),
            rows.finish(two),
            rows.finish(one, ERROR, '"one"'),
        ]
    )
    assert kinds(answers) == [WRITTEN, LOST, MINE, WRITTEN]
    assert (await site.status(four.workflow_id))["status"] == DEAD.value
    assert (await site.status(three.workflow_id))["status"] == "PENDING"
    assert (await site.read(one.workflow_id)).error == '"one"'
    assert (await site.read(two.workflow_id)).error == '"two"'


async def test_a_thousand_runs_end_in_one_batch(site: Site, me: Process) -> None:
    """“The hot methods take batches”: 1,000 endings, each with its own output."""
    runs = [rows.direct() for _ in range(1000)]
    await me.start(*runs)
    batch = [rows.finish(run, SUCCESS, str(n)) for n, run in enumerate(runs)]
    assert set(kinds(await me.store.finish(batch))) == {WRITTEN}
    settled = await me.store.settled([run.workflow_id for run in runs])
    outputs = {outcome.workflow_id: outcome.output for outcome in settled.outcomes}
    assert outputs == {run.workflow_id: str(n) for n, run in enumerate(runs)}


async def test_an_output_the_database_cannot_store_ends_nothing(site: Site, me: Process) -> None:
    """“`DatabaseRejected` may not” be retried: nothing of the batch was written."""
    one, two = await me.running(), await me.running()
    with pytest.raises(DatabaseRejected):
        await me.store.finish([rows.finish(one), rows.finish(two, SUCCESS, "\ud800")])
    for run in (one, two):
        assert (await site.status(run.workflow_id))["status"] == "PENDING"
        assert await site.payload("workflow_output", run.workflow_id) is None
    assert kinds(await me.store.finish([rows.finish(one)])) == [WRITTEN]


async def test_a_released_run_waits_in_its_queue(site: Site, me: Process) -> None:
    """“PENDING under the item's owner becomes ENQUEUED … Owner and start time become NULL, the
    queue is kept …, `executor_id` is kept, `updated_at` is set”."""
    run = await claimed(me)
    before = await site.status(run.workflow_id)
    begun = await me.store.now_ms()
    assert kinds(await me.store.release([rows.release(run)])) == [WRITTEN]
    after = await site.status(run.workflow_id)
    assert after["status"] == "ENQUEUED"
    assert (after["owner_xid"], after["started_at_epoch_ms"]) == (None, None)
    assert after["updated_at"] >= begun
    assert after["recovery_attempts"] == 0
    assert changed(before, after) <= {
        "status",
        "owner_xid",
        "started_at_epoch_ms",
        "updated_at",
        "recovery_attempts",
    }


async def test_a_released_direct_start_waits_in_the_internal_queue(site: Site, me: Process) -> None:
    """“the queue is kept or else becomes the internal one”."""
    run = await me.running()
    await me.store.release([rows.release(run)])
    after = await site.status(run.workflow_id)
    assert (after["status"], after["queue_name"]) == ("ENQUEUED", INTERNAL_QUEUE)
    assert after["executor_id"] == me.executor
    (again,) = await me.claim(queues=(INTERNAL_QUEUE,))
    assert (again.workflow_id, again.attempts) == (run.workflow_id, 1)


@pytest.mark.parametrize(
    ("attempts", "give_back", "left"), [(3, True, 2), (3, False, 3), (0, True, 0)]
)
async def test_an_attempt_is_given_back_or_kept(
    site: Site, me: Process, attempts: int, give_back: bool, left: int
) -> None:
    """“`give_back` takes the attempt off the recovery counter (never below zero)”."""
    run = await me.running()
    await site.update(run.workflow_id, recovery_attempts=attempts)
    await me.store.release([rows.release(run, give_back=give_back)])
    assert (await site.status(run.workflow_id))["recovery_attempts"] == left


@pytest.mark.parametrize("delay", [0, 30_000])
async def test_a_release_with_back_off_is_delayed(site: Site, me: Process, delay: int) -> None:
    """“a number means DELAYED until the database's clock plus that”."""
    run = await claimed(me)
    begun = await me.store.now_ms()
    assert kinds(await me.store.release([rows.release(run, delay)])) == [WRITTEN]
    ended = await me.store.now_ms()
    after = await site.status(run.workflow_id)
    assert after["status"] == "DELAYED"
    assert begun + delay <= after["delay_until_epoch_ms"] <= ended + delay
    assert (after["owner_xid"], after["started_at_epoch_ms"]) == (None, None)
    assert after["queue_name"] == rows.QUEUE
    assert (await me.sweep()).moved == (0 if delay else 1)
    site.clock.advance(delay)
    await me.sweep()
    assert (await site.status(run.workflow_id))["status"] == "ENQUEUED"


@pytest.mark.parametrize("state", ["SUCCESS", "ERROR", "CANCELLED"])
async def test_an_ended_run_is_not_given_back(site: Site, me: Process, state: str) -> None:
    """“*written*, *busy*, or *lost* for anything else”."""
    run = await me.running()
    await site.update(run.workflow_id, status=state)
    before = await site.status(run.workflow_id)
    assert kinds(await me.store.release([rows.release(run)])) == [LOST]
    assert await site.status(run.workflow_id) == before


async def test_a_repeated_release_is_lost_and_changes_nothing(site: Site, me: Process) -> None:
    """“*written*, *busy*, or *lost* for anything else”: the attempt is given back once."""
    run = await me.running()
    await site.update(run.workflow_id, recovery_attempts=5)
    item = rows.release(run)
    assert kinds(await me.store.release([item])) == [WRITTEN]
    before = await site.status(run.workflow_id)
    assert kinds(await me.store.release([item])) == [LOST]
    assert await site.status(run.workflow_id) == before
    assert before["recovery_attempts"] == 4


async def test_releases_answer_in_order(site: Site, me: Process) -> None:
    """“Answers come in the order of the items”."""
    one, two, three = [await me.running() for _ in range(3)]
    await me.cancel([two.workflow_id])
    answers = await me.store.release(
        [
            Release(three.workflow_id, three.creator, 500, True),
            Release(two.workflow_id, two.creator, None, True),
            Release(one.workflow_id, one.creator, None, False),
        ]
    )
    assert kinds(answers) == [WRITTEN, LOST, WRITTEN]
    states = [(await site.status(run.workflow_id))["status"] for run in (one, two, three)]
    assert states == ["ENQUEUED", "CANCELLED", "DELAYED"]


async def test_a_run_that_waits_after_a_death_is_released_with_its_steps(me: Process) -> None:
    """A release gives the run back, not its history."""
    run = await me.running()
    await me.store.record([rows.checkpoint(run, 1)])
    await me.store.release([rows.release(run)])
    assert len((await me.store.history([run.workflow_id]))[run.workflow_id]) == 1


async def test_empty_batches_have_no_answers(me: Process) -> None:
    """“Answers come in the order of the items”."""
    assert await me.store.finish([]) == []
    assert await me.store.release([]) == []
