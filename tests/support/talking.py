"""Workflows and looks at rows that tests of messages, events and streams share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from perdure import Engine, close_stream, read_stream, recv, step, workflow, write_stream
from perdure.engine import polling as polling_module
from perdure.engine.kernel import Kernel
from perdure.model.ids import WorkflowId
from tests.support.engines import Lab
from tests.support.waiting import eventually
from tests.support.workflows import Spoilt

CLOSED = '"__DBOS_STREAM_CLOSED__"'
"""The text of a stream's last row."""

gates: dict[str, asyncio.Event] = {}


@step(name="gate")
async def gate(word: str) -> None:
    """Wait until the test opens the gate of that name."""
    await gates.setdefault(word, asyncio.Event()).wait()


def open_gate(word: str) -> None:
    """Let pass whoever waits there, now or later; in the loop."""
    gates.setdefault(word, asyncio.Event()).set()


@workflow(name="receives")
async def receives(topics: list[str | None], timeout: float | None) -> list[Any]:
    """What comes under these topics, one after the other."""
    return [await recv(topic, timeout=timeout) for topic in topics]


@workflow(name="gated receiver")
async def gated(word: str) -> Any:
    """One message of the topic `t`, behind a gate."""
    await gate(word)
    return await recv("t", timeout=3_600)


@workflow(name="follows")
async def follows(workflow_id: str, key: str) -> list[Any]:
    """All values of a stream."""
    return [value async for value in read_stream(workflow_id, key)]


@workflow(name="writes")
async def writes(values: list[Any], close: bool) -> None:
    """These values to the stream `s`."""
    for value in values:
        await write_stream("s", value)
    if close:
        await close_stream("s")


@workflow(name="writes at gate")
async def writes_at(word: str, how: str) -> None:
    """Two values, a gate, another value, and an end that is no close."""
    await write_stream("s", 1)
    await write_stream("s", 2)
    await gate(word)
    await write_stream("s", 3)
    if how == "fail":
        raise Spoilt("as asked")


async def all_of(reader: AsyncIterator[Any]) -> list[Any]:
    """Everything up to its end."""
    return [value async for value in reader]


async def messages(lab: Lab, destination: str) -> list[tuple[str, str, bool]]:
    """Topic, text and whether it was consumed, of every message in the order of receiving."""
    rows = await lab.rows(
        "SELECT topic, message, consumed FROM notifications WHERE destination_uuid = ?"
        " ORDER BY created_at_epoch_ms, message_uuid",
        destination,
    )
    return [(row["topic"], row["message"], bool(row["consumed"])) for row in rows]


async def stored_stream(lab: Lab, workflow_id: str, key: str) -> list[tuple[int, str, int]]:
    """Offset, text and writing step of every row of a stream."""
    rows = await lab.rows(
        'SELECT "offset", value, function_id FROM streams WHERE workflow_uuid = ? AND key = ?'
        ' ORDER BY "offset"',
        workflow_id,
        key,
    )
    return [(row["offset"], row["value"], row["function_id"]) for row in rows]


async def stored_events(lab: Lab, workflow_id: str) -> dict[str, str]:
    """The present value of every key, as text."""
    rows = await lab.rows(
        "SELECT key, value FROM workflow_events WHERE workflow_uuid = ?", workflow_id
    )
    return {row["key"]: row["value"] for row in rows}


async def insert_workflow(lab: Lab, workflow_id: str, **columns: object) -> None:
    """A row that another program left, by default that of a finished workflow."""
    values = {"workflow_uuid": workflow_id, "status": "SUCCESS", "name": "other", **columns}
    places = ", ".join("?" * len(values))
    await lab.backdoor.run(
        f"INSERT INTO workflow_status ({', '.join(values)}) VALUES ({places})", *values.values()
    )


async def of(call: Awaitable[Any]) -> Any:
    """What an awaitable of any kind comes to, as a coroutine."""
    return await call


async def until_wanted(lab: Lab, runner: Engine, workflow_id: str) -> None:
    """Wait until its process knows that another waits for its end, where that is told."""
    if lab.kind == "postgres":
        await eventually(lambda: runner.kernel.tidings.is_wanted(WorkflowId(workflow_id)))


def never_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines started from here on do not look by themselves for what is said: only hints wake."""
    monkeypatch.setattr(polling_module, "FIRST_PAUSE_S", 3_600.0)
    monkeypatch.setattr(polling_module, "LONGEST_PAUSE_S", 3_600.0)


def never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines started from here on hear no hints of others: what waits has to look by itself."""
    monkeypatch.setattr(Kernel, "on_hint", lambda *_: None)
