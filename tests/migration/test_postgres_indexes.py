"""What an installer makes of an index that is broken, under construction or already there."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from perdure.errors import DatabaseUnavailable
from perdure.store.postgres import schema
from tests.support.schemas import (
    as_known,
    connected,
    connector,
    golden,
    make_postgres_oldest,
    postgres_facts,
)
from tests.support.waiting import eventually

GOLDEN = golden("postgres")
INDEX = "dbos.idx_application_versions_timestamp"
BUILD = (
    "CREATE INDEX CONCURRENTLY idx_application_versions_timestamp "
    "ON dbos.application_versions (version_timestamp DESC)"
)
UNFINISHED = f"SELECT 1 FROM pg_index WHERE NOT indisvalid AND indexrelid = to_regclass('{INDEX}')"
JUDGED = ("SET LOCAL lock_timeout", "CREATE INDEX")
"""What an installer goes on with once it has judged a broken index: to drop it, or to leave it."""


async def test_an_index_left_broken_is_built_again(postgres_url: str) -> None:
    """As a build leaves it that was cut off."""
    await make_postgres_oldest(postgres_url)
    async with connected(postgres_url) as connection:
        await connection.execute(
            "CREATE INDEX idx_application_versions_timestamp "
            "ON dbos.application_versions (version_timestamp DESC);"
            "UPDATE pg_index SET indisvalid = false "
            "WHERE indexrelid = 'dbos.idx_application_versions_timestamp'::regclass"
        )
    report = await schema.migrate(connector(postgres_url), "dbos")
    assert [text for text in report.statements if "DROP" in text] == [
        'DROP INDEX IF EXISTS "dbos"."idx_application_versions_timestamp"'
    ]
    assert as_known(await postgres_facts(postgres_url), GOLDEN) == GOLDEN


async def test_an_index_that_somebody_is_building_is_left_alone(postgres_url: str) -> None:
    """It looks broken until it is finished; a slow transaction keeps it from being finished."""
    await make_postgres_oldest(postgres_url)
    async with connected(postgres_url) as slow, connected(postgres_url) as builder:
        transaction = slow.transaction(isolation="repeatable_read")
        await transaction.start()
        await slow.fetchval("SELECT count(*) FROM dbos.application_versions")
        building = asyncio.create_task(builder.execute(BUILD))
        async with connected(postgres_url) as watcher:
            await eventually(lambda: watcher.fetch(UNFINISHED))
            installing = asyncio.create_task(schema.migrate(connector(postgres_url), "dbos"))
            waiting = (
                "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) "
                "WHERE NOT granted AND pid <> $1 AND datname = current_database()"
            )
            await eventually(lambda: watcher.fetch(waiting, builder.get_server_pid()))
        await transaction.rollback()
        await building
        report = await installing
    assert not [text for text in report.statements if "idx_application_versions_timestamp" in text]
    assert not [text for text in report.statements if "DROP" in text]
    assert as_known(await postgres_facts(postgres_url), GOLDEN) == GOLDEN


async def test_an_index_that_becomes_whole_after_the_lock_is_free_is_left_alone(
    postgres_url: str,
) -> None:
    """A builder gives up its lock just before it commits, which may take a while."""
    await make_postgres_oldest(postgres_url)
    async with connected(postgres_url) as builder:
        await builder.execute(BUILD)
        mark = f"UPDATE pg_index SET indisvalid = $1 WHERE indexrelid = '{INDEX}'::regclass"
        await builder.execute(mark, False)
        commit = builder.transaction()
        await commit.start()
        await builder.execute(mark, True)

        class Judging(asyncpg.Connection):
            async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
                if builder.is_in_transaction() and query.startswith(JUDGED):
                    await commit.commit()
                return await super().execute(query, *args, timeout=timeout)

        async def connect() -> asyncpg.Connection[asyncpg.Record]:
            return await asyncpg.connect(postgres_url, connection_class=Judging)

        report = await schema.migrate(connect, "dbos")
    assert not [text for text in report.statements if "idx_application_versions_timestamp" in text]
    assert as_known(await postgres_facts(postgres_url), GOLDEN) == GOLDEN


async def test_a_build_that_does_not_end_says_what_to_do(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_postgres_oldest(postgres_url)
    async with connected(postgres_url) as slow, slow.transaction(isolation="repeatable_read"):
        await slow.fetchval("SELECT 1")
        with monkeypatch.context() as impatient:
            impatient.setattr(schema, "PATIENCE_S", 0.5)
            with pytest.raises(DatabaseUnavailable, match="backend_xmin"):
                await schema.migrate(connector(postgres_url), "dbos")
    report = await schema.migrate(connector(postgres_url), "dbos")
    assert (report.before, report.after) == (123, 125)
    assert as_known(await postgres_facts(postgres_url), GOLDEN) == GOLDEN


async def test_a_build_of_somebody_else_that_does_not_end_is_not_waited_for_longer(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session of a program that was killed while it waited builds on until it is done."""
    await make_postgres_oldest(postgres_url)
    async with connected(postgres_url) as slow, connected(postgres_url) as builder:
        transaction = slow.transaction(isolation="repeatable_read")
        await transaction.start()
        await slow.fetchval("SELECT 1")
        building = asyncio.create_task(builder.execute(BUILD))
        async with connected(postgres_url) as watcher:
            await eventually(lambda: watcher.fetch(UNFINISHED))
        with monkeypatch.context() as impatient:
            impatient.setattr(schema, "PATIENCE_S", 0.5)
            with pytest.raises(DatabaseUnavailable, match=r"LOCK TABLE.*killed.*backend_xmin"):
                await schema.migrate(connector(postgres_url), "dbos")
        await transaction.rollback()
        await building
    assert (await schema.migrate(connector(postgres_url), "dbos")).after == 125
    assert as_known(await postgres_facts(postgres_url), GOLDEN) == GOLDEN


async def test_a_migration_that_was_cut_off_goes_on_where_it_was(postgres_url: str) -> None:
    await make_postgres_oldest(postgres_url)
    async with connected(postgres_url) as connection:
        await connection.execute(
            "CREATE INDEX idx_application_versions_timestamp "
            "ON dbos.application_versions (version_timestamp DESC);"
            "UPDATE dbos.dbos_migrations SET version = 124"
        )
    report = await schema.migrate(connector(postgres_url), "dbos")
    online = [text for text in report.statements if text.startswith("CREATE INDEX CONCURRENTLY")]
    built = [text.split()[3] for text in online]
    assert built == ["idx_application_versions_owner_timestamp"]
    assert as_known(await postgres_facts(postgres_url), GOLDEN) == GOLDEN
