"""`EventStore`: values under keys, present and past."""

import pytest

from perdure.errors import DatabaseRejected
from perdure.model.answer import AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.talk import EventRow, Key
from perdure.model.wire import PORTABLE_JSON
from perdure.model.workflow import Fence
from perdure.store.rows import recorded_step
from tests.support import rows
from tests.support.backdoor import Row
from tests.support.store import Process, Site, kinds

WRITTEN, MINE = AnswerKind.WRITTEN, AnswerKind.MINE
CONFLICT, LOST = AnswerKind.CONFLICT, AnswerKind.LOST


async def past(site: Site, workflow_id: WorkflowId) -> list[Row]:
    """The history of a workflow's events."""
    return await site.backdoor.rows(
        "SELECT function_id, key, value, serialization FROM workflow_events_history"
        " WHERE workflow_uuid = ? ORDER BY function_id",
        workflow_id,
    )


async def present(me: Process, workflow_id: WorkflowId) -> dict[str, str]:
    """A workflow's events as they are."""
    return {row.key: row.value for row in await me.store.events_of(workflow_id)}


async def test_an_event_is_set_with_its_step_and_its_past(site: Site, me: Process) -> None:
    """“Each *written* item upserts the key's present value and the history's of that step”."""
    run = await me.running()
    item = rows.event(run, 3, "progress", '{"π":1}', name="set")
    assert kinds(await me.store.publish([item])) == [WRITTEN]
    assert await me.store.events_of(run.workflow_id) == [
        EventRow(run.workflow_id, "progress", '{"π":1}', PORTABLE_JSON)
    ]
    assert await past(site, run.workflow_id) == [
        {
            "function_id": 3,
            "key": "progress",
            "value": '{"π":1}',
            "serialization": PORTABLE_JSON,
        }
    ]
    history = await me.store.history([run.workflow_id])
    assert history[run.workflow_id] == [recorded_step(item.caller)]


async def test_the_present_value_is_the_last_and_the_past_has_all(site: Site, me: Process) -> None:
    """“Set values with their steps' rows”: one after the other."""
    run = await me.running()
    for step in (1, 2, 3):
        await me.store.publish([rows.event(run, step, value=str(step))])
    assert await present(me, run.workflow_id) == {"key": "3"}
    assert [row["value"] for row in await past(site, run.workflow_id)] == ["1", "2", "3"]


async def test_the_highest_step_of_a_batch_is_the_present_value(site: Site, me: Process) -> None:
    """“Several items of one key in a batch: the one with the highest step id is the present
    value”."""
    one, two = await me.running(), await me.running()
    batch = [
        rows.event(run, step, key, f"{step}")
        for key, step in (("a", 5), ("b", 6), ("a", 9), ("b", 8), ("a", 1), ("b", 2))
        for run in (one, two)
    ]
    assert kinds(await me.store.publish(batch)) == [WRITTEN] * len(batch)
    for run in (one, two):
        assert await present(me, run.workflow_id) == {"a": "9", "b": "8"}
        written = [row["value"] for row in await past(site, run.workflow_id)]
        assert written == ["1", "2", "5", "6", "8", "9"]


async def test_what_a_former_life_left_is_overwritten(site: Site, me: Process) -> None:
    """“upserts … the history's of that step”."""
    run = await me.running()
    for table, step in (("workflow_events", {}), ("workflow_events_history", {"function_id": 1})):
        await site.insert(table, workflow_uuid=run.workflow_id, key="key", value="old", **step)
    assert kinds(await me.store.publish([rows.event(run, 1, value="new")])) == [WRITTEN]
    assert await present(me, run.workflow_id) == {"key": "new"}
    (row,) = await past(site, run.workflow_id)
    assert (row["value"], row["serialization"]) == ("new", PORTABLE_JSON)


async def test_answers_are_those_of_a_record(site: Site, me: Process) -> None:
    """“fenced as by `StepStore.record`, which answers alike”: and only *written* sets a value."""
    run, lost = await me.running(), await me.running()
    first = rows.event(run, 1, value="first")
    await me.store.publish([first])
    other = rows.checkpoint(run, 2, name="other")
    await me.store.record([other])
    await me.cancel([lost.workflow_id])
    answers = await me.store.publish(
        [
            rows.event(run, 2, value="no"),
            first._replace(value="no"),
            rows.event(lost, 1),
            rows.event(Fence(run.workflow_id, rows.token()), 3, value="no"),
            rows.event(run, 4, "fresh"),
            rows.event(run, 4, "fresh", "no"),
        ]
    )
    assert kinds(answers) == [CONFLICT, MINE, LOST, LOST, WRITTEN, MINE]
    assert answers[0].standing == recorded_step(other)
    assert await present(me, run.workflow_id) == {"key": "first", "fresh": "1"}
    assert await present(me, lost.workflow_id) == {}
    assert [row["function_id"] for row in await past(site, run.workflow_id)] == [1, 4]


async def test_a_repeated_event_is_mine_after_the_run_was_lost(site: Site, me: Process) -> None:
    """“(checked before *lost*, so a repeated write after a takeover still learns the truth)”."""
    run = await me.running()
    item = rows.event(run)
    await me.store.publish([item])
    await site.update(run.workflow_id, owner_xid="the next owner")
    assert kinds(await me.store.publish([item])) == [MINE]


async def test_a_value_the_database_cannot_store_sets_nothing(site: Site, me: Process) -> None:
    """“A value the database cannot store raises `DatabaseRejected` with nothing written”."""
    run = await me.running()
    with pytest.raises(DatabaseRejected):
        await me.store.publish([rows.event(run), rows.event(run, 2, value="\ud800")])
    assert await present(me, run.workflow_id) == {}
    assert await site.steps(run.workflow_id) == []


async def test_many_events_of_many_runs_in_one_batch(me: Process) -> None:
    """“Set values with their steps' rows”: a thousand at once."""
    runs = [rows.direct() for _ in range(50)]
    await me.start(*runs)
    batch = [
        rows.event(run, step, f"k{step % 4}", str(step)) for step in range(1, 21) for run in runs
    ]
    assert kinds(await me.store.publish(list(reversed(batch)))) == [WRITTEN] * 1000
    for run in runs:
        found = await present(me, run.workflow_id)
        assert found == {"k0": "20", "k1": "17", "k2": "18", "k3": "19"}


async def test_events_are_read_by_key(site: Site, me: Process) -> None:
    """“The present values of these keys, those that have one”."""
    one, two = await me.running(), await me.running()
    await me.store.publish(
        [
            rows.event(one, 1, "a", "1a"),
            rows.event(one, 2, "b", "1b"),
            rows.event(two, 1, "a", "2a"),
        ]
    )
    await site.insert("workflow_events", workflow_uuid=two.workflow_id, key="raw", value="r")
    asked = [
        Key(two.workflow_id, "raw"),
        Key(two.workflow_id, "b"),
        Key(one.workflow_id, "b"),
        Key(rows.wid(), "a"),
        Key(one.workflow_id, "b"),
        Key(two.workflow_id, "a"),
    ]
    assert await me.store.events(asked) == [
        EventRow(two.workflow_id, "raw", "r", None),
        EventRow(one.workflow_id, "b", "1b", PORTABLE_JSON),
        EventRow(two.workflow_id, "a", "2a", PORTABLE_JSON),
    ]


async def test_events_of_a_workflow_come_by_key(me: Process) -> None:
    """“Every key of a workflow with its present value, by key”."""
    run, other = await me.running(), await me.running()
    names = ["b", "a", "é", "B", "a b", "A", "", "😀", "::"]
    await me.store.publish([rows.event(run, n, name) for n, name in enumerate(names, 1)])
    await me.store.publish([rows.event(other)])
    assert [row.key for row in await me.store.events_of(run.workflow_id)] == sorted(names)
    assert await me.store.events_of(rows.wid()) == []
    keys = [Key(run.workflow_id, name) for name in names]
    assert [row.key for row in await me.store.events(keys)] == names


async def test_empty_batches_have_no_answers(me: Process) -> None:
    """“those that have one”."""
    assert await me.store.publish([]) == []
    assert await me.store.events([]) == []
