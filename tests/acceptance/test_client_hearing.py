"""Who waits through a client hears of what he waits for, and looks by himself but seldom."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from perdure import Client, Queue, set_event, workflow, write_stream
from perdure.engine import listening as listening_module
from perdure.errors import DatabaseUnavailable
from perdure.store.postgres import hints as hints_module
from perdure.store.postgres.link import PostgresHintLink
from tests.support.engines import Lab
from tests.support.talking import all_of, gate, never_polling, of, open_gate, until_wanted
from tests.support.waiting import eventually

LISTENERS = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE datname = current_database() AND query LIKE 'LISTEN%' AND pid <> pg_backend_pid()"
)


class CountedLink(PostgresHintLink):
    """Links that are open, how many were opened, and how often each was checked."""

    standing: ClassVar[set[CountedLink]] = set()
    opened: ClassVar[int] = 0

    async def open(self) -> None:
        await super().open()
        self.checks = 0
        CountedLink.standing.add(self)
        CountedLink.opened += 1

    async def check(self) -> None:
        await super().check()
        self.checks += 1

    async def close(self) -> None:
        CountedLink.standing.discard(self)
        await super().close()


@workflow(name="says what it is told to")
async def says(word: str) -> str:
    await gate(word)
    await set_event("word", word)
    await write_stream("words", word)
    return word


@pytest.fixture(autouse=True)
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    never_polling(monkeypatch)


@pytest.mark.parametrize("name", [None, "app", "another"])
async def test_all_that_is_waited_for_is_heard(shared_lab: Lab, name: str | None) -> None:
    """In the name of the application, of none or of another one."""
    lab, word = shared_lab, f"{shared_lab.kind} {name} is heard"
    engine = await lab.start(says)
    await says.options(id="w", engine=engine).start(word)
    async with Client(lab.url, name=name) as client:
        handle = client.handle("w", into=str)
        waits = [
            of(handle.result()),
            client.join(["w"]),
            client.get_event("w", "word", timeout=3_600),
            all_of(client.read_stream("w", "words")),
        ]
        waiting = [asyncio.ensure_future(each) for each in waits]
        await until_wanted(lab, engine, "w")
        open_gate(word)
        assert await asyncio.gather(*waiting) == [word, None, word, [word]]


async def test_what_is_enqueued_for_another_application_begins_at_once(
    postgres_lab: Lab,
) -> None:
    """Neither a heartbeat nor a poll of the queue is waited for, nor one for the result."""
    lab, word = postgres_lab, "for another"
    open_gate(word)
    options = {"base_polling_interval": 3_600, "max_polling_interval": 3_600}
    engine = await lab.start(says, queues=[Queue("q", **options)], heartbeat=1000, lease=10_000)
    await lab.until_queues_are_read()
    async with Client(lab.url, name="another") as client:
        handle = await client.enqueue(
            "says what it is told to", queue="q", args=(word,), application=engine.config.name
        )
        assert await handle == word


async def test_a_lost_connection_is_made_anew(
    postgres_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is waited for is said again, for it may have been lost as well."""
    monkeypatch.setattr(listening_module, "AFTER_TROUBLE_S", 0.01)
    lab, word = postgres_lab, "after a loss"
    engine = await lab.start(says)
    await says.options(id="w", engine=engine).start(word)

    async def is_lost(*_: object) -> None:
        raise DatabaseUnavailable("the network is down")

    async def is_listening() -> bool:
        return bool(await lab.rows(LISTENERS))

    async def is_anew() -> bool:
        now = await lab.rows(LISTENERS)
        return bool(now) and now != before

    async with Client(lab.url) as client:
        with monkeypatch.context() as cut:
            cut.setattr(hints_module.Hints, "announce", is_lost)
            waiting = asyncio.ensure_future(of(client.handle("w").result()))
            await eventually(is_listening)
        before = await lab.rows(LISTENERS)
        await lab.rows(f"SELECT pg_terminate_backend(pid) FROM ({LISTENERS}) AS l")
        await eventually(is_anew)
        await until_wanted(lab, engine, "w")
        open_gate(word)
        assert await waiting == word


async def test_the_connection_lasts_as_long_as_somebody_waits(
    postgres_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one however many wait; there is none before, and none some time after."""
    monkeypatch.setattr(listening_module, "CHECK_EVERY_S", 0.05)
    monkeypatch.setattr(hints_module, "PostgresHintLink", CountedLink)
    CountedLink.standing, CountedLink.opened = set(), 0
    async with Client(postgres_lab.url) as client:
        for turn in (1, 2):
            await client.workflows.list()
            assert not CountedLink.standing
            waiting = [asyncio.ensure_future(of(client.handle(f"{n}").result())) for n in range(20)]
            await eventually(lambda: any(link.checks > 2 for link in CountedLink.standing))
            assert (len(CountedLink.standing), CountedLink.opened) == (1, turn)
            for each in waiting:
                each.cancel()
            await asyncio.wait(waiting)
            await eventually(lambda: not CountedLink.standing)
