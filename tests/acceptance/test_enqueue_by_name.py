"""Enqueueing workflows by name, whose code this process does not have."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from perdure import (
    DedupPolicy,
    InvalidArgument,
    Queue,
    QueueDeduplicated,
    Submission,
    UnknownQueue,
    workflow,
)
from perdure.errors import NotRunning
from tests.support.engines import Lab
from tests.support.workflows import child


async def test_a_process_without_the_code_enqueues_for_one_that_has_it(shared_lab: Lab) -> None:
    """The result comes back as JSON's kinds."""
    lab = shared_lab

    @workflow(name="app.describe")
    async def describe(word: str, *, when: date) -> dict[str, date]:
        return {word: when}

    await lab.start(describe, queues=[Queue("q")])
    sender = await lab.start()
    handle = await sender.enqueue(
        "app.describe", queue="q", args=("x",), kwargs={"when": "2026-11-30"}, id="w"
    )
    assert handle.workflow_id == "w"
    assert await handle.result(timeout=30) == {"x": "2026-11-30"}


async def test_the_row_is_that_of_a_call(lab: Lab) -> None:
    engine = await lab.start(queues=[Queue("q")], version="v1")
    await engine.enqueue(
        "convert",
        queue=Queue("q"),
        args=("a", [1, None]),
        kwargs={"deep": {"x": 1.5}},
        class_name="Media",
        config_name="fast",
        id="w",
        priority=3,
        dedup_id="d",
        timeout=2,
    )
    row = await lab.status("w")
    assert (row["name"], row["class_name"], row["config_name"]) == ("convert", "Media", "fast")
    assert (row["status"], row["queue_name"], row["priority"]) == ("ENQUEUED", "q", 3)
    assert (row["deduplication_id"], row["workflow_timeout_ms"]) == ("d", 2000)
    assert (row["application_name"], row["application_version"]) == ("app", "v1")
    stored = json.loads(await lab.input("w") or "")
    assert stored == {"positionalArgs": ["a", [1, None]], "namedArgs": {"deep": {"x": 1.5}}}


async def test_what_has_no_annotation_is_stored_as_json_or_refused(memory_lab: Lab) -> None:
    engine = await memory_lab.start(queues=[Queue("q")])
    with pytest.raises(Exception, match=r"'convert'.*annotate"):
        await engine.enqueue("convert", queue="q", args=(date(2026, 1, 1),))
    assert await memory_lab.count() == 0


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"name": ""}, "name"),
        ({"name": 3}, "name"),
        ({"args": "abc"}, "args"),
        ({"kwargs": [1]}, "kwargs"),
        ({"class_name": " "}, "class_name"),
        ({"queue": None}, "queue"),
        ({"priority": 0}, "priority"),
        ({"dedup_policy": DedupPolicy.REJECT}, "dedup_id"),
        ({"quueue": "q"}, "quueue"),
    ],
    ids=repr,
)
async def test_what_is_no_call_is_refused(
    memory_lab: Lab, given: dict[str, Any], named: str
) -> None:
    engine = await memory_lab.start(queues=[Queue("q")])
    options: dict[str, Any] = {"name": "convert", "queue": "q", **given}
    with pytest.raises(InvalidArgument, match=named):
        await engine.enqueue(**options)
    assert await memory_lab.count() == 0


async def test_queues_and_keys_are_checked_as_for_other_calls(lab: Lab) -> None:
    engine = await lab.start(queues=[Queue("q")])
    with pytest.raises(UnknownQueue):
        await engine.enqueue("convert", queue="nowhere")
    await engine.enqueue("convert", queue="nowhere", allow_unknown_queue=True)
    await engine.enqueue("convert", queue="q", dedup_id="d", id="first")
    with pytest.raises(QueueDeduplicated, match="'first'"):
        await engine.enqueue("convert", queue="q", dedup_id="d")
    joined = await engine.enqueue(
        "convert", queue="q", dedup_id="d", dedup_policy=DedupPolicy.RETURN_EXISTING
    )
    assert joined.workflow_id == "first"


async def test_an_engine_that_does_not_run_enqueues_nothing(memory_lab: Lab) -> None:
    with pytest.raises(NotRunning):
        await memory_lab.built().enqueue("convert", queue="q")


async def test_many_calls_by_name(lab: Lab) -> None:
    """Each may be of another workflow, and have options of its own."""
    engine = await lab.start(child, queues=[Queue("q", partitioned=True)], listen=["q"])
    submissions = [
        Submission("child", ("a",)),
        Submission("child", ("b",), options={"partition_key": "k2", "id": "named"}),
        Submission("else.where", kwargs={"n": 1}, class_name="Else"),
    ]
    handles = await engine.enqueue_many(
        submissions, queue="q", partition_key="k1", allow_unknown_queue=True
    )
    rows = [await lab.status(handle.workflow_id) for handle in handles]
    assert [row["queue_partition_key"] for row in rows] == ["k1", "k2", "k1"]
    assert [row["name"] for row in rows] == ["child", "child", "else.where"]
    assert (rows[1]["workflow_uuid"], rows[2]["class_name"]) == ("named", "Else")
    assert [await handle.result(timeout=30) for handle in handles[:2]] == ["A", "B"]
    assert (await handles[2].status()).state == "ENQUEUED"


async def test_many_calls_are_checked_before_any_is_written(lab: Lab) -> None:
    engine = await lab.start(queues=[Queue("q", partitioned=True)])
    keyed = Submission("convert", options={"partition_key": "k"})
    with pytest.raises(InvalidArgument, match="'q' is partitioned"):
        await engine.enqueue_many([keyed, Submission("convert")], queue="q")
    with pytest.raises(InvalidArgument, match="Submission") as raised:
        await engine.enqueue_many([keyed, "convert"], queue="q")  # type: ignore[list-item]
    assert raised.value.__notes__ == ["(item 1 of many, counted from 0)"]
    with pytest.raises(InvalidArgument, match="options of a Submission"):
        await engine.enqueue_many([keyed], queue="q", id="w")
    assert await lab.count() == 0
    assert await engine.enqueue_many([], queue="q") == []
