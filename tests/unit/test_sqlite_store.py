"""The store on a file as a whole: readers beside the writer, settings, opening and closing."""

import asyncio
import itertools
import logging
import os
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import DatabaseRejected, DatabaseUnavailable
from perdure.model.answer import AnswerKind
from perdure.model.workflow import Start
from perdure.store import tokens
from perdure.store.sqlite import SqliteSettings, SqliteStore, starts
from perdure.store.sqlite.connection import connect_file
from perdure.store.sqlite.readers import Readers
from tests.support import rows
from tests.support.database import MovableClock

LEASE = rows.lease()
FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def made(path: Path, **options: Any) -> SqliteStore:
    return SqliteStore(f"sqlite:///{path}", application_name="app", clock=MovableClock(), **options)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = made(tmp_path / "app.db", application_id="the-id")
    await opened.migrate()
    await opened.open()
    link = opened.heartbeat_link()
    await link.open(LEASE)
    yield opened
    await link.close()
    await opened.close()


async def started(store: SqliteStore, **fields: Any) -> str:
    item = rows.direct(**fields)
    (answer,) = await store.start([Start(item)], LEASE.executor_id)
    assert answer.kind is AnswerKind.WRITTEN
    return item.workflow_id


async def test_a_read_does_not_wait_for_a_write(store: SqliteStore, tmp_path: Path) -> None:
    workflow_id = await started(store)
    other = sqlite3.connect(tmp_path / "app.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM workflow_status")
    writing = asyncio.ensure_future(started(store))
    assert len(await store.list_workflows(rows.by_ids(rows.wid(workflow_id)))) == 1
    assert not writing.done()
    other.execute("ROLLBACK")
    await writing
    other.close()


async def test_a_store_can_be_opened_again(store: SqliteStore) -> None:
    workflow_id = await started(store)
    for _ in range(3):
        await store.close()
        with pytest.raises(DatabaseRejected, match="is not open"):
            await started(store)
        with pytest.raises(DatabaseRejected, match="is not open"):
            await store.settled([rows.wid(workflow_id)])
        await store.open()
        await store.open()
        await started(store)
    assert len(await store.list_workflows(rows.by_ids(rows.wid(workflow_id)))) == 1


async def test_closing_ends_every_thread(store: SqliteStore) -> None:
    await asyncio.gather(*(store.now_ms() for _ in range(10)), started(store))
    await store.close()
    assert [t.name for t in threading.enumerate() if t.name.startswith("perdure-sqlite")] == []


async def test_the_application_id_is_written(store: SqliteStore) -> None:
    (row,) = await store.list_workflows(rows.by_ids(rows.wid(await started(store))))
    assert row.application_id == "the-id"


async def test_another_process_after_a_fork_is_refused(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    with pytest.raises(DatabaseRejected, match="before this process was forked"):
        await started(store)
    with pytest.raises(DatabaseRejected, match="before this process was forked"):
        await store.now_ms()
    monkeypatch.undo()
    await started(store)


@pytest.mark.parametrize(
    ("synchronous", "number"), [("FULL", 2), ("NORMAL", 1), ("EXTRA", 3), (None, 2)]
)
async def test_commits_are_on_the_disk_unless_asked_otherwise(
    tmp_path: Path, synchronous: Any, number: int
) -> None:
    settings = SqliteSettings(synchronous=synchronous) if synchronous else SqliteSettings()
    connection = connect_file(tmp_path / "x.db", settings, busy_timeout_s=0, create=True)
    assert connection.rows("PRAGMA synchronous")[0][0] == number
    assert connection.rows("PRAGMA foreign_keys")[0][0] == 1
    connection.close()


async def test_a_read_out_of_time_is_given_up(tmp_path: Path) -> None:
    settings = SqliteSettings(statement_timeout_s=0.2)

    def connect() -> Any:
        return connect_file(tmp_path / "x.db", settings, busy_timeout_s=1, create=True)

    readers = Readers("db", connect, settings)
    with pytest.raises(DatabaseUnavailable, match="ran past its deadline"):
        await readers.run(lambda connection: connection.rows(FOREVER))
    assert (await readers.run(lambda connection: connection.rows("SELECT 1")))[0][0] == 1
    await readers.close()
    with pytest.raises(DatabaseRejected, match="is closed"):
        await readers.run(lambda connection: connection.rows("SELECT 1"))


async def test_an_old_library_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 30, 0))
    for url in (f"sqlite:///{tmp_path}/app.db", "memory:"):
        store = SqliteStore(url, application_name="app", clock=MovableClock())
        with pytest.raises(Exception, match=r"3\.34\.0 or newer is needed"):
            await store.open()


async def test_a_token_is_remembered_for_a_while(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_KEPT", 5)
    await store.register_queue(rows.QUEUE, rows.VERSION, lambda *_: rows.queue())
    await store.start([Start(rows.enqueued())], LEASE.executor_id)
    first = rows.claim(LEASE.executor_id)
    claimed = await store.claim(first)
    assert len(claimed) == 1
    for _ in range(4):
        await store.claim(rows.claim(LEASE.executor_id))
    assert await store.claim(first) == claimed


async def test_a_missing_schema_says_so_and_is_no_trouble_to_wait_for(tmp_path: Path) -> None:
    bare = made(tmp_path / "bare.db")
    await bare.open()
    with pytest.raises(DatabaseRejected, match="no such table"):
        await started(bare)
    await bare.close()


async def test_no_turnstile_is_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(95, "no locks here")

    caplog.set_level(logging.DEBUG, "perdure")
    monkeypatch.setattr(Path, "mkdir", refuse)
    store = made(tmp_path / "app.db")
    await store.migrate()
    await store.open()
    await store.register_version("v1")
    await store.close()
    assert "no turnstile" in caplog.text


async def waiting_since(store: SqliteStore, *names: str) -> list[int]:
    """When the workflows enqueued one call after the other were created."""
    for name in names:
        await store.start([Start(rows.enqueued(name))], LEASE.executor_id)
    listed = await store.list_workflows(rows.by_ids(*(rows.wid(name) for name in names)))
    created = {row.workflow_id: row.created_at_ms for row in listed}
    return [created[rows.wid(name)] for name in names]


async def test_calls_within_a_millisecond_are_told_apart(store: SqliteStore) -> None:
    created = await waiting_since(store, *(f"w-{number}" for number in range(200, 100, -1)))
    assert all(one < next_one for one, next_one in itertools.pairwise(created))
    assert created[-1] <= await store.now_ms() + starts.AHEAD_MS


async def test_calls_that_share_a_transaction_share_an_instant(store: SqliteStore) -> None:
    names = [f"w-{number}" for number in range(500)]
    await asyncio.gather(
        *(store.start([Start(rows.enqueued(name))], LEASE.executor_id) for name in names)
    )
    listed = await store.list_workflows(rows.by_ids(*(rows.wid(name) for name in names)))
    assert len({row.created_at_ms for row in listed}) < 250


async def test_a_row_from_the_future_moves_nobody(store: SqliteStore, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "app.db", isolation_level=None)
    other.execute(
        "INSERT INTO workflow_status (workflow_uuid, created_at, updated_at) VALUES (?, ?, 0)",
        ("future", await store.now_ms() + 3_600_000),
    )
    other.close()
    one, two = await waiting_since(store, "b", "a")
    assert one < two <= await store.now_ms() + starts.AHEAD_MS
