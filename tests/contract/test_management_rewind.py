"""`ManagementStore.manage` of a `Rewind`."""

from typing import Any

import pytest

from perdure.errors import WorkflowNotEnded, WorkflowNotFound
from perdure.model.answer import AnswerKind
from perdure.model.ids import OwnerToken, WorkflowId
from perdure.model.management import Fork, ForkItem, LastStep, Rewind
from perdure.model.status import ACTIVE, WorkflowState
from perdure.model.wire import INTERNAL_QUEUE, STREAM_CLOSED
from perdure.model.workflow import Fence, NewWorkflow
from tests.support import rows
from tests.support.lives import LAST, events, everything, lived, messages, streamed, told
from tests.support.store import Process, Site

WRITTEN, MINE, LOST = AnswerKind.WRITTEN, AnswerKind.MINE, AnswerKind.LOST
ENDED = sorted(set(WorkflowState) - ACTIVE)


async def rewound(me: Process, run: NewWorkflow, point: Any, **options: Any) -> OwnerToken:
    """Rewind that workflow, which can be, under the token returned."""
    token = rows.token()
    managed = await me.managed(Rewind(run.workflow_id, token, point, **options))
    assert (managed.ids, managed.refusal) == ((run.workflow_id,), None)
    return token


@pytest.mark.parametrize("state", ENDED)
async def test_an_ended_workflow_is_enqueued_again(
    site: Site, me: Process, state: WorkflowState
) -> None:
    """“Then the row is ENQUEUED on the queue with the partition key, attempts 0, and owner,
    deadline, deduplication id, start, completion NULL, its creator the command's token; timeout,
    creation and version stay”: every column."""
    run = await me.running(timeout_ms=5, attributes='{"a": 1}', partition_key="before")
    await site.update(
        run.workflow_id,
        status=state,
        recovery_attempts=3,
        owner_xid="somebody",
        workflow_deadline_epoch_ms=8,
        deduplication_id="d",
        started_at_epoch_ms=6,
        completed_at=7,
        output="legacy",
        error="legacy",
    )
    before = await site.status(run.workflow_id)
    begun = await me.store.now_ms()
    token = await rewound(me, run, 1, queue_name="other", partition_key="p")
    row = await site.status(run.workflow_id)
    assert begun <= row.pop("updated_at") <= await me.store.now_ms()
    changed = {
        "status": "ENQUEUED",
        "queue_name": "other",
        "queue_partition_key": "p",
        "recovery_attempts": 0,
        "creator_xid": token,
        "owner_xid": None,
        "workflow_deadline_epoch_ms": None,
        "deduplication_id": None,
        "started_at_epoch_ms": None,
        "completed_at": None,
        "output": None,
        "error": None,
    }
    del before["updated_at"]
    assert row == {**before, **changed}


async def test_without_a_queue_it_waits_on_the_internal_one(site: Site, me: Process) -> None:
    """“`version` None keeps the row's. The partition key becomes the one given, or none”."""
    run = await lived(me, partition_key="before")
    await rewound(me, run, 1)
    row = await site.status(run.workflow_id)
    assert (row["queue_name"], row["queue_partition_key"]) == (INTERNAL_QUEUE, None)
    assert row["application_version"] == rows.VERSION
    await site.update(run.workflow_id, status="CANCELLED")
    await rewound(me, run, 1, version="v2")
    assert (await site.status(run.workflow_id))["application_version"] == "v2"


async def test_its_history_ends_below_the_point(site: Site, me: Process) -> None:
    """“Steps from the point on are removed”, and what they published."""
    run = await lived(me)
    steps = await site.steps(run.workflow_id)
    history = await told(site, "workflow_events_history", run.workflow_id)
    await rewound(me, run, 6)
    assert await site.steps(run.workflow_id) == steps[:5]
    kept = [row for row in history if row["function_id"] < 6]
    assert await told(site, "workflow_events_history", run.workflow_id) == kept


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        (1, {}),
        (2, {}),
        (3, {"k": "1"}),
        (7, {"k": "2"}),
        (8, {"k": "2", "late": "9"}),
        (LAST, {"k": "2", "late": "9"}),
    ],
)
async def test_events_become_what_they_were(
    site: Site, me: Process, point: int, expected: dict[str, str]
) -> None:
    """“each event key becomes what it was below it, or is removed”."""
    run = await lived(me)
    await rewound(me, run, point)
    assert await events(site, run.workflow_id) == expected


async def test_an_event_without_history_stays(site: Site, me: Process) -> None:
    """“each event key becomes what it was below it”: nobody can tell when it was published."""
    run = await lived(me)
    await site.insert("workflow_events", workflow_uuid=run.workflow_id, key="old", value="0")
    await rewound(me, run, 1)
    assert await events(site, run.workflow_id) == {"old": "0"}


async def test_stream_values_stay_and_a_late_close_goes(site: Site, me: Process) -> None:
    """“stream values stay, but a close written from there on is removed”: the run that follows
    goes on where it stood."""
    run = await lived(me)
    values = [(0, '"one"'), (1, '"two"')]
    await rewound(me, run, 10, queue_name=rows.QUEUE)
    assert await streamed(site, run.workflow_id) == values
    (claimed,) = await me.claim()
    fence = Fence(claimed.workflow_id, claimed.owner)
    await me.store.append([rows.appending(fence, 10, "s", '"three"')])
    assert await streamed(site, run.workflow_id) == [*values, (2, '"three"')]


async def test_a_close_below_the_point_stays(site: Site, me: Process) -> None:
    """“a close written from there on is removed”, and no other."""
    run = await lived(me)
    await rewound(me, run, LAST)
    assert (await streamed(site, run.workflow_id))[-1] == (2, STREAM_CLOSED)


async def test_what_only_reads_like_a_close_stays(site: Site, me: Process) -> None:
    """“stream values stay”: the text of a close in another format is a value."""
    run = await lived(me)
    await site.insert(
        "streams",
        workflow_uuid=run.workflow_id,
        key="other",
        value=STREAM_CLOSED,
        function_id=10,
        serialization="py_pickle",
        **{'"offset"': 0},
    )
    await rewound(me, run, 2)
    assert (0, STREAM_CLOSED) in await streamed(site, run.workflow_id)


async def test_steps_from_the_point_on_append_again(site: Site, me: Process) -> None:
    """“and steps from there on can append again”: what an unfinished one below it appended is not
    appended twice."""
    run = await me.running()
    early = rows.appending_inside(run, 4)._replace(append_id="4:1:digest")
    late = rows.appending_inside(run, 40)._replace(append_id="40:1:digest")
    await me.store.append([early, late])
    await me.cancel([run.workflow_id])
    await rewound(me, run, 5, queue_name=rows.QUEUE)
    (claimed,) = await me.claim()
    again = [each._replace(owner=claimed.owner) for each in (early, late)]
    assert [answer.kind for answer in await me.store.append(again)] == [MINE, WRITTEN]


async def test_messages_received_later_or_not_at_all_are_removed(site: Site, me: Process) -> None:
    """“messages that were consumed from there on, or are not consumed, are removed”."""
    run = await lived(me)
    await site.insert(
        "notifications",
        destination_uuid=run.workflow_id,
        message='"by who knows"',
        consumed=True,
        created_at_epoch_ms=1,
    )
    unknown = ('"by who knows"', None)
    await rewound(me, run, 9)
    assert await messages(site, run.workflow_id) == [unknown, ('"m1"', 5)]
    await site.update(run.workflow_id, status="CANCELLED")
    await rewound(me, run, 1)
    assert await messages(site, run.workflow_id) == [unknown]


@pytest.mark.parametrize("state", [WorkflowState.SUCCESS, WorkflowState.ERROR])
async def test_the_outcome_is_gone(site: Site, me: Process, state: WorkflowState) -> None:
    """“and so is the outcome, in whichever place”."""
    run = await lived(me, state=state)
    inputs = await site.payload("workflow_input", run.workflow_id)
    await rewound(me, run, 6)
    assert await site.payload("workflow_output", run.workflow_id) is None
    assert await site.payload("workflow_input", run.workflow_id) == inputs
    assert (await me.store.settled([run.workflow_id])).outcomes == ()


async def test_a_rewound_workflow_runs_and_ends_again(site: Site, me: Process) -> None:
    """“Let an ended workflow run again from a step, under its own id”."""
    run = await lived(me)
    await rewound(me, run, LastStep.FAILED, queue_name=rows.QUEUE)
    (claimed,) = await me.claim()
    assert (claimed.workflow_id, claimed.attempts) == (run.workflow_id, 1)
    fence = Fence(claimed.workflow_id, claimed.owner)
    history = (await me.store.history([run.workflow_id]))[run.workflow_id]
    assert [step.step_id for step in history] == list(range(1, LAST))
    await me.store.record([rows.checkpoint(fence, LAST)])
    (answer,) = await me.store.finish([rows.finish(fence, text='"again"')])
    assert answer.kind is WRITTEN
    assert (await site.read(run.workflow_id)).output == '"again"'


async def test_the_execution_before_can_write_nothing_more(site: Site, me: Process) -> None:
    """“messages, steps and outcome”: a late write of the life before is of a lost run, also while
    the next one runs."""
    run = await lived(me, state=WorkflowState.CANCELLED)
    await rewound(me, run, 6, queue_name=rows.QUEUE)
    before = await everything(site, run.workflow_id)
    for _ in range(2):
        late = [
            *await me.store.record([rows.checkpoint(run, 6)]),
            *await me.store.publish([rows.event(run, 7)]),
            *await me.store.append([rows.appending(run, 8)]),
            *await me.store.append([rows.appending_inside(run, 8)]),
            *await me.store.receive([rows.receiving(run, 9)]),
            *await me.store.finish([rows.finish(run)]),
        ]
        assert {answer.kind for answer in late} == {LOST}
        after = await everything(site, run.workflow_id)
        assert after[1:] == before[1:]
        await me.claim()


@pytest.mark.parametrize("state", [*sorted(ACTIVE), "ODD"])
async def test_what_has_not_ended_is_not_rewound(site: Site, me: Process, state: str) -> None:
    """“or `WorkflowNotEnded` unless it is SUCCESS, ERROR, CANCELLED or
    MAX_RECOVERY_ATTEMPTS_EXCEEDED”: the refusal changes nothing."""
    run = await lived(me)
    await site.update(run.workflow_id, status=str(state))
    before = await everything(site, run.workflow_id)
    refusal = (await me.managed(Rewind(run.workflow_id, rows.token()))).refusal
    assert isinstance(refusal, WorkflowNotEnded)
    assert (refusal.workflow_id, refusal.state) == (run.workflow_id, state)
    assert await everything(site, run.workflow_id) == before


async def test_what_does_not_exist_is_not_rewound(me: Process) -> None:
    """“`WorkflowNotFound`”."""
    managed = await me.managed(Rewind(rows.wid("nobody"), rows.token(), "step"))
    assert isinstance(managed.refusal, WorkflowNotFound)
    assert managed.ids == ()


async def test_only_the_one_is_touched(site: Site, me: Process) -> None:
    """“a workflow”: its neighbours, its fork and its child are left alone."""
    run, other = await lived(me), await lived(me)
    fork_id = WorkflowId(rows.fresh("fork"))
    await me.managed(Fork((ForkItem(run.workflow_id, fork_id, LAST),)))
    before = [await everything(site, each) for each in (other.workflow_id, fork_id)]
    await rewound(me, run, 1)
    after = [await everything(site, each) for each in (other.workflow_id, fork_id)]
    assert after == before


async def test_a_rewind_whose_answer_was_lost_is_not_made_again(site: Site, me: Process) -> None:
    """“A workflow that bears the command's token … is left as it is.”."""
    run = await lived(me)
    wanted = Rewind(run.workflow_id, rows.token(), 3)
    assert (await me.managed(wanted)).ids == (run.workflow_id,)
    for state in ("ENQUEUED", "PENDING", "SUCCESS"):
        await site.update(run.workflow_id, status=state)
        before = await everything(site, run.workflow_id)
        assert (await me.managed(wanted)).ids == (run.workflow_id,)
        assert await everything(site, run.workflow_id) == before


async def test_a_rewind_is_recorded_with_the_step_that_asks_for_it(site: Site, me: Process) -> None:
    """“and nothing is done again” by a repeated try, whatever the workflow did since."""
    run, asking = await lived(me), await me.running()
    wanted, caller = Rewind(run.workflow_id, rows.token(), 6), rows.caller(asking, 1)
    assert (await me.store.manage(wanted, caller)).kind is WRITTEN
    await site.update(run.workflow_id, status="SUCCESS")
    before = await everything(site, run.workflow_id)
    assert (await me.store.manage(wanted, caller)).kind is MINE
    assert await everything(site, run.workflow_id) == before
    refused = await me.store.manage(
        Rewind(asking.workflow_id, rows.token()), rows.caller(asking, 2)
    )
    assert refused.kind is WRITTEN
    assert (await site.steps(asking.workflow_id))[1]["error"] == "WorkflowNotEnded"
