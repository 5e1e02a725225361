"""The link on a file hears what others commit, and nothing it hears can hurt the heartbeat."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.model.workflow import Start
from perdure.ports.store.hints import TALK
from perdure.store.sqlite import SqliteStore
from perdure.store.sqlite.commit_watch import EVERY_S, LONGEST_LOOK_S
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.session import OwnSession
from perdure.store.sqlite.writer import Writer
from tests.support import rows
from tests.support.database import MovableClock
from tests.support.waiting import eventually

WORK = f"+{rows.QUEUE}"
HEARD = [WORK, TALK]
"""Sorted: which of the two is heard first is nobody's promise."""


class Ear:
    """A link with what it heard, and a count of its looks."""

    def __init__(self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lease = rows.lease(period_ms=3_600_000)
        self.link = store.heartbeat_link()
        self.link.listen(self.heard_next)
        self.heard: list[str] = []
        self.is_looking = True
        self.looks = 0
        self.error: Exception | None = None
        look = OwnSession.look

        def counted(session: OwnSession, work: Callable[[Connection], Any], limit_s: float) -> Any:
            self.looks += 1
            # A beat looks as well, and takes more time for it.
            is_blind = limit_s == LONGEST_LOOK_S and not self.is_looking
            return () if is_blind else look(session, work, limit_s)

        monkeypatch.setattr(OwnSession, "look", counted)

    def heard_next(self, hint: str) -> None:
        self.heard.append(hint)
        if self.error is not None:
            raise self.error

    async def open(self) -> None:
        await self.link.open(self.lease)

    async def beat(self) -> None:
        await self.link.beat(self.lease, (rows.QUEUE, "other"), (rows.KEY,))

    async def hears(self, count: int) -> None:
        await eventually(lambda: len(self.heard) >= count)

    async def looks_on(self, times: int = 3) -> None:
        """So many more looks have been taken."""
        wanted = self.looks + times
        await eventually(lambda: self.looks >= wanted)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(f"sqlite:///{folder}/app.db", application_name="app", clock=MovableClock())
    await store.migrate()
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """The store of the process that listens."""
    async with opened(tmp_path) as store:
        yield store


@pytest.fixture
async def store(own: SqliteStore, tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """That of another process."""
    del own
    async with opened(tmp_path) as other:
        yield other


@pytest.fixture
async def ear(
    own: SqliteStore, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Ear]:
    del store
    made = Ear(own, monkeypatch)
    await made.open()
    yield made
    await made.link.close()


async def enqueue(store: SqliteStore, ear: Ear, **fields: object) -> None:
    await store.start([Start(rows.enqueued(**fields))], ear.lease.executor_id)


async def test_an_enqueue_is_heard(store: SqliteStore, ear: Ear) -> None:
    await ear.beat()
    await ear.looks_on()
    assert ear.heard == []
    await enqueue(store, ear)
    await ear.hears(2)
    assert sorted(ear.heard) == HEARD


async def test_of_what_the_process_itself_commits_only_work_is_told(
    own: SqliteStore, store: SqliteStore, ear: Ear
) -> None:
    """Nobody here has to look for what was done here: whoever did it says so."""
    await ear.beat()
    await enqueue(own, ear)
    await ear.hears(1)
    await ear.looks_on()
    assert ear.heard == [WORK]
    await enqueue(store, ear)
    await ear.hears(3)
    assert sorted(ear.heard) == [WORK, *HEARD]


async def test_a_commit_between_those_of_the_process_is_told(
    own: SqliteStore, store: SqliteStore, ear: Ear
) -> None:
    """However many of its own come before the next look."""
    await ear.beat()
    for each in (own, store, own):
        await enqueue(each, ear, name="unregistered")
    await ear.hears(1)
    await ear.looks_on()
    assert set(ear.heard) == {TALK}


async def test_a_process_that_writes_all_the_time_hears_of_others_without_asking(
    own: SqliteStore, store: SqliteStore, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer sees it in passing."""
    asked: list[Writer] = []

    def noted(writer: Writer) -> asyncio.Future[None]:
        asked.append(writer)
        return asyncio.get_running_loop().create_future()

    monkeypatch.setattr(Writer, "look", noted)
    monkeypatch.setattr("perdure.store.sqlite.commit_watch.EVERY_S", 0.1)
    await enqueue(store, ear)
    await enqueue(own, ear)
    await ear.beat()
    # No look follows the first, between which and it nothing is written.
    monkeypatch.setattr("perdure.store.sqlite.commit_watch.EVERY_S", 3_600.0)
    await ear.hears(1)
    assert (ear.heard, asked) == ([TALK], [])


async def test_each_queue_with_work_is_named(store: SqliteStore, ear: Ear) -> None:
    await ear.beat()
    await enqueue(store, ear, queue_name="other")
    await ear.hears(2)
    assert sorted(ear.heard) == ["+other", TALK]


async def test_one_commit_is_heard_once(store: SqliteStore, ear: Ear) -> None:
    """Also where the work stays: what does not change says nothing more."""
    await ear.beat()
    await enqueue(store, ear)
    await ear.hears(2)
    await ear.looks_on(5)
    assert sorted(ear.heard) == HEARD


@pytest.mark.parametrize(
    "fields",
    [{"name": "unregistered"}, {"application_version": "v-other"}, {"queue_name": "third"}],
)
async def test_a_commit_without_work_for_this_process_names_no_queue(
    store: SqliteStore, ear: Ear, fields: dict[str, str]
) -> None:
    await ear.beat()
    await enqueue(store, ear, **fields)
    await ear.hears(1)
    await ear.looks_on(5)
    assert ear.heard == [TALK]


async def test_work_that_a_beat_has_seen_is_not_told_again(store: SqliteStore, ear: Ear) -> None:
    """Only that others committed, for what else they did no beat sees."""
    ear.is_looking = False
    await ear.beat()
    await enqueue(store, ear)
    await ear.beat()
    ear.is_looking = True
    await ear.hears(1)
    await ear.looks_on()
    assert ear.heard == [TALK]


async def test_nothing_is_watched_before_the_first_beat(store: SqliteStore, ear: Ear) -> None:
    looks = ear.looks
    await enqueue(store, ear)
    await asyncio.sleep(EVERY_S * 3)
    assert (ear.looks, ear.heard) == (looks, [])


async def test_a_closed_link_hears_nothing(store: SqliteStore, ear: Ear) -> None:
    await ear.beat()
    await ear.link.close()
    looks = ear.looks
    await enqueue(store, ear)
    await asyncio.sleep(EVERY_S * 3)
    assert (ear.looks, ear.heard) == (looks, [])


async def test_a_link_opened_again_hears(store: SqliteStore, ear: Ear) -> None:
    await ear.beat()
    await ear.open()
    await ear.beat()
    await enqueue(store, ear)
    await ear.hears(2)


async def test_trouble_is_left_to_the_next_beat(
    store: SqliteStore, ear: Ear, caplog: pytest.LogCaptureFixture
) -> None:
    """A callback that fails, here, as any other error would: the link lives, and hears again."""
    caplog.set_level(logging.DEBUG, "perdure")
    ear.error = RuntimeError("deaf")
    await ear.beat()
    await enqueue(store, ear)
    await eventually(lambda: "no hints from commits" in caplog.text)
    looks = ear.looks
    await asyncio.sleep(EVERY_S * 3)
    assert ear.looks == looks
    ear.error = None
    await ear.beat()
    await enqueue(store, ear)
    await ear.hears(2)


async def test_a_damaged_table_ends_no_link(store: SqliteStore, ear: Ear, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "app.db", isolation_level=None)
    await ear.beat()
    other.execute("ALTER TABLE application_versions RENAME TO elsewhere")
    await ear.looks_on(1)
    other.execute("ALTER TABLE elsewhere RENAME TO application_versions")
    other.close()
    await ear.beat()
    await enqueue(store, ear)
    await ear.hears(2)


async def test_a_look_that_takes_long_is_taken_less_often(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, ear: Ear
) -> None:
    """So that heartbeats keep their share of the loop."""
    slow: list[float] = []

    def walk(*_: object) -> tuple[str, ...]:
        begun_s = time.monotonic()
        # Busy, as a query is that walks over a large backlog.
        while time.monotonic() < begun_s + EVERY_S:
            pass
        slow.append(time.monotonic())
        return ()

    monkeypatch.setattr("perdure.store.sqlite.commit_watch.ready_queues", walk)
    await ear.beat()
    await enqueue(store, ear)
    await eventually(lambda: slow)
    await ear.looks_on(1)
    assert time.monotonic() - slow[0] > 5 * EVERY_S


async def test_in_memory_there_is_nobody_to_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore("memory:", application_name="app", clock=MovableClock())
    await store.migrate()
    await store.open()
    assert not store.capabilities.listen
    ear = Ear(store, monkeypatch)
    await ear.open()
    await ear.beat()
    await enqueue(store, ear)
    await asyncio.sleep(EVERY_S * 3)
    assert (ear.looks, ear.heard) == (0, [])
    await ear.link.close()
    await store.close()
