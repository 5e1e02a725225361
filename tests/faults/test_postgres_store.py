"""The Postgres store when its server or the way to it fails: an error at once, then as before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from msgspec import structs

from perdure.errors import ConfigurationError, DatabaseRejected, DatabaseUnavailable
from perdure.model.answer import AnswerKind
from perdure.store.postgres import PostgresSettings, PostgresStore
from perdure.store.postgres.database import Database
from tests.support import rows
from tests.support.database import MovableClock, PostgresDatabase, apart, migrate
from tests.support.postgres import PostgresServer
from tests.support.proxy import FaultProxy
from tests.support.store import Process, Site, cancel, kinds, open_site
from tests.support.waiting import eventually

WRITTEN = AnswerKind.WRITTEN


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module's own, with the schema in its own database."""
    with PostgresServer() as started:
        apart(migrate(started.dsn))
        yield started


@pytest.fixture
async def database(server: PostgresServer) -> AsyncIterator[PostgresDatabase]:
    await asyncio.to_thread(server.start)
    database = PostgresDatabase(server.dsn)
    await database.clear()
    yield database
    database.close()


@pytest.fixture
async def site(database: PostgresDatabase) -> AsyncIterator[Site]:
    async with open_site(database) as opened:
        yield opened


@pytest.fixture
async def proxy(database: PostgresDatabase) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(database.url) as opened:
        yield opened


def settings(url: str) -> PostgresSettings:
    return PostgresSettings(url=url, application_name="app")


async def opened(chosen: PostgresSettings) -> PostgresStore:
    store = PostgresStore(chosen, MovableClock())
    await store.open()
    return store


async def answers(store: PostgresStore) -> bool:
    """Whether it does before its deadline, which may be short for a busy machine."""
    with suppress(DatabaseUnavailable):
        return await store.now_ms() > 0
    return False


async def test_all_connections_heal_after_a_restart(
    site: Site, me: Process, server: PostgresServer
) -> None:
    run = await me.running()
    await me.store.record([rows.checkpoint(run)])
    await asyncio.to_thread(server.stop, "immediate")
    for call in (
        lambda: me.start(rows.direct()),
        lambda: me.store.record([rows.checkpoint(run, 2)]),
        lambda: me.store.finish([rows.finish(run)]),
        me.claim,
        me.store.now_ms,
        me.beat,
    ):
        with pytest.raises(DatabaseUnavailable):
            await call()
    await asyncio.to_thread(server.start)
    assert kinds(await me.start(rows.direct())) == [WRITTEN]
    assert kinds(await me.store.record([rows.checkpoint(run, 2)])) == [WRITTEN]
    assert kinds(await me.store.finish([rows.finish(run)])) == [WRITTEN]
    assert await me.claim() == []
    assert await me.store.now_ms() > 0
    with pytest.raises(DatabaseUnavailable):
        await me.beat()
    await site.backdoor.close()


async def test_a_silent_server_is_given_up_after_the_deadline(
    database: PostgresDatabase, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.store.postgres.database._MARGIN_S", 0.1)
    store = await opened(replace(settings(proxy.url(database.url)), statement_timeout_s=0.4))
    try:
        await eventually(lambda: answers(store))
        proxy.black_hole()
        with pytest.raises(DatabaseUnavailable):
            await store.now_ms()
        proxy.restore()
        await eventually(lambda: answers(store))
    finally:
        await store.close()


async def test_a_lock_held_too_long_ends_the_statement_on_the_server(
    site: Site, me: Process, database: PostgresDatabase
) -> None:
    run = await me.running()
    store = await opened(replace(settings(database.url), statement_timeout_s=0.3))
    try:
        lock = "SELECT 1 FROM workflow_status WHERE workflow_uuid = ? FOR UPDATE"
        async with site.postgres.transaction(lock, run.workflow_id):
            with pytest.raises(DatabaseUnavailable, match="57014"):
                await cancel(store, [run.workflow_id])

        async def is_cancelled() -> bool:
            with suppress(DatabaseUnavailable):
                return await cancel(store, [run.workflow_id]) == [run.workflow_id]
            return False

        await eventually(is_cancelled)
    finally:
        await store.close()


async def test_a_cancelled_call_leaves_its_connection_usable(site: Site, me: Process) -> None:
    run = await me.running()
    lock = "SELECT 1 FROM perdure.leases WHERE boot_id = ? FOR UPDATE"
    async with site.postgres.transaction(lock, me.boot):
        waiting = asyncio.create_task(me.start(rows.direct()))
        await eventually(lambda: _waits(site))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert kinds(await me.start(rows.direct())) == [WRITTEN]
    assert kinds(await me.store.record([rows.checkpoint(run)])) == [WRITTEN]


async def _waits(site: Site) -> bool:
    return bool(await site.backdoor.rows("SELECT 1 FROM pg_locks WHERE NOT granted"))


async def test_a_standby_in_the_primarys_place_is_left_for_the_next_connection(
    site: Site, me: Process
) -> None:
    run = await me.running()
    read_only = "ALTER DATABASE postgres SET default_transaction_read_only TO {}"
    await site.backdoor.run(read_only.format("on"))
    try:
        store = await site.store()
        with pytest.raises(DatabaseUnavailable, match="25006"):
            await store.record([rows.checkpoint(run)])
    finally:
        await site.backdoor.run("SET default_transaction_read_only TO off")
        await site.backdoor.run(read_only.format("off"))
    assert kinds(await store.record([rows.checkpoint(run)])) == [WRITTEN]


async def test_who_writes_does_not_read_from_a_standby(me: Process, server: PostgresServer) -> None:
    """A session that only reads would never be told that it shows what was."""
    run = await me.running()
    standby = server.root / "data" / "standby.signal"
    await asyncio.to_thread(server.stop, "fast")
    standby.touch()
    await asyncio.to_thread(server.start)
    try:
        with pytest.raises(DatabaseUnavailable, match="primary"):
            await me.store.history([run.workflow_id])
    finally:
        await asyncio.to_thread(server.stop, "fast")
        standby.unlink()
        await asyncio.to_thread(server.start)
    assert await me.store.history([run.workflow_id]) == {}


async def test_a_closed_store_says_so(database: PostgresDatabase) -> None:
    store = PostgresStore(settings(database.url), MovableClock())
    with pytest.raises(DatabaseUnavailable, match="not open"):
        await store.now_ms()
    await store.open()
    await store.close()
    await store.close()
    for call in (store.now_ms, lambda: store.history(["x"])):
        with pytest.raises(DatabaseUnavailable, match="not open"):
            await call()


async def test_closing_ends_what_is_under_way(site: Site, me: Process) -> None:
    store = await site.store()
    lock = "SELECT 1 FROM perdure.leases WHERE boot_id = ? FOR UPDATE"
    async with site.postgres.transaction(lock, me.boot):
        waiting = asyncio.create_task(store.start(rows.starts(rows.direct()), me.executor))
        await eventually(lambda: _waits(site))
        await store.close()
        with pytest.raises(DatabaseUnavailable):
            await waiting


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://nobody@127.0.0.1:1/nothing", DatabaseUnavailable),
        ("postgresql://user@no-such-host.invalid/x", DatabaseUnavailable),
        ("postgresql://user@127.0.0.1/x?sslmode=nonsense", ConfigurationError),
    ],
)
async def test_what_cannot_be_reached_is_said_at_once(url: str, expected: type[Exception]) -> None:
    with pytest.raises(expected):
        await opened(settings(url))


async def test_a_wrong_password_and_a_missing_database_are_no_fault_of_a_statement(
    database: PostgresDatabase,
) -> None:
    for url in (database.url.replace(":", ":wrong", 2), f"{database.url}_missing"):
        with pytest.raises(DatabaseUnavailable, match="cannot connect"):
            await opened(settings(url))


async def test_sessions_are_bounded_and_commit_as_the_server_says(
    site: Site, me: Process, database: PostgresDatabase
) -> None:
    await me.running()

    async def are_three_and_idle() -> bool:
        found = await site.backdoor.rows(
            "SELECT state FROM pg_stat_activity WHERE datname = 'postgres'"
            " AND application_name = 'perdure'"
        )
        # One for starts, one for the rest, one for heartbeats.
        return [row["state"] for row in found] == ["idle"] * 3

    # Those of the test before may not have ended yet.
    await eventually(are_three_and_idle)
    asked = {
        "synchronous_commit": "on",
        "statement_timeout": "30s",
        "idle_in_transaction_session_timeout": "30s",
        "default_transaction_isolation": "read committed",
    }
    assert await session(settings(database.url), asked) == asked


async def session(chosen: PostgresSettings, names: Iterable[str]) -> dict[str, str]:
    """What these parameters are in a connection of a store."""
    inside = Database(chosen, MovableClock())
    await inside.open()
    try:
        return {name: (await inside.fetch_text(f"SHOW {name}"))[0][0] for name in names}
    finally:
        await inside.close()


async def test_behind_a_pooler_nothing_is_prepared_nor_set(database: PostgresDatabase) -> None:
    pooled = replace(settings(database.url), pooled=True, pool_size=1)
    assert await session(pooled, ["statement_timeout", "jit"]) == {
        "statement_timeout": "0",
        "jit": "on",
    }
    inside = Database(pooled, MovableClock())
    await inside.open()
    try:
        for _ in range(3):
            await inside.fetch("now", 0)
        found = await inside.fetch_text("SELECT name FROM pg_prepared_statements")
    finally:
        await inside.close()
    assert [row["name"] for row in found if row["name"]] == []


async def test_behind_a_pooler_a_lease_stands_without_a_lock(
    site: Site, me: Process, database: PostgresDatabase
) -> None:
    run = await me.running()
    store = await opened(replace(settings(database.url), pooled=True))
    try:
        for step_id in (1, 2, 3):
            assert kinds(await store.record([rows.checkpoint(run, step_id)])) == [WRITTEN]
        link = store.heartbeat_link()
        boot = rows.boot_id()
        lease = structs.replace(me.lease, boot_id=boot, executor_id=rows.executor_of(boot))
        assert not await link.open(lease)
        assert (await link.beat(lease, (), ())).held
        await link.close()
    finally:
        await store.close()


async def test_a_value_no_column_takes_is_refused(me: Process) -> None:
    run = await me.running()
    good = rows.checkpoint(run, 1)
    for bad in (
        good._replace(step_id=2**31),
        good._replace(completed_at_ms=2**63),
        good._replace(output="a\x00b"),
        good._replace(output="\ud800"),
    ):
        with pytest.raises(DatabaseRejected):
            await me.store.record([bad])
        with pytest.raises(DatabaseRejected):
            await me.store.record([rows.checkpoint(run, number) for number in range(2, 20)] + [bad])
    assert await me.store.history([run.workflow_id]) == {}
