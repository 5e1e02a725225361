"""A database in memory is one for all threads and private to its store."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.errors import DatabaseRejected, SchemaMissing
from perdure.model.answer import AnswerKind
from perdure.model.workflow import Start
from perdure.store.sqlite import SqliteStore
from tests.support import rows
from tests.support.database import MovableClock

LEASE = rows.lease()


def names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    made = SqliteStore("memory:", application_name="app", clock=MovableClock())
    await made.migrate()
    await made.open()
    yield made
    await made.close()


async def started(store: SqliteStore) -> str:
    link = store.heartbeat_link()
    await link.open(LEASE)
    item = rows.direct()
    (answer,) = await store.start([Start(item)], LEASE.executor_id)
    assert answer.kind is AnswerKind.WRITTEN
    await link.close()
    return item.workflow_id


async def test_threads_share_one_database(store: SqliteStore) -> None:
    found: list[str] = []

    async def elsewhere() -> None:
        found.append(await started(store))
        found.extend(row.workflow_id for row in await store.list_workflows(rows.by_ids(*found)))

    threads = [threading.Thread(target=asyncio.run, args=(elsewhere(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    listed = await store.list_workflows(rows.by_ids(*set(found)))
    assert len(listed) == 4


async def test_two_stores_have_nothing_in_common(store: SqliteStore) -> None:
    other = SqliteStore("memory:", application_name="app", clock=MovableClock())
    await other.migrate()
    await other.open()
    workflow_id = await started(store)
    assert len(await store.list_workflows(rows.by_ids(workflow_id))) == 1
    assert await other.list_workflows(rows.by_ids(workflow_id)) == []
    await other.close()


async def test_the_schema_lasts_from_migrate_to_close(store: SqliteStore) -> None:
    await store.check_schema()
    await store.close()
    with pytest.raises(SchemaMissing):
        await store.check_schema()
    with pytest.raises(DatabaseRejected, match="not open"):
        await store.now_ms()
    await store.migrate()
    await store.open()
    await started(store)


async def test_nothing_is_written_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fresh = SqliteStore("memory:", application_name="app", clock=MovableClock())
    await fresh.migrate()
    await fresh.open()
    await started(fresh)
    await fresh.close()
    assert names(tmp_path) == []
