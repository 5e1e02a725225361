"""Workflows taken out of a database and brought into one, by whoever may do so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import Client, Engine, InvalidArgument, WorkflowNotFound, workflow, workflows
from perdure.errors import InvalidDocument, WorkflowIdInUse
from tests.support.engines import Lab
from tests.support.tours import DAY, major, minor, ran, reporter, talker


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()


async def test_a_running_workflow_goes_on_in_another_database(lab: Lab) -> None:
    """“one that is running waits in its queue at its new place and goes on there where it was when
    it was exported”: what it received, published and appended comes with it."""
    engine = await lab.start(talker)
    await talker.options(id="w", engine=engine).start()
    await engine.send("w", "one")
    assert await engine.handle("w").event("k") == "one"
    await lab.until_asleep(DAY - 60)
    await engine.send("w", "two", "elsewhere")
    text = json.dumps(await engine.workflows.export("w"))
    await engine.workflows.cancel("w")
    async with Engine("memory:", workflows=[talker]) as other:
        assert await other.workflows.import_(json.loads(text)) == ["w"]
        assert (await other.workflows.get("w")).attempts in {1, 2}
        await other.send("w", "three")
        assert await other.handle("w").result() == ["one", "three"]
        assert [event.value for event in await other.workflows.events("w")] == ['"three"']
        streamed = await other.workflows.stream("w", "s")
        assert [row.value for row in streamed] == ['"one"', '"three"']
        (document,) = await other.workflows.export("w")
        # Between the topics the millisecond decides, and it may be the same one.
        said = [(message["topic"], message["message"]) for message in document["messages"]]
        assert [text for topic, text in said if topic != "elsewhere"] == ['"one"', '"three"']
        assert [text for topic, text in said if topic == "elsewhere"] == ['"two"']


async def test_a_tree_is_moved_by_a_client(shared_lab: Lab) -> None:
    """“with `children` all descendants behind”: the parent's outcome and its child's are there."""
    lab = shared_lab
    engine = await lab.start(major, minor)
    await major.options(id="w")("c")
    async with Client(lab.url) as client:
        documents = await client.workflows.export("w", children=True)
        assert [document["workflow"]["workflow_id"] for document in documents] == ["w", "w-1"]
        before = [await lab.status("w"), await lab.steps("w"), await lab.output("w")]
        await client.workflows.delete("w", children=True)
        assert await client.workflows.import_(documents) == ["w", "w-1"]
        row, steps, output = before
        assert await lab.output("w") == output
        assert {**await lab.status("w"), "creator_xid": row["creator_xid"]} == row
        assert [step["output"] for step in await lab.steps("w")] == [
            step["output"] for step in steps
        ]
    assert await engine.handle("w").result() == ["between", "c", "end"]
    rewound = await engine.workflows.rewind("w", 2)
    assert await rewound.result() == ["between", "c", "end"]
    assert ran["w-1"] == ["c"]


async def test_in_a_body_both_are_steps(lab: Lab) -> None:
    """“In the body of a workflow each call is a step”: done once."""

    @workflow(name="mover")
    async def mover() -> list[str]:
        documents = await workflows().export("w")
        await workflows().delete("w")
        try:
            await workflows().export("w")
        except WorkflowNotFound:
            return list(await workflows().import_(documents))
        return []

    engine = await lab.start(reporter, mover)
    await reporter.options(id="w")(["a"])
    assert await mover.options(id="m")() == ["w"]
    created = (await lab.status("w"))["creator_xid"]
    await lab.rerun("m")
    assert (await lab.status("w"))["creator_xid"] == created
    assert await engine.handle("m").result() == ["w"]
    assert [name for _, name in await lab.history("m")] == [
        "Perdure.exportWorkflows",
        "DBOS.deleteWorkflow",
        "Perdure.exportWorkflows",
        "Perdure.importWorkflows",
    ]


async def test_what_cannot_be_is_refused_and_nothing_written(lab: Lab) -> None:
    """“Raises `InvalidDocument` … before anything is written, and `WorkflowIdInUse`”."""
    engine = await lab.start(reporter)
    on = engine.workflows
    await reporter.options(id="w")(["a"])
    (document,) = await on.export("w")
    damaged = {**document, "workflow": {**document["workflow"], "workflow_id": "v", "state": "?"}}
    with pytest.raises(InvalidDocument, match="state"):
        await on.import_([damaged])
    with pytest.raises(WorkflowIdInUse, match="'w'"):
        await on.import_(document)
    assert await on.import_(document, skip_existing=True) == []
    with pytest.raises(WorkflowNotFound, match="'nobody'"):
        await on.export(["w", "nobody"])
    wrong: list[Any] = ["text", 5, None, [5], ["text"]]
    for documents in wrong:
        with pytest.raises(InvalidArgument):
            await on.import_(documents)
    with pytest.raises(InvalidArgument, match="skip_existing"):
        await on.import_(document, skip_existing=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="children"):
        await on.export("w", children="yes")  # type: ignore[arg-type]
    assert await lab.count() == 1
