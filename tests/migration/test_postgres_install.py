"""How the schema gets onto a Postgres database: again, at once, in company, without rights."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from perdure.errors import (
    ConfigurationError,
    SchemaError,
    SchemaMissing,
    SchemaTooOld,
)
from perdure.store.identifiers import own_schema
from perdure.store.postgres import schema, schema_lock
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
INSTALLERS = 20


async def _version(url: str, recorded: int | None = None) -> int:
    async with connected(url) as connection:
        if recorded is not None:
            await connection.execute(f"UPDATE dbos.dbos_migrations SET version = {recorded}")
        version: int = await connection.fetchval("SELECT version FROM dbos.dbos_migrations")
        return version


@asynccontextmanager
async def _role(url: str) -> AsyncIterator[str]:
    """The DSN of the same database for a new role that may connect and nothing else."""
    name, password = f"perdure_test_{secrets.token_hex(4)}", secrets.token_hex(4)
    async with connected(url) as connection:
        await connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
        try:
            parts = urlsplit(url)
            host = parts.netloc.rpartition("@")[2]
            yield urlunsplit(parts._replace(netloc=f"{name}:{password}@{host}"))
        finally:
            await connection.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


async def _grant_use(url: str, role_url: str) -> None:
    """What an administrator grants the role of an application that may not change the schema."""
    role = urlsplit(role_url).username
    async with connected(url) as connection:
        for name in ("dbos", "perdure"):
            await connection.execute(
                f"GRANT USAGE ON SCHEMA {name} TO {role};"
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {name} TO {role}"
            )


async def test_the_second_time_does_nothing(postgres_url: str) -> None:
    connect = connector(postgres_url)
    await schema.migrate(connect, "dbos")
    before = await postgres_facts(postgres_url), await postgres_facts(postgres_url, "perdure")
    report = await schema.migrate(connect, "dbos")
    assert (report.before, report.after, report.statements) == (125, 125, ())
    assert before == (
        await postgres_facts(postgres_url),
        await postgres_facts(postgres_url, "perdure"),
    )


@pytest.mark.parametrize("oldest", [False, True])
async def test_the_plan_is_what_is_done(postgres_url: str, oldest: bool) -> None:
    if oldest:
        await make_postgres_oldest(postgres_url)
    connect = connector(postgres_url)
    planned = await schema.plan(connect, "dbos")
    async with connected(postgres_url) as connection:
        assert not await connection.fetch("SELECT 1 FROM pg_namespace WHERE nspname = 'perdure'")
    assert await schema.migrate(connect, "dbos") == planned
    assert (await schema.plan(connect, "dbos")).statements == ()


async def test_the_planned_statements_can_be_run_by_hand(postgres_url: str) -> None:
    planned = await schema.plan(connector(postgres_url), "dbos")
    async with connected(postgres_url) as connection:
        await connection.execute(";\n".join(planned.statements))
    assert as_known(await postgres_facts(postgres_url), GOLDEN) == GOLDEN
    assert not (await schema.migrate(connector(postgres_url), "dbos")).statements


@pytest.mark.parametrize("oldest", [False, True])
async def test_twenty_at_once_do_everything_once(postgres_url: str, oldest: bool) -> None:
    if oldest:
        await make_postgres_oldest(postgres_url)
    connect = connector(postgres_url)
    planned = (await schema.plan(connect, "dbos")).statements
    reports = await asyncio.gather(*(schema.migrate(connect, "dbos") for _ in range(INSTALLERS)))
    assert {report.after for report in reports} == {125}
    done = [statement for report in reports for statement in report.statements]
    assert done == list(planned)
    assert as_known(await postgres_facts(postgres_url), GOLDEN) == GOLDEN


@pytest.mark.parametrize("oldest", [False, True])
async def test_twenty_at_once_without_advisory_locks(postgres_url: str, oldest: bool) -> None:
    """A database that has none: every installer runs into the others and ends all the same."""
    if oldest:
        await make_postgres_oldest(postgres_url)
    async with _role(postgres_url) as role_url, connected(postgres_url) as connection:
        role = urlsplit(role_url).username
        await connection.execute(
            "REVOKE EXECUTE ON FUNCTION pg_try_advisory_lock(bigint) FROM PUBLIC;"
            f"GRANT CREATE ON DATABASE {urlsplit(postgres_url).path[1:]} TO {role}"
        )
        if oldest:
            tables = GOLDEN["tables"]
            await connection.execute(f"ALTER SCHEMA dbos OWNER TO {role}")
            for table in tables:
                await connection.execute(f"ALTER TABLE dbos.{table} OWNER TO {role}")
        connect = connector(role_url)
        reports = await asyncio.gather(
            *(schema.migrate(connect, "dbos") for _ in range(INSTALLERS))
        )
        assert {report.after for report in reports} == {125}
        assert as_known(await postgres_facts(postgres_url), GOLDEN) == GOLDEN


async def test_a_launching_dbos_is_waited_for(postgres_url: str) -> None:
    """Whatever holds the lock the other SDKs migrate under."""
    async with connected(postgres_url) as other:
        assert await other.fetchval("SELECT pg_try_advisory_lock(1234567890)")
        installing = asyncio.create_task(schema.migrate(connector(postgres_url), "dbos"))
        await _until_installing(postgres_url, other.get_server_pid())
        assert await _tables(postgres_url) == []
        await make_postgres_oldest(postgres_url)
        await other.execute("SELECT pg_advisory_unlock(1234567890)")
        report = await installing
    assert (report.before, report.after) == (None, 125)
    assert as_known(await postgres_facts(postgres_url), GOLDEN) == GOLDEN


async def _until_installing(url: str, other: int) -> None:
    """Wait until a process other than that one holds a lock for installing in this database.

    The locks of the whole server are seen: processes in other databases have some too.
    """
    held = (
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> $1"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    async with connected(url) as watcher:
        await eventually(lambda: watcher.fetch(held, other))


async def _tables(url: str) -> list[str]:
    """The names of all tables outside the catalogue."""
    async with connected(url) as connection:
        rows = await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname NOT IN "
            "('pg_catalog', 'information_schema')"
        )
    return [row["tablename"] for row in rows]


async def test_a_dbos_in_the_midst_of_migrating_is_waited_for(postgres_url: str) -> None:
    """Its versions come one by one; an old one under its lock is no reason to refuse."""
    await make_postgres_oldest(postgres_url)
    await _version(postgres_url, recorded=57)
    async with connected(postgres_url) as other:
        assert await other.fetchval("SELECT pg_try_advisory_lock(1234567890)")
        installing = asyncio.create_task(schema.migrate(connector(postgres_url), "dbos"))
        await _until_installing(postgres_url, other.get_server_pid())
        await _version(postgres_url, recorded=123)
        await other.execute("SELECT pg_advisory_unlock(1234567890)")
        report = await installing
    assert (report.before, report.after) == (57, 125)
    assert as_known(await postgres_facts(postgres_url), GOLDEN) == GOLDEN


async def test_a_launching_dbos_that_never_ends_is_not_waited_for_longer_than_it_would(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert schema_lock.OTHER_SDKS_WAIT_S == 30
    monkeypatch.setattr(schema_lock, "OTHER_SDKS_WAIT_S", 0.2)
    async with connected(postgres_url) as other:
        assert await other.fetchval("SELECT pg_try_advisory_lock(1234567890)")
        assert (await schema.migrate(connector(postgres_url), "dbos")).after == 125


async def test_our_installers_keep_a_launching_dbos_out(postgres_url: str) -> None:
    async def finished() -> bool:
        return False

    async with connected(postgres_url) as other:
        async with schema_lock.installing_alone(connector(postgres_url), "dbos", finished):
            assert not await other.fetchval("SELECT pg_try_advisory_lock(1234567890)")
        assert await other.fetchval("SELECT pg_try_advisory_lock(1234567890)")


async def test_a_newer_database_is_used_as_it_is(postgres_url: str) -> None:
    await make_postgres_oldest(postgres_url)
    await _version(postgres_url, recorded=140)
    before = await postgres_facts(postgres_url)
    report = await schema.migrate(connector(postgres_url), "dbos")
    assert (report.before, report.after) == (140, 140)
    assert await postgres_facts(postgres_url) == before
    await schema.check(connector(postgres_url), "dbos")


async def test_newer_tables_of_our_own_are_used_as_they_are(postgres_url: str) -> None:
    await schema.migrate(connector(postgres_url), "dbos")
    async with connected(postgres_url) as connection:
        await connection.execute("INSERT INTO perdure.schema_version VALUES (99, 0)")
    assert not (await schema.migrate(connector(postgres_url), "dbos")).statements
    await schema.check(connector(postgres_url), "dbos")


async def test_version_123_can_be_run_on_once_our_own_tables_are_there(postgres_url: str) -> None:
    await make_postgres_oldest(postgres_url)
    with pytest.raises(SchemaMissing, match="perdure migrate"):
        await schema.check(connector(postgres_url), "dbos")
    await schema.migrate(connector(postgres_url), "dbos")
    await _version(postgres_url, recorded=123)
    await schema.check(connector(postgres_url), "dbos")


async def test_an_older_database_is_refused_and_left_as_it_is(postgres_url: str) -> None:
    await make_postgres_oldest(postgres_url)
    await _version(postgres_url, recorded=122)
    before = await postgres_facts(postgres_url)
    for attempt in (schema.migrate, schema.plan, schema.check):
        with pytest.raises(SchemaTooOld, match=r'schema "dbos" is at version 122.*dbos 3\.4\.0'):
            await attempt(connector(postgres_url), "dbos")
    assert await postgres_facts(postgres_url) == before
    assert "leases" not in await _tables(postgres_url)


async def test_an_empty_database_is_no_schema(postgres_url: str) -> None:
    with pytest.raises(SchemaMissing, match=r'schema "dbos" holds no system schema.*migrate'):
        await schema.check(connector(postgres_url), "dbos")
    assert await _tables(postgres_url) == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("DROP TABLE dbos.dbos_migrations", "no table dbos_migrations"),
        ("DELETE FROM dbos.dbos_migrations", "no row in dbos_migrations"),
        (
            "INSERT INTO dbos.dbos_migrations VALUES (7)",
            r"2 versions in dbos_migrations \(7, 123\)",
        ),
        ("DROP TABLE dbos.workflow_input", "lacks workflow_input"),
        ("ALTER TABLE dbos.workflow_status ADD shard_key int", "shard"),
    ],
)
async def test_what_is_no_system_schema_is_refused_and_left_as_it_is(
    postgres_url: str, damage: str, message: str
) -> None:
    await make_postgres_oldest(postgres_url)
    async with connected(postgres_url) as connection:
        await connection.execute(damage)
    before = await postgres_facts(postgres_url)
    for attempt in (schema.migrate, schema.plan, schema.check):
        with pytest.raises(SchemaError, match=message):
            await attempt(connector(postgres_url), "dbos")
    assert await postgres_facts(postgres_url) == before
    assert "leases" not in await _tables(postgres_url)


async def test_the_first_trace_of_a_dbos_launch_is_built_upon(postgres_url: str) -> None:
    """A schema with an empty table of versions and nothing else."""
    async with connected(postgres_url) as connection:
        await connection.execute(
            "CREATE SCHEMA dbos; CREATE TABLE dbos.dbos_migrations (version bigint PRIMARY KEY)"
        )
    await schema.migrate(connector(postgres_url), "dbos")
    assert as_known(await postgres_facts(postgres_url), GOLDEN) == GOLDEN


async def test_something_else_of_the_same_name_is_told(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "ATTEMPTS", 2)
    async with connected(postgres_url) as connection:
        await connection.execute("CREATE SCHEMA dbos; CREATE VIEW dbos.queues AS SELECT 1")
    with pytest.raises(SchemaError, match='"queues" already exists'):
        await schema.migrate(connector(postgres_url), "dbos")
    assert await _tables(postgres_url) == []


async def test_a_role_without_rights_is_told_what_it_needs(postgres_url: str) -> None:
    async with _role(postgres_url) as role_url:
        with pytest.raises(SchemaError, match=r"permission denied.*perdure migrate"):
            await schema.migrate(connector(role_url), "dbos")
        await schema.migrate(connector(postgres_url), "dbos")
        with pytest.raises(SchemaError, match=r"permission denied.*grant"):
            await schema.check(connector(role_url), "dbos")


async def test_a_role_without_rights_runs_on_a_migrated_database(postgres_url: str) -> None:
    await schema.migrate(connector(postgres_url), "dbos")
    async with _role(postgres_url) as role_url:
        await _grant_use(postgres_url, role_url)
        await schema.check(connector(role_url), "dbos")
        report = await schema.migrate(connector(role_url), "dbos")
        assert (report.before, report.after, report.statements) == (125, 125, ())
        async with connected(role_url) as connection:
            assert await connection.fetchval("SELECT dbos.enqueue_workflow('w', 'q')")
            await connection.execute(
                "INSERT INTO perdure.leases VALUES ('b', 'e', 'a', 0, 0, 0, 0, NULL, NULL, NULL, "
                "NULL, 0)"
            )


async def test_a_role_may_be_given_the_schemas_alone(postgres_url: str) -> None:
    """It cannot create schemas, but owns those an administrator made for it."""
    async with _role(postgres_url) as role_url, connected(postgres_url) as connection:
        role = urlsplit(role_url).username
        for name in ("dbos", "perdure"):
            await connection.execute(f"CREATE SCHEMA {name} AUTHORIZATION {role}")
        await schema.migrate(connector(role_url), "dbos")
        assert as_known(await postgres_facts(postgres_url), GOLDEN) == GOLDEN


@pytest.mark.parametrize(
    "name",
    [
        "my-schema",
        'Weird"Name',
        "has space",
        "UPPER",
        "n" * 63,
        "user",
        "per%cent:colon;semi",
        "it's",
        "$body$; DROP SCHEMA public CASCADE; --",
        "{own}",
        "schéma-名前",
    ],
)
async def test_any_name_of_a_schema_works(postgres_url: str, name: str) -> None:
    await schema.migrate(connector(postgres_url), name)
    await schema.check(connector(postgres_url), name)
    assert as_known(await postgres_facts(postgres_url, name), GOLDEN) == GOLDEN
    async with connected(postgres_url) as connection:
        rows = await connection.fetch(
            "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_|^information_schema$'"
        )
        assert {row["nspname"] for row in rows} == {"public", name, own_schema(name)}
        quoted = await connection.fetchval("SELECT quote_ident($1)", name)
        workflow = await connection.fetchval(f"SELECT {quoted}.enqueue_workflow('w', 'q')")
        await connection.fetchval(f"SELECT {quoted}.send_message($1, '1')", workflow)


@pytest.mark.parametrize("name", ["", "n" * 64, "é" * 32, "nul\x00", "\ud800"])
async def test_a_name_no_database_takes_is_refused_before_connecting(name: str) -> None:
    async def connect() -> asyncpg.Connection[asyncpg.Record]:
        raise AssertionError(name)

    for attempt in (schema.migrate, schema.plan, schema.check):
        with pytest.raises(ConfigurationError, match="schema name"):
            await attempt(connect, name)


async def test_schemas_of_one_database_do_not_touch_each_other(postgres_url: str) -> None:
    names = ["dbos", "a", "b", "n" * 62 + "1", "n" * 62 + "2"]
    await asyncio.gather(*(schema.migrate(connector(postgres_url), name) for name in names))
    for name in names:
        assert as_known(await postgres_facts(postgres_url, name), GOLDEN) == GOLDEN
        assert "leases" in (await postgres_facts(postgres_url, own_schema(name)))["tables"]
    assert len({own_schema(name) for name in names}) == len(names)


async def test_no_connection_is_left_behind(postgres_url: str) -> None:
    await schema.migrate(connector(postgres_url, application_name="installer"), "dbos")
    await make_postgres_oldest(postgres_url, "old")
    await schema.migrate(connector(postgres_url, application_name="installer"), "old")
    async with connected(postgres_url) as connection:
        open_ones = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'installer'"
        await eventually(lambda: _is_zero(connection.fetchval(open_ones)))


async def _is_zero(counted: Awaitable[int]) -> bool:
    return await counted == 0
