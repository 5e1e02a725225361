"""`TransferStore`, and `ManagementStore.manage` of an `Import`: all of a workflow, out and in."""

import json
from typing import Any

import msgspec
import pytest

from perdure.errors import MessageIdInUse, QueueDeduplicated, WorkflowIdInUse
from perdure.logic.transfer import archives_of
from perdure.model.answer import AnswerKind
from perdure.model.ids import StepId, WorkflowId
from perdure.model.management import Delete, Import, Managed
from perdure.model.status import WorkflowState
from perdure.model.transfer import Archive
from perdure.model.workflow import Fence
from tests.support import rows
from tests.support.backdoor import Row
from tests.support.lives import everything, lived
from tests.support.races import race
from tests.support.store import Process, Site

WRITTEN, MINE, LOST = AnswerKind.WRITTEN, AnswerKind.MINE, AnswerKind.LOST
NOT_KEPT = ("creator_xid", "owner_xid", "retention_timestamp")
ODD = "π ☃ \U0001f600 ' \" \\ \x1f\x1e \n {} %"


def kept(found: list[list[Row]]) -> list[list[Row]]:
    """Everything of a workflow but what stays behind."""
    return [
        [{name: value for name, value in row.items() if name not in NOT_KEPT} for row in table]
        for table in found
    ]


async def exported(me: Process, *ids: WorkflowId, **options: Any) -> list[Archive]:
    """What is exported, on its way through JSON."""
    found = await me.store.export_workflows(ids, **options)
    documents = json.loads(json.dumps(msgspec.to_builtins(found)))
    assert archives_of(documents) == found
    return archives_of(documents)


async def imported(me: Process, *archives: Archive, skip: bool = False) -> Managed:
    """What comes of an import."""
    return await me.managed(Import(archives, rows.token(), skip))


def named(archive: Archive, workflow_id: str, **fields: Any) -> Archive:
    """The archive as that of another workflow, with fresh message ids."""
    record = msgspec.structs.replace(archive.workflow, workflow_id=workflow_id, **fields)
    messages = [
        msgspec.structs.replace(each, message_id=rows.fresh("message")) for each in archive.messages
    ]
    return msgspec.structs.replace(archive, workflow=record, messages=tuple(messages))


@pytest.mark.parametrize("state", [WorkflowState.SUCCESS, WorkflowState.ERROR, None])
async def test_what_was_exported_comes_back_as_it_was(
    site: Site, me: Process, state: WorkflowState | None
) -> None:
    """“All that belongs to these workflows”; “The rows become as the archives have them”: every
    column of every row of each table."""
    run = await lived(me, state=state)
    await me.store.append([rows.appending_inside(run, 12)])
    before = await everything(site, run.workflow_id)
    log = await site.own("stream_log")
    archives = await exported(me, run.workflow_id)
    await me.managed(Delete((run.workflow_id,)))
    assert (await imported(me, *archives)).ids == (run.workflow_id,)
    assert kept(await everything(site, run.workflow_id)) == kept(before)
    assert await site.own("stream_log") == log


async def test_every_column_of_the_row_is_kept(site: Site, me: Process) -> None:
    """“The rows become as the archives have them”: no column is forgotten."""
    run = await me.waiting(
        name=ODD,
        class_name="Class",
        config_name="config",
        inputs=ODD,
        attributes='{"a": {"b": [1, null, 1.50]}}',
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
        run.workflow_id,
        status="DELAYED",
        request="request",
        executor_id="executor",
        application_id="id",
        recovery_attempts=2**40,
        workflow_deadline_epoch_ms=2**62,
        started_at_epoch_ms=1,
        completed_at=2,
        delay_until_epoch_ms=2**63 - 1,
        forked_from="origin",
        was_forked_from=True,
        rate_limited=True,
        schedule_name="nightly",
        debounce_deadline_epoch_ms=3,
        is_debounced=True,
    )
    before = await everything(site, run.workflow_id)
    columns = {name for name, value in before[0][0].items() if value is None}
    assert columns == {"owner_xid", "inputs", "output", "error"}
    archives = await exported(me, run.workflow_id)
    await me.managed(Delete((run.workflow_id,)))
    await imported(me, *archives)
    assert kept(await everything(site, run.workflow_id)) == kept(before)


async def test_payloads_are_found_in_either_place_and_kept_in_their_own(
    site: Site, me: Process
) -> None:
    """“Payloads are found in either place”; “payloads in their own tables”."""
    old = await site.foreign(status="SUCCESS", inputs="in", output="out")
    archives = await exported(me, old)
    await me.managed(Delete((old,)))
    await imported(me, *archives)
    row = await site.status(old)
    assert (row["inputs"], row["output"]) == (None, None)
    inputs = await site.payload("workflow_input", old)
    outcome = await site.payload("workflow_output", old)
    assert inputs is not None
    assert outcome is not None
    assert (inputs["inputs"], outcome["output"], outcome["error"]) == ("in", "out", None)


async def test_exports_are_in_the_order_given(site: Site, me: Process) -> None:
    """“in the order given”; “Unknown ids are passed over, an id is exported once”."""
    one, two = await site.foreign("b"), await site.foreign("a")
    found = await me.store.export_workflows([one, rows.wid("nobody"), two, one])
    assert [archive.workflow.workflow_id for archive in found] == [one, two]
    assert await me.store.export_workflows([]) == []


async def test_descendants_come_behind_their_parents(site: Site, me: Process) -> None:
    """“with `children` also to all their descendants, each behind its parent”, each once, also in a
    circle."""
    parents = {"a": "c1", "b": None, "c": "a", "c1": "a", "d": "c", "x": None}
    for workflow_id, parent in parents.items():
        await site.foreign(workflow_id, parent_workflow_id=parent)
    found = await me.store.export_workflows([rows.wid("b"), rows.wid("a")], children=True)
    assert [archive.workflow.workflow_id for archive in found] == ["b", "a", "c", "c1", "d"]
    assert len(await me.store.export_workflows([rows.wid("a")])) == 1


async def test_nobody_owns_what_is_imported(site: Site, me: Process) -> None:
    """“with the creator, without an owner”, whatever the archive says of its state."""
    run = await me.running()
    (archive,) = await exported(me, run.workflow_id)
    command = Import((named(archive, "other"),), rows.token("creator"))
    await me.managed(command)
    row = await site.status(rows.wid("other"))
    assert (row["owner_xid"], row["creator_xid"]) == (None, "creator")


async def test_what_is_imported_as_enqueued_is_claimed(me: Process) -> None:
    """“The rows become as the archives have them”: it goes on where it stood."""
    run = await lived(me, state=None)
    (archive,) = await exported(me, run.workflow_id)
    waiting = named(archive, "other", state="ENQUEUED", queue_name=rows.QUEUE)
    await imported(me, waiting)
    (claimed,) = await me.claim()
    assert (claimed.workflow_id, claimed.attempts) == ("other", 2)
    history = (await me.store.history([rows.wid("other")]))[rows.wid("other")]
    assert [step.step_id for step in history] == list(range(1, 12))
    late = rows.checkpoint(Fence(claimed.workflow_id, claimed.owner), 12)
    assert [answer.kind for answer in await me.store.record([late])] == [WRITTEN]


async def test_an_id_that_stands_refuses_all(site: Site, me: Process) -> None:
    """“refused if an id stands that is not to be skipped (`WorkflowIdInUse`”: as a whole."""
    run = await lived(me)
    (archive,) = await exported(me, run.workflow_id)
    before = await everything(site, run.workflow_id)
    managed = await imported(me, named(archive, "fresh"), archive)
    assert isinstance(managed.refusal, WorkflowIdInUse)
    assert (managed.refusal.workflow_id, managed.ids) == (run.workflow_id, ())
    assert await everything(site, run.workflow_id) == before
    assert not await site.exists(rows.wid("fresh"))


async def test_what_stands_is_skipped_on_demand(site: Site, me: Process) -> None:
    """“with `skip` those whose ids stand are left alone”; “The result names the ids written”."""
    run = await lived(me)
    (archive,) = await exported(me, run.workflow_id)
    before = await everything(site, run.workflow_id)
    changed = named(archive, run.workflow_id, inputs="other")
    managed = await imported(me, changed, named(archive, "fresh"), skip=True)
    assert (managed.ids, managed.refusal) == (("fresh",), None)
    assert await everything(site, run.workflow_id) == before


async def test_a_repeated_import_finds_what_it_wrote(site: Site, me: Process) -> None:
    """“not if it bears the creator, from a try before: that is left as it is”."""
    run = await lived(me)
    (archive,) = await exported(me, run.workflow_id)
    command = Import((named(archive, "one"), named(archive, "two")), rows.token())
    assert (await me.managed(command)).ids == ("one", "two")
    await site.update(rows.wid("one"), status="CANCELLED")
    before = await everything(site, rows.wid("one"))
    assert (await me.managed(command)).ids == ("one", "two")
    assert (await me.managed(msgspec.structs.replace(command, skip=True))).ids == ("one", "two")
    assert await everything(site, rows.wid("one")) == before


async def test_a_held_deduplication_id_refuses_all(site: Site, me: Process) -> None:
    """“a deduplication id is held on its queue (`QueueDeduplicated`)”."""
    holder = await me.waiting(deduplication_id="d")
    (archive,) = await exported(me, holder.workflow_id)
    managed = await imported(
        me, named(archive, "fresh", deduplication_id=None), named(archive, "b")
    )
    refusal = managed.refusal
    assert isinstance(refusal, QueueDeduplicated)
    assert (refusal.workflow_id, refusal.queue) == ("b", rows.QUEUE)
    assert (refusal.dedup_id, refusal.holder) == ("d", holder.workflow_id)
    assert not await site.exists(rows.wid("fresh"))
    other = named(archive, "elsewhere", queue_name="other")
    assert (await imported(me, other)).ids == ("elsewhere",)


async def test_a_message_that_stands_refuses_all(site: Site, me: Process) -> None:
    """“or a message's id stands (`MessageIdInUse`)”."""
    run = await lived(me)
    (archive,) = await exported(me, run.workflow_id)
    record = msgspec.structs.replace(archive.workflow, workflow_id=rows.wid("other"))
    managed = await imported(me, msgspec.structs.replace(archive, workflow=record))
    assert isinstance(managed.refusal, MessageIdInUse)
    assert managed.refusal.workflow_id == "other"
    assert managed.refusal.message_id in {each.message_id for each in archive.messages}
    assert not await site.exists(rows.wid("other"))


async def test_what_a_deleted_workflow_left_is_written_over(site: Site, me: Process) -> None:
    """“over what a workflow that was deleted left”."""
    run = await lived(me)
    (archive,) = await exported(me, run.workflow_id)
    for table in ("workflow_input", "workflow_output"):
        await site.insert(table, workflow_uuid="other")
    await site.insert("operation_outputs", workflow_uuid="other", function_id=99)
    await imported(me, named(archive, "other"))
    steps = await site.steps(rows.wid("other"))
    assert [step["function_id"] for step in steps] == list(range(1, 12))
    assert (await site.read(rows.wid("other"))).error == '"done"'


async def test_many_are_imported_together(site: Site, me: Process) -> None:
    """“Whatever the number of ids, the statements are few”."""
    run = await lived(me)
    (archive,) = await exported(me, run.workflow_id)
    many = [named(archive, f"copy-{number}") for number in range(300)]
    assert len((await imported(me, *many)).ids) == 300
    found = await me.store.export_workflows([archive.workflow.workflow_id for archive in many])
    assert found == many
    assert (await imported(me)).ids == ()


async def test_an_import_is_recorded_with_the_step_that_asks_for_it(
    site: Site, me: Process
) -> None:
    """“and record the step that gives it, in one transaction”."""
    run, asking = await lived(me), await me.running()
    (archive,) = await exported(me, run.workflow_id)
    command = Import((named(archive, "other"),), rows.token())
    caller = rows.caller(asking, 1)
    assert (await me.store.manage(command, caller)).kind is WRITTEN
    assert (await me.store.manage(command, caller)).kind is MINE
    assert (await site.steps(asking.workflow_id))[0]["output"] == "other"
    await me.cancel([asking.workflow_id])
    late = Import((named(archive, "late"),), rows.token())
    assert (await me.store.manage(late, rows.caller(asking, 2))).kind is LOST
    assert not await site.exists(rows.wid("late"))


async def test_an_export_is_of_one_moment(site: Site, me: Process) -> None:
    """“All of it is of one moment”: a step and what it published are seen together or not at
    all."""
    other = await site.process()
    for number in range(30):
        run = await me.running()
        published = [rows.event(run, step, str(step)) for step in range(1, 6)]

        async def publish(published: Any = published) -> None:
            for item in published:
                await me.store.publish([item])

        async def export(run: Any = run) -> Archive:
            (archive,) = await other.store.export_workflows([run.workflow_id])
            return archive

        _, archive = await race(number, publish, export)
        steps = {step.step_id for step in archive.steps}
        assert {StepId(int(event.key)) for event in archive.events} == steps
        assert {each.step_id for each in archive.event_history} == steps
