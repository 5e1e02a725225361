"""Whatever a batch holds comes back from every store exactly as it was given."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.model.answer import AnswerKind
from perdure.model.talk import Key, Topic
from perdure.model.workflow import Checkpoint, Fence, NewWorkflow
from perdure.ports.store.streams import Reading
from tests.support import rows
from tests.support.database import Database, MovableClock
from tests.support.store import Process, Site, kinds

LARGEST = 2**63 - 1
LARGEST_PRIORITY = 2**31 - 1
AWKWARD = (
    "",
    "\x1f",
    "\x1e",
    "a\x1fb\x1e",
    "NULL",
    "\\N",
    "\\x41",
    "{a,b}",
    "',\"",
    "\r\n\t",
    "😀",
)

texts = st.sampled_from(AWKWARD) | st.text(
    # NUL and lone surrogates are refused; the contract suite has them.
    st.characters(exclude_characters="\x00", exclude_categories=("Cs",)),
    max_size=20,
)
maybe_texts = st.none() | texts
instants = st.sampled_from([0, -1, LARGEST, -LARGEST - 1]) | st.integers(-LARGEST - 1, LARGEST)
step_fields = st.fixed_dictionaries(
    {
        "name": texts,
        "output": maybe_texts,
        "error": maybe_texts,
        "child_workflow_id": maybe_texts,
        "started_at_ms": instants,
        "completed_at_ms": instants,
        "serialization": maybe_texts,
    }
)
workflow_fields = st.fixed_dictionaries(
    {
        "name": texts,
        "class_name": maybe_texts,
        "config_name": maybe_texts,
        "inputs": texts,
        "serialization": texts,
        "application_version": maybe_texts,
        "queue_name": maybe_texts,
        "priority": st.sampled_from([0, LARGEST_PRIORITY]) | st.integers(0, LARGEST_PRIORITY),
        "partition_key": maybe_texts,
        "timeout_ms": st.none() | st.integers(0, LARGEST),
        "deadline_ms": st.none() | instants,
        "parent_workflow_id": maybe_texts,
        "authenticated_user": maybe_texts,
        "authenticated_roles": maybe_texts,
        "assumed_role": maybe_texts,
    }
)
COLUMNS = {
    "name": "name",
    "class_name": "class_name",
    "config_name": "config_name",
    "serialization": "serialization",
    "application_version": "application_version",
    "queue_name": "queue_name",
    "priority": "priority",
    "queue_partition_key": "partition_key",
    "workflow_timeout_ms": "timeout_ms",
    "parent_workflow_id": "parent_workflow_id",
    "authenticated_user": "authenticated_user",
    "authenticated_roles": "authenticated_roles",
    "assumed_role": "assumed_role",
    "creator_xid": "creator",
}

Told = tuple[str, str, str]
"""A topic or key, a text and its label."""


class Bench:
    """A process start on a database, driven from code that is not async."""

    def __init__(self, runner: asyncio.Runner, site: Site, process: Process) -> None:
        self._runner = runner
        self._site = site
        self._process = process

    def steps_come_back(self, fields: list[dict[str, Any]]) -> None:
        """Record those steps of one run, and read them in both ways."""
        self._runner.run(self._steps_come_back(fields))

    async def _steps_come_back(self, fields: list[dict[str, Any]]) -> None:
        run = await self._process.running()
        batch = [rows.checkpoint(run, step, **values) for step, values in enumerate(fields, 1)]
        answers = await self._process.store.record(batch)
        assert set(kinds(answers)) == {AnswerKind.WRITTEN}
        stored = await self._site.steps(run.workflow_id)
        assert [_given(row) for row in stored] == [_told(item) for item in batch]
        read = (await self._process.store.history([run.workflow_id]))[run.workflow_id]
        assert [tuple(step.step_id for step in read)] == [tuple(range(1, len(batch) + 1))]
        assert [(step.name, step.output, step.error) for step in read] == [
            (item.name, item.output, item.error) for item in batch
        ]
        assert set(kinds(await self._process.store.record(batch))) == {AnswerKind.MINE}

    def workflows_come_back(self, fields: list[dict[str, Any]]) -> None:
        """Start those workflows in one batch, and read them behind the store's back."""
        self._runner.run(self._workflows_come_back(fields))

    async def _workflows_come_back(self, fields: list[dict[str, Any]]) -> None:
        batch: list[NewWorkflow] = [rows.direct(**values) for values in fields]
        answers = await self._process.start(*batch)
        assert set(kinds(answers)) == {AnswerKind.WRITTEN}
        for item in batch:
            row = await self._site.status(item.workflow_id)
            told = {column: getattr(item, name) for column, name in COLUMNS.items()}
            assert {column: row[column] for column in COLUMNS} == told
            payload = await self._site.payload("workflow_input", item.workflow_id)
            assert payload is not None
            assert payload["inputs"] == item.inputs
        lost = await self._process.store.lost([rows.fence_of(item) for item in batch])
        assert lost == []
        assert set(kinds(await self._process.start(*batch))) == {AnswerKind.MINE}

    def endings_come_back(self, outputs: list[str]) -> None:
        """End a run with each of those texts."""
        self._runner.run(self._endings_come_back(outputs))

    async def _endings_come_back(self, outputs: list[str]) -> None:
        runs = [rows.direct() for _ in outputs]
        await self._process.start(*runs)
        fences = [Fence(run.workflow_id, run.creator) for run in runs]
        batch = [rows.finish(f, text=text) for f, text in zip(fences, outputs, strict=True)]
        assert set(kinds(await self._process.store.finish(batch))) == {AnswerKind.WRITTEN}
        for run, text in zip(runs, outputs, strict=True):
            stored = await self._site.payload("workflow_output", run.workflow_id)
            assert stored is not None
            assert (stored["output"], stored["error"]) == (text, None)

    def talk_comes_back(self, told: list[Told]) -> None:
        """Say those things as messages, events and stream values, and hear them."""
        self._runner.run(self._talk_comes_back(told))

    async def _talk_comes_back(self, told: list[Told]) -> None:
        store, run = self._process.store, await self._process.running()
        steps = list(enumerate(told, 1))
        sent = [
            rows.sending(rows.message(run, text, topic=name, serialization=label))
            for name, text, label in told
        ]
        assert set(kinds(await store.send(sent))) == {AnswerKind.WRITTEN}
        assert set(kinds(await store.send(sent))) == {AnswerKind.MINE}
        topics = list(dict.fromkeys(Topic(run.workflow_id, name) for name, _, _ in told))
        assert await store.topics_with_messages(topics) == topics
        received = await store.receive([rows.receiving(run, n, name) for n, (name, *_) in steps])
        assert [(each.standing.output, each.standing.serialization) for each in received] == [
            (text, label) for _, text, label in told
        ]
        assert await store.topics_with_messages(topics) == []
        published = [
            rows.event(run, 100 + n, name, text)._replace(serialization=label)
            for n, (name, text, label) in steps
        ]
        assert set(kinds(await store.publish(published))) == {AnswerKind.WRITTEN}
        last = {name: (text, label) for name, text, label in told}
        events = await store.events([Key(run.workflow_id, name) for name in last])
        assert {event.key: (event.value, event.serialization) for event in events} == last
        appended = [
            rows.appending_inside(run, n, name, text)._replace(serialization=label)
            for n, (name, text, label) in steps
        ]
        assert set(kinds(await store.append(appended))) == {AnswerKind.WRITTEN}
        assert set(kinds(await store.append(appended))) == {AnswerKind.MINE}
        readings = [Reading(Key(run.workflow_id, name), 0, len(told)) for name in last]
        for name, page in zip(last, await store.stream_pages(readings), strict=True):
            assert [(row.offset, row.value, row.serialization) for row in page.rows] == [
                (offset, text, label)
                for offset, (_, text, label) in enumerate(one for one in told if one[0] == name)
            ]


def _given(row: dict[str, Any]) -> tuple[Any, ...]:
    return (
        row["function_name"],
        row["output"],
        row["error"],
        row["child_workflow_id"],
        row["started_at_epoch_ms"],
        row["completed_at_epoch_ms"],
        row["serialization"],
    )


def _told(item: Checkpoint) -> tuple[Any, ...]:
    return (
        item.name,
        item.output,
        item.error,
        item.child_workflow_id,
        item.started_at_ms,
        item.completed_at_ms,
        item.serialization,
    )


@contextmanager
def opened(database: Database) -> Iterator[Bench]:
    """A bench on that database for the length of the block."""
    with asyncio.Runner() as runner:
        site = Site(database, MovableClock(), database.backdoor())
        try:
            yield Bench(runner, site, runner.run(site.process()))
        finally:
            runner.run(site.close())


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A bench on each kind of store."""
    with opened(request.getfixturevalue(f"{request.param}_database")) as made:
        yield made


# One bench serves all examples: they do not meet, since every row has an id of its own.
bounded = settings(max_examples=60, suppress_health_check=list(HealthCheck))


@bounded
@given(fields=st.lists(step_fields, min_size=1, max_size=6))
def test_steps_come_back(bench: Bench, fields: list[dict[str, Any]]) -> None:
    """Every field of every row is what was given, and a repeated write recognises it."""
    bench.steps_come_back(fields)


@bounded
@given(fields=st.lists(workflow_fields, min_size=1, max_size=6))
def test_workflows_come_back(bench: Bench, fields: list[dict[str, Any]]) -> None:
    """Every field of every row is what was given, and a repeated write recognises it."""
    bench.workflows_come_back(fields)


@bounded
@given(outputs=st.lists(texts, min_size=1, max_size=6))
def test_endings_come_back(bench: Bench, outputs: list[str]) -> None:
    """Every output is the text that was given."""
    bench.endings_come_back(outputs)


@bounded
@given(told=st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=6))
def test_talk_comes_back(bench: Bench, told: list[Told]) -> None:
    """Every name, text and label is what was given, each in its order and once."""
    bench.talk_comes_back(told)
