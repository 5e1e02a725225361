"""The schema we make on Postgres is the shared one, whatever it is made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.store.postgres import schema
from tests.support.postgres import Databases
from tests.support.reference import launch_dbos, launch_typescript
from tests.support.schemas import (
    as_known,
    connected,
    connector,
    golden,
    make_postgres_oldest,
    postgres_facts,
)

GOLDEN = golden("postgres")


async def test_a_new_database_has_the_shared_schema(postgres_url: str) -> None:
    report = await schema.migrate(connector(postgres_url), "dbos")
    assert (report.before, report.after) == (None, 125)
    assert as_known(await postgres_facts(postgres_url), GOLDEN) == GOLDEN


async def test_a_new_database_is_what_dbos_makes(postgres_url: str, dbos_url: str) -> None:
    await schema.migrate(connector(postgres_url), "dbos")
    assert await postgres_facts(postgres_url) == await postgres_facts(dbos_url)


async def test_a_database_of_dbos_is_left_as_it_is(dbos_url: str) -> None:
    before = await postgres_facts(dbos_url)
    report = await schema.migrate(connector(dbos_url), "dbos")
    assert (report.before, report.after) == (125, 125)
    assert not [statement for statement in report.statements if '"dbos"' in statement]
    assert await postgres_facts(dbos_url) == before


async def test_dbos_finds_nothing_to_do_in_ours(postgres_url: str, dbos_python: Path) -> None:
    await schema.migrate(connector(postgres_url), "dbos")
    before = await postgres_facts(postgres_url)
    launch_dbos(dbos_python, postgres_url)
    assert await postgres_facts(postgres_url) == before
    assert not (await schema.migrate(connector(postgres_url), "dbos")).statements


async def test_a_database_of_dbos_without_notifications_stays_without_them(
    postgres_url: str, dbos_python: Path
) -> None:
    launch_dbos(dbos_python, postgres_url, listen=False)
    before = await postgres_facts(postgres_url)
    assert before["tables"]["notifications"]["triggers"] == []
    await schema.migrate(connector(postgres_url), "dbos")
    await schema.check(connector(postgres_url), "dbos")
    assert await postgres_facts(postgres_url) == before


async def test_a_database_of_the_typescript_sdk_is_converged(
    postgres_url: str, typescript_sdk: Path
) -> None:
    launch_typescript(typescript_sdk, postgres_url)
    before = await postgres_facts(postgres_url)
    assert before["versions"] == [123]
    report = await schema.migrate(connector(postgres_url), "dbos")
    assert (report.before, report.after) == (123, 125)
    after = await postgres_facts(postgres_url)
    assert as_known(after, GOLDEN) == GOLDEN
    before["versions"] = [125]
    before["tables"]["application_versions"]["indexes"] = after["tables"]["application_versions"][
        "indexes"
    ]
    assert after == before


async def test_the_committed_version_123_is_what_the_typescript_sdk_leaves(
    postgres_url: str, postgres_databases: Databases, typescript_sdk: Path
) -> None:
    await make_postgres_oldest(postgres_url)
    async with postgres_databases.fresh() as theirs:
        launch_typescript(typescript_sdk, theirs)
        assert await postgres_facts(postgres_url) == await postgres_facts(theirs)


async def test_version_123_is_converged_without_blocking(postgres_url: str) -> None:
    await make_postgres_oldest(postgres_url)
    report = await schema.migrate(connector(postgres_url), "dbos")
    shared = [statement for statement in report.statements if '"dbos"' in statement]
    assert [statement.split("\n")[0] for statement in shared] == [
        "CREATE INDEX CONCURRENTLY idx_application_versions_timestamp",
        'UPDATE "dbos".dbos_migrations SET version = 124 WHERE version < 124',
        "CREATE INDEX CONCURRENTLY idx_application_versions_owner_timestamp",
        'UPDATE "dbos".dbos_migrations SET version = 125 WHERE version < 125',
    ]
    assert as_known(await postgres_facts(postgres_url), GOLDEN) == GOLDEN


@pytest.mark.parametrize("made_by", ["us", "dbos"])
async def test_another_schema_name_makes_no_other_schema(
    postgres_url: str, dbos_python: Path, made_by: str
) -> None:
    if made_by == "dbos":
        launch_dbos(dbos_python, postgres_url, "team-a")
    await schema.migrate(connector(postgres_url), "team-a")
    assert as_known(await postgres_facts(postgres_url, "team-a"), GOLDEN) == GOLDEN


async def test_our_own_tables_stand_beside_the_shared_ones(postgres_url: str) -> None:
    await schema.migrate(connector(postgres_url), "dbos")
    own = (await postgres_facts(postgres_url, "perdure"))["tables"]
    columns = {column["name"]: column for column in own["leases"]["columns"]}
    assert set(own) == {"leases", "queue_settings", "rate_log", "schema_version", "stream_log"}
    assert list(columns) == [
        "boot_id",
        "executor_id",
        "application_name",
        "renewals",
        "renewed_at",
        "expires_at",
        "period_ms",
        "taken_at",
        "lock_key",
        "backend_pid",
        "server_started_at",
        "created_at",
        "serves",
    ]
    assert {name for name in columns if columns[name]["nullable"]} == {
        "taken_at",
        "lock_key",
        "backend_pid",
        "server_started_at",
        "serves",
    }


async def test_the_first_version_of_our_own_tables_is_converged(postgres_url: str) -> None:
    await schema.migrate(connector(postgres_url), "dbos")
    fresh = await postgres_facts(postgres_url, "perdure")
    async with connected(postgres_url) as connection:
        await connection.execute(
            "ALTER TABLE perdure.leases DROP COLUMN serves;"
            "DROP TABLE perdure.queue_settings, perdure.rate_log, perdure.stream_log;"
            "DELETE FROM perdure.schema_version WHERE version > 1;"
            "INSERT INTO perdure.leases (boot_id, executor_id, application_name, renewed_at,"
            " expires_at, period_ms, created_at) VALUES ('b', 'w/b', 'app', 1, 2, 1, 1)"
        )
        assert (await schema.migrate(connector(postgres_url), "dbos")).statements
        assert await postgres_facts(postgres_url, "perdure") == fresh
        assert await connection.fetchval("SELECT serves FROM perdure.leases") is None
        versions = await connection.fetch("SELECT version FROM perdure.schema_version ORDER BY 1")
    assert [row["version"] for row in versions] == [1, 2, 3]
