"""Forks and rewinds beside those of the real dbos: the same rows, and each runs the other's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure import set_event, step, workflow, write_stream
from perdure.engine.system import SystemIds
from perdure.model.answer import AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.management import Command, Fork, ForkItem, Rewind
from tests.compat.conftest import Dbos
from tests.compat.test_dbos_applications import JOURNEY, application, naps
from tests.support.backdoor import Row
from tests.support.engines import Lab

pytestmark = pytest.mark.usefixtures("dbos_can_write")

STAMPS = {"created_at", "updated_at", "retention_timestamp"}
OPTIONS: Any = {"attributes": {"a": 1}, "timeout": 3_600}
NOWHERE = {"queue_name": "nowhere", "queue_partition_key": "p"}
TABLES = {
    "workflow_status": "workflow_uuid",
    "workflow_input": "workflow_uuid",
    "workflow_output": "workflow_uuid",
    "operation_outputs": "workflow_uuid",
    "workflow_events": "workflow_uuid",
    "workflow_events_history": "workflow_uuid",
    "streams": "workflow_uuid",
    "notifications": "destination_uuid",
}


@step(name="say")
async def say(word: str) -> str:
    return word


@workflow(name="small")
async def small(word: str) -> str:
    return word


@workflow(name="story")
async def story(word: str) -> str:
    """1 step · 2 event · 3 stream · 4 and 5 child · 6 event · 7 event · 8 stream · 9 step."""
    await say(word)
    await set_event("k", 1)
    await write_stream("s", "one")
    await small(word)
    await set_event("k", 2)
    await set_event("late", 9)
    await write_stream("s", "two")
    return await say(word)


async def everything(lab: Lab, workflow_id: str, unseen: Sequence[str] = ()) -> dict[str, Any]:
    """Every row that belongs to the workflow, without its id and what differs by the moment."""
    found: dict[str, list[str]] = {}
    for table, column in TABLES.items():
        rows = await lab.rows(f"SELECT * FROM {table} WHERE {column} = ?", workflow_id)
        found[table] = sorted(_shown(row, {column, *STAMPS, *unseen}) for row in rows)
    return found


def _shown(row: Row, without: set[str]) -> str:
    shown = {key: value for key, value in row.items() if key not in without}
    if shown.get("attributes"):
        # dbos spells JSON out again.
        shown["attributes"] = json.loads(shown["attributes"])
    return json.dumps(shown, default=str)


async def ours(lab: Lab, command: Command) -> None:
    assert (await lab.store.inner.manage(command)).kind is AnswerKind.WRITTEN


async def test_a_fork_has_the_rows_that_dbos_gives_it(shared_lab: Lab, dbos: Dbos) -> None:
    lab = shared_lab
    await lab.start(story, small)
    await story.options(id="w", **OPTIONS)("word")
    for point in (1, 2, 3, 4, 6, 7, 9, 100):
        theirs = await dbos.ask("fork_workflow", "w", point, **NOWHERE)
        item = ForkItem(WorkflowId("w"), WorkflowId(f"ours {point}"), point)
        await ours(lab, Fork((item,), queue_name="nowhere", partition_key="p"))
        assert await everything(lab, item.fork_id) == await everything(lab, theirs), point


async def test_a_rewind_leaves_the_rows_that_dbos_leaves(shared_lab: Lab, dbos: Dbos) -> None:
    lab = shared_lab
    engine = await lab.start(story, small)
    apart = ("started_at_epoch_ms", "completed_at_epoch_ms", "child_workflow_id", "creator_xid")
    for point in (1, 2, 3, 7, 9, 100):
        mine, theirs = WorkflowId(f"ours {point}"), f"theirs {point}"
        for workflow_id in (mine, theirs):
            await story.options(id=workflow_id, **OPTIONS)("word")
            await engine.send(workflow_id, "unread")
        await dbos.ask("rewind_workflow", theirs, start_step=point, **NOWHERE)
        await ours(
            lab, Rewind(mine, SystemIds().token(), point, queue_name="nowhere", partition_key="p")
        )
        assert await everything(lab, mine, apart) == await everything(lab, theirs, apart), point


async def test_a_dbos_application_runs_our_fork_and_what_we_rewound(
    shared_lab: Lab, dbos: Dbos, dbos_python: Path
) -> None:
    """On its internal queue, which every application of its own serves, or on one it declares."""
    lab = shared_lab
    with application(dbos_python, lab.url, "w") as first:
        await first.reaches("result w")
    await lab.start(naps, name="ours")
    item = ForkItem(WorkflowId("w"), WorkflowId("fork"), 6)
    await ours(lab, Fork((item,), queue_name="_dbos_internal_queue"))
    await ours(
        lab, Rewind(WorkflowId("w"), SystemIds().token(), 6, queue_name="_dbos_internal_queue")
    )
    with application(dbos_python, lab.url) as second:
        await second.reaches("launched")
        for workflow_id in ("w", "fork"):
            await lab.until(workflow_id)
            assert await dbos.ask("result", workflow_id) == JOURNEY
    assert (await lab.status("fork"))["application_name"] == "app"
    steps = [await dbos.ask("list_workflow_steps", each) for each in ("w", "fork")]
    assert [each["function_name"] for each in steps[0]] == [
        each["function_name"] for each in steps[1]
    ]
    assert steps[0][:5] == steps[1][:5]
