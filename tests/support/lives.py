"""A workflow that did something of everything, to be cut at any step."""

from __future__ import annotations

from perdure.model.answer import AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.status import WorkflowState
from perdure.model.wire import STREAM_CLOSED
from perdure.model.workflow import NewWorkflow
from tests.support import rows
from tests.support.backdoor import Row
from tests.support.store import Process, Site, kinds

CHILD = rows.wid("child")
LAST = 11


async def lived(
    me: Process,
    workflow_id: str | None = None,
    state: WorkflowState | None = WorkflowState.ERROR,
    **fields: object,
) -> NewWorkflow:
    """A run that was in that state at the end; one that has not ended if there is none.

    1 step · 2 event k=1 · 3 stream "one" · 4 child · 5 message "m1" · 6 event k=2 · 7 event
    late=9 · 8 stream "two" · 9 message "m2" · 10 stream closed · 11 failed step; and a message "m3"
    that nobody received.
    """
    run = await me.running(workflow_id, **fields)
    store = me.store
    child = rows.checkpoint(
        run, 4, name="child", output=None, child_workflow_id=CHILD, serialization=None
    )
    failed = rows.checkpoint(run, LAST, name="upload", output=None, error='{"name":"E"}')
    answers = [
        *await store.record([rows.checkpoint(run, 1, name="fetch"), child, failed]),
        *await store.publish([rows.event(run, 2, "k", "1"), rows.event(run, 6, "k", "2")]),
        *await store.publish([rows.event(run, 7, "late", "9")]),
        *await store.append([rows.appending(run, 3, "s", '"one"')]),
        *await store.append([rows.appending(run, 8, "s", '"two"')]),
        *await store.append([rows.appending(run, 10, "s", STREAM_CLOSED)]),
    ]
    for step_id in (5, 9):
        text = '"m1"' if step_id == 5 else '"m2"'
        answers += await store.send([rows.sending(rows.message(run, text))])
        answers += await store.receive([rows.receiving(run, step_id)])
    answers += await store.send([rows.sending(rows.message(run, '"m3"'))])
    if state is WorkflowState.CANCELLED:
        await me.cancel([run.workflow_id])
    elif state is not None:
        answers += await store.finish([rows.finish(run, state)])
    assert set(kinds(answers)) == {AnswerKind.WRITTEN}
    return run


async def told(site: Site, table: str, workflow_id: WorkflowId) -> list[Row]:
    """The workflow's rows of a table, in the order of its key, without the id."""
    order = {
        "workflow_events": "key",
        "workflow_events_history": "function_id, key",
        "streams": 'key, "offset"',
        "notifications": "created_at_epoch_ms, message_uuid",
    }[table]
    column = "destination_uuid" if table == "notifications" else "workflow_uuid"
    found = await site.backdoor.rows(
        f"SELECT * FROM {table} WHERE {column} = ? ORDER BY {order}", workflow_id
    )
    for row in found:
        del row[column]
    return found


async def events(site: Site, workflow_id: WorkflowId) -> dict[str, str]:
    """The present values of the workflow's keys."""
    return {row["key"]: row["value"] for row in await told(site, "workflow_events", workflow_id)}


async def streamed(site: Site, workflow_id: WorkflowId) -> list[tuple[int, str]]:
    """The offsets and values of the workflow's streams."""
    return [(row["offset"], row["value"]) for row in await told(site, "streams", workflow_id)]


async def messages(site: Site, workflow_id: WorkflowId) -> list[tuple[str, int | None]]:
    """The messages of the workflow, each with the step that received it."""
    return [
        (row["message"], row["consumed_by_function_id"])
        for row in await told(site, "notifications", workflow_id)
    ]


async def everything(site: Site, workflow_id: WorkflowId) -> list[list[Row]]:
    """Every row that belongs to the workflow."""
    tables = ("workflow_events", "workflow_events_history", "streams", "notifications")
    payloads = [
        await site.payload(table, workflow_id) for table in ("workflow_input", "workflow_output")
    ]
    return [
        [await site.status(workflow_id)],
        await site.steps(workflow_id),
        [row for row in payloads if row is not None],
        *[await told(site, table, workflow_id) for table in tables],
    ]
