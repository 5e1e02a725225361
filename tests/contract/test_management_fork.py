"""`ManagementStore.manage` of a `Fork`: what is copied, and what speaks against it."""

from typing import Any

import pytest

from perdure.errors import WorkflowError, WorkflowIdInUse, WorkflowNotFound
from perdure.model.answer import AnswerKind
from perdure.model.ids import StepId, WorkflowId
from perdure.model.management import Delete, Fork, ForkItem, ForkPoint
from perdure.model.status import WorkflowState
from perdure.model.wire import INTERNAL_QUEUE, STREAM_CLOSED
from perdure.model.workflow import NewWorkflow
from tests.support import rows
from tests.support.lives import CHILD, LAST, events, everything, lived, messages, streamed, told
from tests.support.store import Process, Site

WRITTEN, MINE, LOST = AnswerKind.WRITTEN, AnswerKind.MINE, AnswerKind.LOST

TAKEN = (
    "name",
    "class_name",
    "config_name",
    "attributes",
    "serialization",
    "authenticated_user",
    "authenticated_roles",
    "assumed_role",
    "application_name",
    "application_id",
)


def item(
    source: NewWorkflow | WorkflowId, point: ForkPoint = 1, fork_id: str | None = None
) -> ForkItem:
    """One fork of that source."""
    source_id = source.workflow_id if isinstance(source, NewWorkflow) else source
    return ForkItem(source_id, rows.wid(fork_id or rows.fresh("fork")), point)


async def forked(
    me: Process, source: NewWorkflow | WorkflowId, point: ForkPoint = 1, **options: Any
) -> WorkflowId:
    """A fork of that source from that point on."""
    wanted = item(source, point)
    managed = await me.managed(Fork((wanted,), **options))
    assert (managed.ids, managed.refusal) == ((wanted.fork_id,), None)
    return wanted.fork_id


async def refused(me: Process, *items: ForkItem) -> WorkflowError | None:
    """Why none of these was made."""
    managed = await me.managed(Fork(items))
    assert managed.ids == ()
    return managed.refusal


async def test_a_fork_takes_only_what_it_is_to_take(site: Site, me: Process) -> None:
    """“The new row is ENQUEUED on the queue, `forked_from` its source, with the source's name,
    class, configuration, inputs, attributes, serialization, authentication and application …, the
    given version, and nothing else of it”: every column."""
    source = await me.waiting(
        name="job",
        class_name="Class",
        config_name="config",
        inputs="[1]",
        attributes='{"a": 1}',
        authenticated_user="ann",
        authenticated_roles='["admin"]',
        assumed_role="admin",
        priority=3,
        deduplication_id="d",
        partition_key="p",
        timeout_ms=5,
        parent_workflow_id=rows.wid("parent"),
    )
    await site.update(
        source.workflow_id,
        application_name="theirs",
        application_id="id",
        status="SUCCESS",
        recovery_attempts=4,
        rate_limited=True,
        workflow_deadline_epoch_ms=8,
        schedule_name="nightly",
        is_debounced=True,
    )
    before = await me.store.now_ms()
    fork_id = await forked(me, source, version="v9")
    row = await site.status(fork_id)
    assert before <= row["created_at"] == row["updated_at"]
    origin = await site.status(source.workflow_id)
    assert {column: row[column] for column in TAKEN} == {column: origin[column] for column in TAKEN}
    expected = {
        "workflow_uuid": fork_id,
        "status": "ENQUEUED",
        "queue_name": INTERNAL_QUEUE,
        "forked_from": source.workflow_id,
        "application_version": "v9",
        "recovery_attempts": 0,
        "priority": 0,
    }
    assert {column: row[column] for column in expected} == expected
    left = set(row) - set(TAKEN) - set(expected) - {"created_at", "updated_at"}
    assert {column for column in left if row[column]} == set()
    inputs = await site.payload("workflow_input", fork_id)
    assert inputs is not None
    assert inputs["inputs"] == "[1]"
    assert inputs["retention_timestamp"] >= before
    assert await site.payload("workflow_output", fork_id) is None


async def test_queue_partition_version_and_timeout_are_the_forks_own(
    site: Site, me: Process
) -> None:
    """“`version` None leaves the row's NULL”; “Queue, partition and timeout are never the
    source's”."""
    source = await me.waiting(partition_key="p", timeout_ms=5)
    given = await site.status(
        await forked(me, source, queue_name="other", partition_key="q", timeout_ms=7)
    )
    assert (given["queue_name"], given["queue_partition_key"]) == ("other", "q")
    assert (given["workflow_timeout_ms"], given["workflow_deadline_epoch_ms"]) == (7, None)
    plain = await site.status(await forked(me, source))
    assert (plain["queue_name"], plain["queue_partition_key"]) == (INTERNAL_QUEUE, None)
    assert (plain["workflow_timeout_ms"], plain["application_version"]) == (None, None)


async def test_a_fork_of_what_nobody_owns_is_ours(site: Site, me: Process) -> None:
    """“and application (this one's where it has none)”, its steps too."""
    source = await site.foreign(application_name=None)
    await site.insert("operation_outputs", workflow_uuid=source, function_id=1, function_name="s")
    fork_id = await forked(me, source, 2)
    assert (await site.status(fork_id))["application_name"] == "app"
    assert [step["application_name"] for step in await site.steps(fork_id)] == ["app"]
    theirs = await site.foreign(application_name="theirs")
    await site.insert("operation_outputs", workflow_uuid=theirs, function_id=1, function_name="s")
    fork_id = await forked(me, theirs, 2)
    assert [step["application_name"] for step in await site.steps(fork_id)] == ["theirs"]


async def test_inputs_are_found_in_either_place(site: Site, me: Process) -> None:
    """“with the source's … inputs”: also those in the legacy column, and over what a workflow that
    was deleted left."""
    source = await site.foreign(inputs="legacy")
    wanted = item(source)
    await site.insert("workflow_input", workflow_uuid=wanted.fork_id, inputs="left behind")
    await me.managed(Fork((wanted,)))
    found = await site.payload("workflow_input", wanted.fork_id)
    assert found is not None
    assert found["inputs"] == "legacy"
    assert (await site.status(wanted.fork_id))["inputs"] is None


async def test_steps_below_the_point_are_copied_with_their_times(site: Site, me: Process) -> None:
    """“The steps below the point are copied with their times”."""
    source = await lived(me)
    fork_id = await forked(me, source, 6)
    kept = (await site.steps(source.workflow_id))[:5]
    copied = await site.steps(fork_id)
    assert [step["function_id"] for step in copied] == [1, 2, 3, 4, 5]
    for step, origin in zip(copied, kept, strict=True):
        assert step.pop("retention_timestamp") >= origin.pop("retention_timestamp")
        assert step == {**origin, "workflow_uuid": fork_id}


async def test_events_are_as_they_were_below_the_point(site: Site, me: Process) -> None:
    """“so are the history of events below it and the newest value of each key there”."""
    source = await lived(me)
    before = await told(site, "workflow_events_history", source.workflow_id)
    for point, expected in {
        2: {},
        3: {"k": "1"},
        7: {"k": "2"},
        8: {"k": "2", "late": "9"},
    }.items():
        fork_id = await forked(me, source, point)
        assert await events(site, fork_id) == expected
        history = await told(site, "workflow_events_history", fork_id)
        assert history == [row for row in before if row["function_id"] < point]
    assert await events(site, source.workflow_id) == {"k": "2", "late": "9"}


async def test_stream_values_of_steps_below_the_point_are_copied(site: Site, me: Process) -> None:
    """“and the stream values that were written by steps below it”."""
    source = await lived(me)
    first, second = (0, '"one"'), (1, '"two"')
    assert await streamed(site, await forked(me, source, 3)) == []
    assert await streamed(site, await forked(me, source, 4)) == [first]
    assert await streamed(site, await forked(me, source, 10)) == [first, second]
    assert await streamed(site, await forked(me, source, 11)) == [first, second, (2, STREAM_CLOSED)]


async def test_what_later_steps_wrote_before_leaves_no_gap(site: Site, me: Process) -> None:
    """“numbered anew”: a branch with higher ids may have written first."""
    source = await me.running()
    for step_id in (2, 9, 3):
        await me.store.append([rows.appending(source, step_id, value=str(step_id))])
    assert await streamed(site, await forked(me, source, 9)) == [(0, "2"), (1, "3")]


async def test_what_an_unfinished_step_appended_is_not_appended_again(
    site: Site, me: Process
) -> None:
    """“with what our own schema holds of them”: the step begins again in the fork."""
    source = await me.running()
    inside = rows.appending_inside(source, 4)._replace(append_id="4:1:digest")
    late = inside._replace(step_id=StepId(40), append_id="40:1:digest")
    await me.store.append([inside, late])
    fork_id = await forked(me, source, 5, queue_name=rows.QUEUE)
    (claimed,) = await me.claim()
    again = [each._replace(workflow_id=fork_id, owner=claimed.owner) for each in (inside, late)]
    answers = await me.store.append(again)
    assert [answer.kind for answer in answers] == [MINE, WRITTEN]


async def test_messages_are_not_copied(site: Site, me: Process) -> None:
    """“Messages are not”."""
    source = await lived(me)
    assert await messages(site, await forked(me, source, LAST + 1)) == []
    assert len(await messages(site, source.workflow_id)) == 3


async def test_children_are_replaced_as_asked(site: Site, me: Process) -> None:
    """“children replaced as asked”; “without one the fork adopts the source's own child”."""
    source = await lived(me)
    stand_in = rows.wid("stand-in")
    asked = item(source, LAST)
    pairs = ((CHILD, stand_in), (rows.wid("unknown"), rows.wid("nothing")))
    replacing = ForkItem(source.workflow_id, asked.fork_id, LAST, pairs)
    adopting = item(source, LAST)
    await me.managed(Fork((replacing, adopting)))
    for each, child in ((replacing, stand_in), (adopting, CHILD)):
        steps = await site.steps(each.fork_id)
        assert [step["child_workflow_id"] for step in steps if step["child_workflow_id"]] == [child]
        assert steps[3]["child_workflow_id"] == child


@pytest.mark.parametrize("state", [None, *WorkflowState])
async def test_a_source_in_any_state_is_only_marked(
    site: Site, me: Process, state: WorkflowState | None
) -> None:
    """“The source gets `was_forked_from` and nothing else”, whatever it does."""
    source = await lived(me, state=None)
    await site.update(source.workflow_id, status="ODD" if state is None else state.value)
    before = await everything(site, source.workflow_id)
    await forked(me, source, 6)
    after = await everything(site, source.workflow_id)
    assert before[0][0].pop("was_forked_from") == False  # noqa: E712 a number on SQLite
    assert after[0][0].pop("was_forked_from") == True  # noqa: E712
    assert after == before


async def test_a_fork_is_claimed_and_runs(me: Process) -> None:
    """“Make copies of workflows that go on from a step, ENQUEUED”: with what it is to run."""
    source = await lived(me)
    fork_id = await forked(me, source, 6, queue_name=rows.QUEUE)
    (claimed,) = await me.claim()
    assert (claimed.workflow_id, claimed.inputs) == (fork_id, source.inputs)
    history = (await me.store.history([fork_id]))[fork_id]
    assert [step.step_id for step in history] == [1, 2, 3, 4, 5]


async def test_forks_come_after_what_was_enqueued_before(site: Site, me: Process) -> None:
    """“what was enqueued by a call that had returned before another began comes first”."""
    source = await me.running()
    created = []
    for _ in range(5):
        waiting = await me.waiting()
        created.append((await site.status(waiting.workflow_id))["created_at"])
        created.append((await site.status(await forked(me, source)))["created_at"])
    assert created == sorted(set(created))


async def test_a_missing_source_refuses_all(site: Site, me: Process) -> None:
    """“refused if a source is missing (`WorkflowNotFound`)”; “refused as a whole or all made”."""
    source = await lived(me)
    before = await everything(site, source.workflow_id)
    good, missing = item(source, 6), item(rows.wid("nobody"))
    refusal = await refused(me, good, missing)
    assert isinstance(refusal, WorkflowNotFound)
    assert refusal.workflow_id == "nobody"
    assert not await site.exists(good.fork_id)
    assert await everything(site, source.workflow_id) == before


async def test_an_id_that_stands_refuses_all(site: Site, me: Process) -> None:
    """“a fork's id stands already”: a stranger's, the source's, or a fork's of another source."""
    source, other = await lived(me), await me.running()
    theirs = await forked(me, other)
    for taken in (other.workflow_id, source.workflow_id, theirs):
        good = item(source)
        before = await site.status(taken)
        refusal = await refused(me, good, item(source, 6, taken))
        assert isinstance(refusal, WorkflowIdInUse)
        assert refusal.workflow_id == taken
        assert not await site.exists(good.fork_id)
        assert await site.status(taken) == before


async def test_two_forks_cannot_have_one_id(site: Site, me: Process) -> None:
    """“or twice among the items (`WorkflowIdInUse`”."""
    source = await me.running()
    twice = item(source, 1, "twice")
    refusal = await refused(me, twice, item(source, 2, "twice"))
    assert isinstance(refusal, WorkflowIdInUse)
    assert not await site.exists(twice.fork_id)


async def test_the_very_fork_that_stands_is_no_obstacle(site: Site, me: Process) -> None:
    """“not if a fork of that source stands under it, from a try before: that is left as it is”,
    whatever became of it and of its source since."""
    source = await lived(me)
    first = item(source, 6)
    await me.managed(Fork((first,)))
    await me.managed(Delete((source.workflow_id,)))
    await site.update(first.fork_id, status="SUCCESS")
    before = await everything(site, first.fork_id)
    fresh = item(await me.running())
    assert (await me.managed(Fork((first, fresh)))).ids == (first.fork_id, fresh.fork_id)
    assert await everything(site, first.fork_id) == before
    assert await site.exists(fresh.fork_id)


async def test_a_fork_of_a_fork(site: Site, me: Process) -> None:
    """“`forked_from` its source”: which may be a fork, with what it has by now."""
    source = await lived(me)
    first = await forked(me, source, 6)
    second = await forked(me, first, 4)
    assert (await site.status(second))["forked_from"] == first
    assert [step["function_id"] for step in await site.steps(second)] == [1, 2, 3]
    assert await events(site, second) == {"k": "1"}
    assert await streamed(site, second) == [(0, '"one"')]
    assert (await site.status(first))["was_forked_from"]


async def test_the_ids_are_those_of_the_items_in_their_order(me: Process) -> None:
    """“The result names the forks, in the order of the items”, and of none it is none."""
    one, two = await me.running(), await me.running()
    items = (item(two, fork_id="z"), item(one, fork_id="a"), item(two, fork_id="m"))
    assert (await me.managed(Fork(items))).ids == ("z", "a", "m")
    assert (await me.managed(Fork(()))).ids == ()


async def test_a_thousand_forks_of_one_source(site: Site, me: Process) -> None:
    """“Whatever the number of ids”: each is whole."""
    source = await lived(me)
    items = tuple(item(source, 6) for _ in range(1000))
    assert len((await me.managed(Fork(items))).ids) == 1000
    (counted,) = await site.backdoor.rows(
        "SELECT count(*) AS steps FROM operation_outputs s"
        " JOIN workflow_status w ON w.workflow_uuid = s.workflow_uuid WHERE w.forked_from = ?",
        source.workflow_id,
    )
    assert counted["steps"] == 5000
    assert await events(site, items[-1].fork_id) == {"k": "1"}


async def test_one_fork_of_each_of_a_thousand_sources(site: Site, me: Process) -> None:
    """“Whatever the number of ids”: each from its own source."""
    sources = [rows.enqueued(inputs=f"[{number}]") for number in range(1000)]
    await me.start(*sources)
    items = tuple(item(source) for source in sources)
    await me.managed(Fork(items))
    for number in (0, 500, 999):
        found = await site.payload("workflow_input", items[number].fork_id)
        assert found is not None
        assert found["inputs"] == f"[{number}]"
    (counted,) = await site.backdoor.rows(
        "SELECT count(*) AS number FROM workflow_status WHERE was_forked_from"
    )
    assert counted["number"] == 1000


async def test_a_fork_is_recorded_with_the_step_that_asks_for_it(site: Site, me: Process) -> None:
    """“Carry out a command, and record the step that gives it, in one transaction”: a repeated try
    makes nothing again, and a refusal is recorded too."""
    source, run = await lived(me), await me.running()
    wanted = Fork((item(source, 6),))
    caller = rows.caller(run, 1)
    assert (await me.store.manage(wanted, caller)).kind is WRITTEN
    before = await everything(site, wanted.items[0].fork_id)
    answer = await me.store.manage(wanted, caller)
    assert answer.kind is MINE
    assert answer.standing is not None
    assert [step["output"] for step in await site.steps(run.workflow_id)] == [
        wanted.items[0].fork_id
    ]
    assert await everything(site, wanted.items[0].fork_id) == before
    refusal = await me.store.manage(Fork((item(rows.wid("nobody")),)), rows.caller(run, 2))
    assert refusal.kind is WRITTEN
    assert (await site.steps(run.workflow_id))[1]["error"] == "WorkflowNotFound"


async def test_a_run_may_fork_itself(site: Site, me: Process) -> None:
    """“the caller's run among them”: below the step that asks, which is not yet there."""
    run = await me.running()
    await me.store.record([rows.checkpoint(run, 1)])
    wanted = item(run, 10)
    assert (await me.store.manage(Fork((wanted,)), rows.caller(run, 2))).kind is WRITTEN
    assert [step["function_id"] for step in await site.steps(wanted.fork_id)] == [1]


async def test_a_lost_run_makes_no_fork(site: Site, me: Process) -> None:
    """“*lost* and *busy*: as for `StepStore.record`”."""
    source, run = await lived(me), await me.running()
    await me.cancel([run.workflow_id])
    wanted = item(source)
    assert (await me.store.manage(Fork((wanted,)), rows.caller(run))).kind is LOST
    assert not await site.exists(wanted.fork_id)
