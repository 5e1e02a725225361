"""The one lock of a SQLite file, held by somebody else: writes wait for it, reads do not."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from perdure.model.answer import AnswerKind
from tests.support import rows
from tests.support.backdoor import SQLITE_PREFIX, connect_file
from tests.support.store import Process, Site, kinds


@pytest.fixture(params=["sqlite"])
def site_kind(request: pytest.FixtureRequest) -> str:
    """Only a file has one lock for all."""
    kind: str = request.param
    return kind


@contextmanager
def locked(site: Site) -> Iterator[None]:
    """Another program is in the middle of a write."""
    connection = connect_file(site.database.url.removeprefix(SQLITE_PREFIX))
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


async def test_a_write_waits_for_the_file(site: Site, me: Process) -> None:
    """“*busy*: the run's row is locked by someone”: a file has no row locks, so nothing is busy
    and the call answers when the file is free."""
    run = await me.running()
    with locked(site):
        recording = asyncio.create_task(me.store.record([rows.checkpoint(run)]))
        starting = asyncio.create_task(me.start(rows.direct()))
        # Each of these reads takes a thread's round trip, so the writes have had their chance.
        for _ in range(20):
            await me.store.settled([run.workflow_id])
        assert not recording.done()
        assert not starting.done()
    assert kinds(await recording) == [AnswerKind.WRITTEN]
    assert kinds(await starting) == [AnswerKind.WRITTEN]


@pytest.mark.parametrize("reader", ["settled", "list", "history", "owned", "lost", "now"])
async def test_a_read_does_not_wait_for_a_writer(site: Site, me: Process, reader: str) -> None:
    """“Plain reads; none takes a lock”."""
    run = await me.running()
    reads = {
        "settled": lambda: me.store.settled([run.workflow_id]),
        "list": lambda: me.store.list_workflows(rows.by_ids(run.workflow_id)),
        "history": lambda: me.store.history([run.workflow_id]),
        "owned": lambda: me.store.owned(me.executor),
        "lost": lambda: me.store.lost([rows.fence_of(run)]),
        "now": me.store.now_ms,
    }
    with locked(site):
        await reads[reader]()
