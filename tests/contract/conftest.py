"""One fixture for all stores: a test that takes `site` runs on each of them."""

from collections.abc import AsyncIterator

import pytest

from tests.support.database import Database
from tests.support.database_fixtures import (
    memory_database,
    postgres_database,
    postgres_template,
    sqlite_database,
    sqlite_template,
)
from tests.support.store import Process, Site, open_site

__all__ = [
    "memory_database",
    "postgres_database",
    "postgres_template",
    "sqlite_database",
    "sqlite_template",
]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def site_kind(request: pytest.FixtureRequest) -> str:
    """Which store the test runs on; a module overrides it for what only one of them has."""
    kind: str = request.param
    return kind


@pytest.fixture
async def site(request: pytest.FixtureRequest, site_kind: str) -> AsyncIterator[Site]:
    """An empty database of that kind, with the schema."""
    database: Database = request.getfixturevalue(f"{site_kind}_database")
    async with open_site(database) as opened:
        yield opened


@pytest.fixture
async def me(site: Site) -> Process:
    """A process start on the site that holds its lease."""
    return await site.process()
