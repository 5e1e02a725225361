"""Engines for the tests of this folder, and the databases they stand on."""

from collections.abc import AsyncIterator

import pytest

from tests.support.database import PostgresDatabase
from tests.support.database_fixtures import (
    memory_database,
    postgres_database,
    postgres_template,
    sqlite_database,
    sqlite_template,
)
from tests.support.engines import lab, long_release, memory_lab, postgres_lab, shared_lab
from tests.support.store import Process, Site, open_site

__all__ = [
    "lab",
    "long_release",
    "memory_database",
    "memory_lab",
    "postgres_database",
    "postgres_lab",
    "postgres_template",
    "shared_lab",
    "sqlite_database",
    "sqlite_template",
]


@pytest.fixture
async def site(postgres_database: PostgresDatabase) -> AsyncIterator[Site]:
    """An empty database of the suite's server, with the schema; a module may have its own."""
    async with open_site(postgres_database) as opened:
        yield opened


@pytest.fixture
async def me(site: Site) -> Process:
    """A process start on the site that holds its lease."""
    return await site.process()
