"""Whatever argument of a command is wrong, and in whichever way: a typed refusal, and no row.

`PERDURE_FUZZ` is how many calls are made with anything at all; by default few enough for every
commit.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import Client, Engine, NoForkPoint, Queue, step, workflow
from perdure.errors import SerializationError, UsageError, WorkflowError
from perdure.model.status import ACTIVE

EXAMPLES = int(os.environ.get("PERDURE_FUZZ", "40"))
REFUSALS = (UsageError, SerializationError, NoForkPoint)
BAD_TEXTS = ("", " ", "\t\n", "x" * 513, "a\x00b", "\ud800")
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - what is refused


def wrong(*values: Any) -> list[Any]:
    """These, and what is right for nothing."""
    return [*values, 0.5, b"b", object(), str]


TEXT = wrong(*BAD_TEXTS, 0, 1, False, True, [], ["b"], {})
IDS = wrong(*BAD_TEXTS, 0, True, ["b", ""], ["b", 0], ["b", None])
FLAG = wrong(0, 1, "", "yes", [], [1], {})
QUEUE = wrong(*BAD_TEXTS, 0, True, [], "never declared")
NUMBER = wrong(0, -1, "", "1", [], [1], False, True)
SPAN = ["", "1", b"", [], [1], {}, False, True, object(), str, -1, timedelta(-1), 10**400]
SPAN += [float("nan"), float("inf")]
INSTANT = wrong(NAIVE, 0, 1, "", "2026-01-01", [], timedelta(1))
POINT = wrong(*BAD_TEXTS, 0, -1, 2**31, 10**400, None, True, [], [1], {}, "never ran")
KWARGS = wrong(0, 1, "", "b", [], ["b"], False, {1: 2}, {"b": object()})
OBJECT = [*KWARGS, {"b": "\ud800"}, {"b": ["\x00"]}]
PAIRS = wrong(0, "", "b", [], ["b"], False, {1: "b"}, {"b": 1}, {"": "b"}, {"b": ""})
CHOICE = wrong(0, 1, "", "sometimes", [], ["b"], {}, False, True)
VERSION = wrong(*BAD_TEXTS, 0, True, [], "never registered")
ROLES = wrong(0, "", "b", [0], [""], ["b", None], {}, False)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates(),
    lambda parts: st.lists(parts) | st.sets(st.text()) | st.dictionaries(st.text(), parts),
    max_leaves=3,
)
PLACE = {"queue": QUEUE, "partition_key": TEXT, "version": VERSION}
UNKNOWN = {"no_such_option": [0]}


class Case(NamedTuple):
    """A call with arguments that are right, and what is wrong for each."""

    method: str
    right: dict[str, Any]
    wrong: dict[str, list[Any]]


CASES = [
    Case("cancel", {"ids": "none"}, {"ids": IDS, "children": FLAG}),
    Case("resume", {"ids": "w"}, {"ids": IDS, "queue": QUEUE}),
    Case(
        "fork",
        {"workflow_id": "w", "timeout": 5},
        {
            **PLACE,
            **UNKNOWN,
            "workflow_id": TEXT,
            "point": POINT,
            "id": TEXT,
            "timeout": [*SPAN, 0],
            "children": PAIRS,
        },
    ),
    Case("fork_many", {"ids": ["w"]}, {"ids": [*IDS, "w"], "fork_ids": [*IDS, []], "point": POINT}),
    Case("rewind", {"workflow_id": "w"}, {**PLACE, **UNKNOWN, "workflow_id": TEXT, "point": POINT}),
    Case("delete", {"ids": "none"}, {"ids": IDS, "children": FLAG}),
    Case("set_delay", {"ids": "none", "delay": 5}, {"ids": IDS, "delay": SPAN, "until": INSTANT}),
    Case("set_delay", {"ids": "none", "until": datetime.now().astimezone()}, {"until": INSTANT}),
    Case(
        "set_attributes",
        {"workflow_id": "w", "attributes": {}},
        {"workflow_id": TEXT, "attributes": OBJECT, "merge": FLAG},
    ),
    Case("export", {"ids": "w"}, {"ids": IDS, "children": FLAG}),
    Case(
        "purge",
        {"older_than": 10**6},
        {
            **UNKNOWN,
            "older_than": SPAN,
            "keep": NUMBER,
            "limit": NUMBER,
            "dry_run": FLAG,
            "states": wrong(*ACTIVE, "", [], [0], 0, {}),
            "names": wrong(*BAD_TEXTS[-2:], [], [0], 0, {}),
            "batch": [*NUMBER, 10_001],
        },
    ),
    Case(
        "enqueue",
        {"name": "ship", "queue": "line"},
        {
            **PLACE,
            **UNKNOWN,
            "name": TEXT,
            "id": TEXT,
            "id_policy": CHOICE,
            "args": wrong(0, "", "b", {}, {"b"}, [object()], False),
            "kwargs": KWARGS,
            "class_name": TEXT[1:],
            "config_name": TEXT[1:],
            "timeout": [*SPAN, 0],
            "deadline": INSTANT,
            "attributes": OBJECT,
            "authenticated_user": TEXT,
            "authenticated_roles": ROLES,
            "assumed_role": TEXT,
            "serializer": CHOICE,
            "priority": [*NUMBER, 2**31],
            "delay": SPAN,
            "dedup_id": TEXT,
            "dedup_policy": CHOICE,
            "application": TEXT,
            "debounce": [*CHOICE, "key"],
            "allow_unknown_queue": FLAG,
            "allow_unknown_version": FLAG,
        },
    ),
    Case("enqueue", {"name": "ship", "queue": "line", "dedup_id": "b"}, {"dedup_policy": CHOICE}),
    Case(
        "enqueue",
        {"name": "ship", "queue": "line", "authenticated_user": "b", "authenticated_roles": ["c"]},
        {"authenticated_user": [*TEXT, None], "authenticated_roles": ROLES, "assumed_role": TEXT},
    ),
]


UNSTORABLE = ("a\x00b", "\ud800")
SEVERAL = wrong(0, "", "w", ["w"], [None], [object()], False)
WAITED_FOR = [*IDS, "w"]
TALK = [
    Case("enqueue_many", {"submissions": [], "queue": "line"}, {"submissions": SEVERAL}),
    Case("join", {"workflows": ["w"]}, {"workflows": WAITED_FOR}),
    Case("select_workflow", {"workflows": ["w"]}, {"workflows": [*WAITED_FOR, []]}),
    Case(
        "send",
        {"destination": "w", "message": 1},
        {
            "destination": TEXT,
            "message": [object(), {"b": object()}],
            "topic": [*UNSTORABLE, *TEXT[len(BAD_TEXTS) :]],
            "idempotency_key": TEXT,
            "to_forks": FLAG,
        },
    ),
    Case("send_bulk", {"messages": []}, {"messages": SEVERAL, "to_forks": FLAG}),
    Case(
        "get_event",
        {"workflow_id": "w", "key": "k", "timeout": 0},
        {"workflow_id": TEXT, "key": TEXT, "timeout": SPAN},
    ),
    Case("get_events", {"workflow_id": "w"}, {"workflow_id": TEXT}),
    Case(
        "rename_application",
        {"old": "old-shop", "new": "new-shop"},
        {
            "old": [*UNSTORABLE, "", *TEXT[len(BAD_TEXTS) :]],
            "new": TEXT,
            "unclaimed": FLAG,
            "batch": NUMBER[:-1],
        },
    ),
]
"""What a client says and waits for. Any id may be waited for, so that not anything is tried."""


@step
async def pack() -> None:
    """What is recorded of the workflow that commands are about."""


@workflow
async def ship() -> None:
    """What commands are about."""
    await pack()


class Counter:
    """A client at a database in which nobody else writes, and what has been written there."""

    def __init__(self, path: Path) -> None:
        self.client = Client(f"sqlite:///{path}", name="app")
        self._watch = sqlite3.connect(path)

    async def call(self, case: Case, **changed: Any) -> Any:
        """Make the call, with these arguments instead."""
        at = self.client if hasattr(self.client, case.method) else self.client.workflows
        return await getattr(at, case.method)(**{**case.right, **changed})

    def written(self) -> int:
        """Changes with every transaction of somebody else that wrote."""
        (version,) = self._watch.execute("PRAGMA data_version").fetchone()
        return int(version)

    async def close(self) -> None:
        """Give everything up."""
        self._watch.close()
        await self.client.close()


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One loop for all calls."""
    with asyncio.Runner() as runner:
        yield runner


@contextmanager
def opened(runner: asyncio.Runner, folder: Path) -> Iterator[Counter]:
    """A database with one workflow that has ended, and nobody who runs any."""
    path = folder / "shop.db"

    async def prepare() -> Counter:
        async with Engine(f"sqlite:///{path}", workflows=[ship], queues=[Queue("line")]) as engine:
            await ship.options(id="w", engine=engine)()
        counter = Counter(path)
        await counter.client.open()
        return counter

    counter = runner.run(prepare())
    try:
        yield counter
    finally:
        runner.run(counter.close())


@pytest.fixture(scope="module")
def untouched(
    runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Counter]:
    """For calls of which none is carried out."""
    with opened(runner, tmp_path_factory.mktemp("untouched")) as counter:
        yield counter


@pytest.fixture(scope="module")
def touched(runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    """For calls of which some are."""
    with opened(runner, tmp_path_factory.mktemp("touched")) as counter:
        yield counter


@pytest.mark.parametrize(
    ("case", "argument"),
    [(case, argument) for case in [*CASES, *TALK] for argument in case.wrong],
    ids=lambda part: part if isinstance(part, str) else part.method,
)
def test_a_wrong_argument_is_a_typed_refusal_before_a_row_is_written(
    runner: asyncio.Runner, untouched: Counter, case: Case, argument: str
) -> None:
    before = untouched.written()
    for value in case.wrong[argument]:
        with pytest.raises(REFUSALS):
            runner.run(untouched.call(case, **{argument: value}))
    assert untouched.written() == before


def test_right_arguments_are_not_refused(runner: asyncio.Runner, tmp_path: Path) -> None:
    """So that above it is the wrong one that is."""
    with opened(runner, tmp_path) as counter:
        for case in [*TALK, *CASES]:
            runner.run(counter.call(case))


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(CASES), st.data())
def test_whatever_is_given_is_done_or_refused(
    runner: asyncio.Runner, touched: Counter, case: Case, data: st.DataObject
) -> None:
    several = st.dictionaries(st.sampled_from([*case.wrong]), ANYTHING, min_size=1, max_size=3)
    before = touched.written()
    try:
        runner.run(touched.call(case, **data.draw(several)))
    except (*REFUSALS, WorkflowError):
        assert touched.written() == before
