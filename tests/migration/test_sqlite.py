"""The schema we make in a SQLite file is the shared one, whatever it is made from."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perdure.errors import SchemaError, SchemaMissing, SchemaTooOld
from perdure.store.sqlite import schema
from tests.support.process import ChildProcess
from tests.support.reference import dbos_makes_files, launch_dbos
from tests.support.schemas import as_known, golden, make_sqlite_oldest, opened, sqlite_facts

GOLDEN = golden("sqlite")
INSTALLERS = 20
PROGRAM = """
import sqlite3, sys
from perdure.store.sqlite import schema
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
print("ready", flush=True)
while not connection.execute("SELECT count(*) FROM go").fetchone()[0]:
    pass
report = schema.migrate(connection)
print("ended", report.before, report.after, len(report.statements), flush=True)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "system.db"


def test_a_new_file_has_the_shared_schema(file: Path) -> None:
    with opened(file) as connection:
        report = schema.migrate(connection)
    assert (report.before, report.after) == (None, 125)
    assert as_known(sqlite_facts(file), GOLDEN) == GOLDEN


def test_a_database_in_memory_has_it_too() -> None:
    with opened(":memory:") as connection:
        schema.migrate(connection)
        schema.check(connection)
        assert not schema.migrate(connection).statements


@dbos_makes_files
def test_a_new_file_is_what_dbos_makes(file: Path, tmp_path: Path, dbos_python: Path) -> None:
    theirs = tmp_path / "theirs.db"
    launch_dbos(dbos_python, f"sqlite:///{theirs}")
    with opened(file) as connection:
        schema.migrate(connection)
    assert sqlite_facts(file) == sqlite_facts(theirs)


@dbos_makes_files
def test_a_file_of_dbos_is_left_as_it_is(file: Path, dbos_python: Path) -> None:
    launch_dbos(dbos_python, f"sqlite:///{file}")
    before = sqlite_facts(file)
    with opened(file) as connection:
        report = schema.migrate(connection)
        schema.check(connection)
    assert (report.before, report.after) == (125, 125)
    created = [text for text in report.statements if text.startswith("CREATE")]
    assert created
    assert all("perdure_" in text for text in created)
    assert sqlite_facts(file) == before


def test_dbos_finds_nothing_to_do_in_ours(file: Path, dbos_python: Path) -> None:
    with opened(file) as connection:
        schema.migrate(connection)
    before = sqlite_facts(file)
    launch_dbos(dbos_python, f"sqlite:///{file}")
    assert sqlite_facts(file) == before
    with opened(file) as connection:
        assert not schema.migrate(connection).statements


def test_our_own_tables_stand_beside_the_shared_ones(file: Path) -> None:
    with opened(file) as connection:
        schema.migrate(connection)
        columns = connection.execute("SELECT name FROM pragma_table_info('perdure_leases')")
        assert [name for (name,) in columns] == [
            "boot_id",
            "executor_id",
            "application_name",
            "renewals",
            "renewed_at",
            "expires_at",
            "period_ms",
            "taken_at",
            "lock_path",
            "created_at",
            "serves",
        ]
        versions = connection.execute("SELECT version FROM perdure_schema_version").fetchall()
        assert versions == [(1,), (2,), (3,)]


def test_version_123_is_converged(file: Path) -> None:
    make_sqlite_oldest(file)
    with opened(file) as connection:
        report = schema.migrate(connection)
    assert (report.before, report.after) == (123, 125)
    assert as_known(sqlite_facts(file), GOLDEN) == GOLDEN


@pytest.mark.parametrize("oldest", [False, True])
def test_the_plan_is_what_is_done(file: Path, oldest: bool) -> None:
    if oldest:
        make_sqlite_oldest(file)
    with opened(file) as connection:
        planned = schema.plan(connection)
        tables = connection.execute("SELECT 1 FROM sqlite_schema WHERE name LIKE 'perdure_%'")
        assert not tables.fetchall()
        assert schema.migrate(connection) == planned
        assert schema.plan(connection).statements == ()


def test_the_planned_statements_can_be_run_by_hand(file: Path) -> None:
    with opened(file) as connection:
        connection.executescript(";\n".join(schema.plan(connection).statements))
        assert not schema.migrate(connection).statements
    assert as_known(sqlite_facts(file), GOLDEN) == GOLDEN


def test_the_second_time_writes_nothing(file: Path) -> None:
    with opened(file) as connection:
        schema.migrate(connection)
    before = file.read_bytes()
    with opened(f"file:{file}?mode=ro") as connection:
        assert schema.migrate(connection).statements == ()
        schema.check(connection)
    assert file.read_bytes() == before


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize("oldest", [False, True])
def test_twenty_at_once_do_everything_once(file: Path, journal: str, oldest: bool) -> None:
    if oldest:
        make_sqlite_oldest(file)
    with opened(file) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        planned = schema.plan(connection).statements

    def install(_: int) -> tuple[int, tuple[str, ...]]:
        with opened(file) as connection:
            report = schema.migrate(connection)
            return report.after, report.statements

    with ThreadPoolExecutor(INSTALLERS) as pool:
        reports = list(pool.map(install, range(INSTALLERS)))
    assert {after for after, _ in reports} == {125}
    assert [statements for _, statements in reports if statements] == [planned]
    assert as_known(sqlite_facts(file), GOLDEN) == GOLDEN


async def test_several_processes_at_once_do_everything_once(file: Path, tmp_path: Path) -> None:
    program = tmp_path / "install.py"
    program.write_text(PROGRAM)
    with opened(file) as connection:
        connection.execute("CREATE TABLE go (a)")
        children = [ChildProcess(program, file) for _ in range(5)]
        try:
            for child in children:
                await asyncio.to_thread(child.wait_for, "ready")
            connection.execute("INSERT INTO go VALUES (1)")
            ended = [await asyncio.to_thread(child.wait_for, "ended") for child in children]
        finally:
            for child in children:
                child.kill()
        connection.execute("DROP TABLE go")
    assert sorted(line != "ended 125 125 0" for line in ended) == [False] * 4 + [True]
    assert as_known(sqlite_facts(file), GOLDEN) == GOLDEN


def test_a_newer_file_is_used_as_it_is(file: Path) -> None:
    make_sqlite_oldest(file)
    with opened(file) as connection:
        connection.execute("UPDATE dbos_migrations SET version = 140")
        before = sqlite_facts(file)
        report = schema.migrate(connection)
        schema.check(connection)
    assert (report.before, report.after) == (140, 140)
    assert sqlite_facts(file) == before


def test_an_older_file_is_refused_and_left_as_it_is(file: Path) -> None:
    make_sqlite_oldest(file)
    with opened(file) as connection:
        connection.execute("UPDATE dbos_migrations SET version = 122")
        before = file.read_bytes()
        for attempt in (schema.migrate, schema.plan, schema.check):
            with pytest.raises(SchemaTooOld, match=r"version 122.*dbos 3\.4\.0"):
                attempt(connection)
        assert not connection.in_transaction
    assert file.read_bytes() == before


def test_an_empty_file_is_no_schema(file: Path) -> None:
    with opened(file) as connection:
        with pytest.raises(SchemaMissing, match="perdure migrate"):
            schema.check(connection)
        assert not connection.execute("SELECT 1 FROM sqlite_schema").fetchall()


def test_tables_of_the_application_are_no_obstacle(file: Path) -> None:
    with opened(file) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
        connection.execute("INSERT INTO customers VALUES ('Ada')")
        schema.migrate(connection)
        assert connection.execute("SELECT name FROM customers").fetchall() == [("Ada",)]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("DROP TABLE dbos_migrations", "no table dbos_migrations"),
        ("DELETE FROM dbos_migrations", "no row in dbos_migrations"),
        ("INSERT INTO dbos_migrations VALUES (7)", r"2 versions in dbos_migrations \(7, 123\)"),
        ("DROP TABLE workflow_input", "lacks workflow_input"),
        ("ALTER TABLE workflow_status ADD shard_key INTEGER", "shard"),
    ],
)
def test_what_is_no_system_schema_is_refused_and_left_as_it_is(
    file: Path, damage: str, message: str
) -> None:
    make_sqlite_oldest(file)
    with opened(file) as connection:
        connection.execute(damage)
        before = file.read_bytes()
        for attempt in (schema.migrate, schema.plan, schema.check):
            with pytest.raises(SchemaError, match=message):
                attempt(connection)
    assert file.read_bytes() == before


def test_a_failure_on_the_way_leaves_nothing(file: Path) -> None:
    """All of it is one transaction: here the last table's name is taken by a view."""
    with opened(file) as connection:
        connection.execute("CREATE VIEW perdure_leases AS SELECT 1")
        with pytest.raises(sqlite3.OperationalError, match="perdure_leases"):
            schema.migrate(connection)
        assert not connection.in_transaction
        left = connection.execute("SELECT name FROM sqlite_schema").fetchall()
        assert left == [("perdure_leases",)]


@pytest.mark.parametrize(
    ("python", "library", "fine"),
    [
        ((3, 11), (3, 40, 1), False),
        ((3, 11), (3, 50, 0), False),
        ((3, 12), (3, 41, 9), False),
        ((3, 12), (3, 42, 0), True),
        ((3, 14), (4, 0, 0), True),
    ],
)
def test_times_default_to_what_dbos_would_choose(
    python: tuple[int, int], library: tuple[int, int, int], fine: bool
) -> None:
    chosen = schema.now_ms_default(python, library)
    assert chosen == ("unixepoch('subsec') * 1000" if fine else "strftime('%s','now') * 1000")


def test_a_time_that_is_not_given_is_now(file: Path) -> None:
    with opened(file) as connection:
        schema.migrate(connection)
        connection.execute("INSERT INTO workflow_status (workflow_uuid) VALUES ('w')")
        ((created, now),) = connection.execute(
            "SELECT created_at, strftime('%s','now') * 1000 FROM workflow_status"
        )
        assert now - 60_000 < created <= now + 60_000
