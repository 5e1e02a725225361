"""A start that fails says why, leaves nothing running, and can be tried again."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from perdure import ConfigurationError, Engine
from perdure.errors import (
    DatabaseError,
    DatabaseRejected,
    DatabaseUnavailable,
    VersionOwnedByAnother,
)
from tests.support.backdoor import SQLITE_PREFIX
from tests.support.engines import Lab, our_threads
from tests.support.waiting import eventually
from tests.support.workflows import child


@pytest.mark.parametrize("method", ["migrate", "open", "now_ms", "register_version"])
async def test_an_engine_that_cannot_start_leaves_nothing_running_and_can_be_started_again(
    shared_lab: Lab, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the start fails; the error is what went wrong."""
    tasks, threads = asyncio.all_tasks(), our_threads()
    wrap, failing = shared_lab.wrap, [True]

    def wrap_failing(store: Any) -> Any:
        watched = wrap(store)
        if failing:
            failing.clear()
            watched.fail(method, DatabaseRejected("not today"))
        return watched

    monkeypatch.setattr(shared_lab, "wrap", wrap_failing)
    engine = shared_lab.built(child)
    with pytest.raises(DatabaseError, match="not today"):
        await engine.start()
    assert not engine.is_running
    assert asyncio.all_tasks() == tasks
    await eventually(lambda: our_threads() <= threads)
    await engine.start()
    assert await child("x") == "X"


async def test_an_engine_whose_heartbeat_cannot_begin_does_not_start(
    shared_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease precedes every row; without one nothing runs."""
    tasks = asyncio.all_tasks()
    wrap = shared_lab.wrap

    class Dead:
        def when_lost(self, _: Any) -> None: ...

        def listen(self, _: Any) -> None: ...

        async def open(self, *_: Any) -> bool:
            raise DatabaseUnavailable("no lease today")

        async def close(self) -> None: ...

    def wrap_dead(store: Any) -> Any:
        watched = wrap(store)
        monkeypatch.setattr(watched, "heartbeat_link", Dead, raising=False)
        return watched

    monkeypatch.setattr(shared_lab, "wrap", wrap_dead)
    engine = shared_lab.built(child)
    with pytest.raises(DatabaseUnavailable, match="no lease today"):
        await engine.start()
    assert asyncio.all_tasks() == tasks


async def test_a_cancelled_start_leaves_nothing_running(shared_lab: Lab) -> None:
    """As any other failure of it."""
    tasks, threads = asyncio.all_tasks(), our_threads()
    for turns in (1, 3, 10, 30, 100):
        engine = shared_lab.built(child)
        starting = asyncio.ensure_future(engine.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        await engine.stop()
        assert asyncio.all_tasks() == tasks
    await eventually(lambda: our_threads() <= threads)


async def test_a_version_of_another_application_ends_the_start(shared_lab: Lab) -> None:
    """The message names the holder; the first application goes on."""
    await shared_lab.start(child, name="shop", version="v1")
    other = shared_lab.built(child, name="bank", version="v1")
    with pytest.raises(VersionOwnedByAnother, match="'v1' is registered by application 'shop'"):
        await other.start()
    assert await child("x") == "X"


async def test_starting_without_a_schema_and_without_migrating_says_what_to_do(
    tmp_path: Path,
) -> None:
    """Nothing is created by an engine that may not migrate."""
    path = tmp_path / "empty.db"
    sqlite3.connect(path).close()
    engine = Engine(f"{SQLITE_PREFIX}{path}", workflows=[child], migrate=False)
    with pytest.raises(DatabaseError, match="migrate"):
        await engine.start()
    assert not engine.is_running


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("", {}, "DBOS_SYSTEM_DATABASE_URL"),
        ("memory:", {"name": "Shop"}, "lower-case"),
        ("memory:", {"name": "ab"}, "3 to 256"),
        ("memory:", {"version": " "}, "version"),
        ("memory:", {"executor_id": "a/b"}, "'/'"),
        ("memory:", {"schema": ""}, "schema"),
        ("memory:", {"threads": 0}, "threads"),
        ("memory:", {"heartbeat": 0}, "heartbeat"),
        ("memory:", {"heartbeat": 1, "lease": 2}, "three heartbeats"),
        ("memory:", {"grace": -1}, "grace"),
        ("memory:", {"max_value_bytes": 0}, "max_value_bytes"),
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused_before_connecting(
    url: str, options: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the setting."""
    monkeypatch.delenv("DBOS_SYSTEM_DATABASE_URL", raising=False)
    with pytest.raises(ConfigurationError, match=words):
        Engine(url, workflows=[child], **options)


async def test_a_url_of_an_unknown_kind_is_refused_at_the_start() -> None:
    """Naming the kinds there are."""
    engine = Engine("mysql://localhost/x", workflows=[child])
    with pytest.raises(ConfigurationError, match=r"'mysql'.*postgresql://.*sqlite:///.*memory:"):
        await engine.start()
    assert not engine.is_running
