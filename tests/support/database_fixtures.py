"""Fixtures of databases with a schema; a `conftest.py` imports the ones it wants."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.database import (
    SQLITE_PREFIX,
    MemoryDatabase,
    PostgresDatabase,
    SqliteDatabase,
    apart,
    migrate,
)
from tests.support.postgres import Databases


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file that has the schema and no rows."""
    path = tmp_path_factory.mktemp("template") / "perdure.db"
    apart(migrate(f"{SQLITE_PREFIX}{path}"))
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres_databases: Databases) -> Iterator[PostgresDatabase]:
    """One Postgres database that has the schema; who uses it clears it first."""
    url = apart(postgres_databases.create())
    try:
        apart(migrate(url))
        database = PostgresDatabase(url)
        yield database
        database.close()
    finally:
        apart(postgres_databases.drop(url))


@pytest.fixture
def memory_database() -> MemoryDatabase:
    """A database in memory."""
    return MemoryDatabase()


@pytest.fixture
def sqlite_database(sqlite_template: Path, tmp_path: Path) -> SqliteDatabase:
    """A SQLite file of the test's own."""
    return SqliteDatabase(sqlite_template, tmp_path / "perdure.db")


@pytest.fixture
def postgres_database(postgres_template: PostgresDatabase) -> PostgresDatabase:
    """A Postgres database without rows."""
    apart(postgres_template.clear())
    return postgres_template
