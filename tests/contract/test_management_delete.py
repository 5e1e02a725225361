"""`ManagementStore.manage` of a `Delete`."""

import pytest

from perdure.errors import WorkflowBusy
from perdure.model.answer import AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.management import Delete, Managed
from tests.support import rows
from tests.support.store import Process, Site, kinds

PARTS = {
    "workflow_status": "workflow_uuid",
    "workflow_input": "workflow_uuid",
    "workflow_output": "workflow_uuid",
    "operation_outputs": "workflow_uuid",
    "workflow_events": "workflow_uuid",
    "workflow_events_history": "workflow_uuid",
    "streams": "workflow_uuid",
    "notifications": "destination_uuid",
}


async def parts(site: Site, workflow_id: WorkflowId) -> dict[str, int]:
    """How many rows each table has of that workflow, ours included."""
    counts = {}
    for table, column in PARTS.items():
        found = await site.backdoor.rows(f"SELECT 1 FROM {table} WHERE {column} = ?", workflow_id)
        counts[table] = len(found)
    log = [row for row in await site.own("stream_log") if row["workflow_id"] == workflow_id]
    return {**counts, "stream_log": len(log)}


async def rich(me: Process, workflow_id: str) -> WorkflowId:
    """An ended workflow that has a row in every table."""
    run = await me.running(workflow_id)
    await me.store.record([rows.checkpoint(run, 1)])
    await me.store.publish([rows.event(run, 2)])
    await me.store.append([rows.appending(run, 3), rows.appending_inside(run, 4)])
    await me.store.send([rows.sending(rows.message(run))])
    await me.store.finish([rows.finish(run)])
    return run.workflow_id


async def test_everything_of_a_workflow_goes(site: Site, me: Process) -> None:
    """“the row with its input, output, steps, events, streams and messages, and what our own schema
    holds of its streams”; “the ids removed”."""
    gone, kept = await rich(me, "gone"), await rich(me, "kept")
    before = await parts(site, kept)
    assert min(before.values()) > 0
    asked = (rows.wid("none"), gone, gone)
    assert await me.managed(Delete(asked)) == Managed((gone,))
    assert set((await parts(site, gone)).values()) == {0}
    assert await parts(site, kept) == before
    assert await me.managed(Delete(asked)) == Managed()


@pytest.mark.parametrize("status", ["ENQUEUED", "DELAYED", "PENDING", "ERROR", "CANCELLED"])
async def test_whatever_state_a_workflow_is_in(site: Site, me: Process, status: str) -> None:
    """“Whatever state they are in”."""
    found = await site.foreign(status=status, owner_xid="somebody")
    assert (await me.managed(Delete((found,)))).ids == (found,)
    assert not await site.exists(found)


async def test_a_tree_goes_only_if_asked_for(site: Site, me: Process) -> None:
    """“with `children`, all their descendants too”."""
    root, child, leaf = rows.wid("root"), rows.wid("child"), rows.wid("leaf")
    await site.foreign(root)
    await site.foreign(child, parent_workflow_id=root, status="SUCCESS")
    await site.foreign(leaf, parent_workflow_id=child)
    assert (await me.managed(Delete((child,)))).ids == (child,)
    await site.foreign(child, parent_workflow_id=root, status="SUCCESS")
    assert (await me.managed(Delete((root,), children=True))).ids == (root, child, leaf)
    assert not await site.exists(leaf)


async def test_a_run_cannot_remove_itself(site: Site, me: Process) -> None:
    """“`WorkflowBusy` if the caller's own run is among those to be removed, descendants
    included”."""
    root = await me.running("root")
    caller, other = rows.direct("caller"), await me.waiting()
    await me.start(rows.child_of(root, 1, caller))
    for step, command in enumerate(
        (
            Delete((other.workflow_id, caller.workflow_id)),
            Delete((other.workflow_id, root.workflow_id), children=True),
        ),
        1,
    ):
        answer = await me.store.manage(command, rows.caller(caller, step))
        assert isinstance(answer.standing, Managed)
        assert isinstance(answer.standing.refusal, WorkflowBusy)
        assert answer.standing.refusal.workflow_id == caller.workflow_id
    assert [row["error"] for row in await site.steps(caller.workflow_id)] == ["WorkflowBusy"] * 2
    assert await site.exists(other.workflow_id)
    removed = await me.store.manage(Delete((root.workflow_id,)), rows.caller(caller, 3))
    assert removed.standing == Managed((root.workflow_id,))


async def test_a_removed_run_can_write_nothing_more(site: Site, me: Process) -> None:
    """“it takes it away from whoever runs them”: also its id can be used again, as if new."""
    run = await me.running()
    await me.store.record([rows.checkpoint(run, 1)])
    await me.managed(Delete((run.workflow_id,)))
    assert kinds(await me.store.record([rows.checkpoint(run, 2)])) == [AnswerKind.LOST]
    assert kinds(await me.store.finish([rows.finish(run)])) == [AnswerKind.LOST]
    again = await me.running(run.workflow_id)
    assert await me.store.history([again.workflow_id]) == {}


async def test_a_thousand_go_at_once(site: Site, me: Process) -> None:
    """“Whatever the number of ids, the statements are few”."""
    batch = [rows.enqueued() for _ in range(1000)]
    await me.start(*batch)
    ids = tuple(item.workflow_id for item in batch)
    assert (await me.managed(Delete(ids))).ids == ids
    assert await site.backdoor.rows("SELECT 1 FROM workflow_input") == []
