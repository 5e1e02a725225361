"""`perdure workflow events | streams | messages`."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
from datetime import datetime
from pathlib import Path

import pytest

from perdure import Client, Engine, close_stream, recv, set_event, workflow, write_stream
from tests.edges.program import Ran, perdure


@workflow
async def order() -> str | None:
    await set_event("state", {"paid": True, "note": "no\x1b[31m[bold]way"})
    await set_event("total", 12)
    for letter in "abc":
        await write_stream("log\x07", letter * 200)
    await write_stream("ticks", 1)
    await close_stream("ticks")
    return await recv("decision", into=str)


@workflow
async def quiet() -> None:
    pass


async def _work(url: str) -> None:
    async with Engine(url, workflows=[order, quiet]) as engine:
        handle = await order.options(id="one").start()
        async with Client(url) as client:
            await client.send("one", "yes\x1b[31m", topic="decision")
            await handle.result()
            await client.send("one", ["too", "late"])
        await quiet.options(id="two")()
        await engine.workflows.list()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One database that these tests only look at; one event of it says to be a pickle."""
    path = tmp_path_factory.mktemp("heard") / "perdure.db"
    asyncio.run(_work(f"sqlite:///{path}"))
    with contextlib.closing(sqlite3.connect(path)) as opened:
        opened.execute(
            "UPDATE workflow_events SET value = ?, serialization = 'py_pickle' WHERE key = 'total'",
            ("gASV\x1b[2J",),
        )
        opened.commit()
    return path


@pytest.fixture
def url(database: Path) -> str:
    return f"sqlite:///{database}"


def look(url: str, *arguments: str) -> Ran:
    ran = perdure("workflow", *arguments, "--database", url)
    assert ran.code == 0, ran.err
    return ran


def test_events_with_their_values(url: str) -> None:
    assert look(url, "events", "one", "--json").json == [
        {
            "key": "state",
            "serialization": "portable_json",
            "value": {"paid": True, "note": "no\x1b[31m[bold]way"},
        },
        {"key": "total", "serialization": "py_pickle", "value": "gASV\x1b[2J"},
    ]
    head, state, total, number = look(url, "events", "one").out.splitlines()
    assert head.split() == ["key", "value"]
    assert state.split(maxsplit=1) == [
        "state",
        '{"paid": true, "note": "no\\u001b[31m[bold]way"}',
    ]
    assert total.split(maxsplit=1) == ["total", "not read here (py_pickle): gASV\\x1b[2J"]
    assert number == "2 events"


def test_the_streams_of_a_workflow(url: str) -> None:
    assert look(url, "streams", "one", "--json").json == [
        {"key": "log\x07", "values": 3, "closed": False},
        {"key": "ticks", "values": 1, "closed": True},
    ]
    lines = look(url, "streams", "one").out.splitlines()
    assert [line.split() for line in lines] == [
        ["key", "values", "closed"],
        ["log\\x07", "3"],
        ["ticks", "1", "yes"],
        ["2", "streams"],
    ]


def test_a_stream_page_by_page(url: str) -> None:
    first = look(url, "streams", "one", "log\x07", "--limit", "2", "--json")
    assert [(each["offset"], each["value"]) for each in first.json] == [
        (0, "a" * 200),
        (1, "b" * 200),
    ]
    assert [each["step_id"] for each in first.json] == [3, 4]
    assert first.err == "There are more: go on with --offset 2\n"
    rest = look(url, "streams", "one", "log\x07", "--offset", "2")
    head, value, number = rest.out.splitlines()
    assert head.split() == ["offset", "step", "value"]
    assert value.split() == ["2", "5", f'"{"c" * 118}…']
    assert (number, rest.err) == ("1 value", "")


def test_the_mark_of_a_stream_s_end_is_no_value(url: str) -> None:
    assert [each["value"] for each in look(url, "streams", "one", "ticks", "--json").json] == [1]
    ran = look(url, "streams", "one", "ticks", "--offset", "1")
    assert ran.out == "stream 'ticks' of workflow 'one' has no values from offset 1 on\n"


def test_messages_and_which_step_received_them(url: str) -> None:
    decision, late = look(url, "messages", "one", "--json").json
    assert (decision["topic"], decision["value"]) == ("decision", "yes\x1b[31m")
    assert (decision["received"], late["received"]) == (True, False)
    assert (late["topic"], late["step_id"], late["value"]) == (None, None, ["too", "late"])
    assert datetime.fromisoformat(decision["sent_at"]).utcoffset() is not None
    lines = look(url, "messages", "one").out.splitlines()
    assert lines[0].split() == ["sent", "topic", "received", "message"]
    sent = datetime.fromisoformat(decision["sent_at"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    step = decision["step_id"]
    assert re.split(r" {2,}", lines[1]) == [
        sent,
        "decision",
        f"by step {step}",
        '"yes\\u001b[31m"',
    ]
    assert re.split(r" {2,}", lines[2])[1:] == ['["too", "late"]']
    assert lines[3] == "2 messages"


def test_messages_that_are_unread(url: str) -> None:
    ran = look(url, "messages", "one", "--unread", "--json")
    assert ([each["value"] for each in ran.json], ran.err) == ([["too", "late"]], "")


def test_messages_beyond_the_limit_are_mentioned(url: str) -> None:
    ran = look(url, "messages", "one", "--limit", "1", "--json")
    assert [each["topic"] for each in ran.json] == ["decision"]
    assert ran.err == "There may be more than these 1: choose with --limit\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("events",), "workflow 'two' has no events"),
        (("streams",), "workflow 'two' has no streams"),
        (("messages",), "workflow 'two' has no messages"),
        (("messages", "--unread"), "workflow 'two' has no unread messages"),
    ],
)
def test_where_there_is_nothing_it_says_so(url: str, arguments: tuple[str, ...], said: str) -> None:
    command, *options = arguments
    assert look(url, command, "two", *options).out == f"{said}\n"
    assert look(url, command, "two", *options, "--json").json == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("events", "nobody"),
        ("streams", "nobody"),
        ("streams", "nobody", "key"),
        ("messages", "nobody"),
    ],
)
def test_an_unknown_id_is_an_error(url: str, arguments: tuple[str, ...]) -> None:
    ran = perdure("workflow", *arguments, "--database", url)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "perdure: no workflow has the id 'nobody'\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("streams", "one", "--offset", "1"), "give its KEY too"),
        (("streams", "one", "--limit", "1"), "give its KEY too"),
        (("streams", "one", "ticks", "--offset", "-1"), "--offset"),
        (("messages", "one", "--limit", "0"), "--limit"),
    ],
)
def test_what_is_wrong_is_named(url: str, arguments: tuple[str, ...], named: str) -> None:
    ran = perdure("workflow", *arguments, "--database", url)
    assert ran.code == 2
    assert named in ran.err
