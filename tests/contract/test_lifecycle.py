"""`StoreLifecycle`: opening, closing and the schema, as far as every store has them."""

import asyncio

import pytest

from perdure.errors import DatabaseError, DatabaseUnavailable, SchemaMissing
from perdure.model.answer import AnswerKind
from perdure.model.wire import SCHEMA_VERSION
from perdure.ports.capabilities import Capabilities
from tests.support import rows
from tests.support.database import MovableClock, build_store, unreachable
from tests.support.store import Process, Site, kinds


async def test_building_a_store_touches_nothing(database_url: str) -> None:
    """“A store is built without touching the database”."""
    store = build_store(database_url, "app", MovableClock())
    await store.close()


async def test_closing_is_safe_at_any_time(database_url: str) -> None:
    """“Close every connection; safe to call twice and after a failed `open`”."""
    store = build_store(database_url, "app", MovableClock())
    await store.migrate()
    await store.open()
    await store.close()
    await store.close()


async def test_an_unreachable_database_is_said_at_once(site: Site) -> None:
    """“Connect. Raises `DatabaseUnavailable` at once if the database cannot be reached”."""
    url = unreachable(site.kind)
    if url is None:
        return
    store = build_store(url, "app", MovableClock())
    with pytest.raises(DatabaseUnavailable):
        await store.open()
    await store.close()
    await store.close()


async def test_what_a_store_can_do_is_constant(site: Site) -> None:
    """“What this store can do; constant after `open`”."""
    store = await site.store()
    first = store.capabilities
    assert isinstance(first, Capabilities)
    assert store.capabilities == first
    assert first.max_batch >= 1
    assert first.listen == (site.kind != "memory")


async def test_a_schema_is_made_once(shared_database_url: str) -> None:
    """“Create or converge the shared schema and our own tables. Needs no `open`. Idempotent”."""
    store = build_store(shared_database_url, "app", MovableClock())
    planned = await store.plan_migration()
    with pytest.raises(SchemaMissing):
        await store.check_schema()
    made = await store.migrate()
    assert (made.before, made.after) == (None, SCHEMA_VERSION)
    assert made.statements
    assert planned == made
    await store.check_schema()
    again = await store.migrate()
    assert (again.before, again.after, again.statements) == (SCHEMA_VERSION, SCHEMA_VERSION, ())
    await store.close()


async def test_planning_does_nothing(shared_database_url: str) -> None:
    """“What `migrate` would do now, done nowhere”."""
    store = build_store(shared_database_url, "app", MovableClock())
    assert await store.plan_migration() == await store.plan_migration()
    with pytest.raises(SchemaMissing):
        await store.check_schema()
    await store.close()


@pytest.mark.timeout(180)
async def test_twenty_migrations_at_once(shared_database_url: str) -> None:
    """“Idempotent, safe when twenty processes do it at once”."""
    stores = [build_store(shared_database_url, "app", MovableClock()) for _ in range(20)]
    reports = await asyncio.gather(*(store.migrate() for store in stores))
    assert {report.after for report in reports} == {SCHEMA_VERSION}
    await stores[0].check_schema()
    for store in stores:
        await store.close()


async def test_a_closed_store_says_so(site: Site) -> None:
    """“Every method raises only `perdure.errors.DatabaseError` kinds for trouble with the
    database”."""
    store = await site.store()
    await store.close()
    with pytest.raises(DatabaseError):
        await store.now_ms()


async def test_two_stores_see_each_others_writes(site: Site, me: Process) -> None:
    """“A system database as the engine sees it”: what one has committed another reads."""
    other = await site.process()
    run = await me.running()
    assert (await other.store.lost([rows.fence_of(run)])) == []
    assert kinds(await other.store.record([rows.checkpoint(run)])) == [AnswerKind.WRITTEN]
    assert len((await me.store.history([run.workflow_id]))[run.workflow_id]) == 1
