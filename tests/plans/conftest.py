"""Databases whose sizes matter to a planner."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from tests.plans.planner import Planner, fill
from tests.support.database import apart, migrate
from tests.support.database_fixtures import postgres_database, postgres_template
from tests.support.postgres import Databases

__all__ = ["postgres_database", "postgres_template"]


@pytest.fixture(scope="module", params=[0, 1, 30, 500, 20_000])
def sized_url(request: pytest.FixtureRequest, postgres_databases: Databases) -> Iterator[str]:
    """A database with that many workflows, of which a few are under way."""
    url = apart(postgres_databases.create())
    try:
        apart(migrate(url))
        apart(fill(url, request.param))
        yield url
    finally:
        apart(postgres_databases.drop(url))


@pytest.fixture
async def planner(sized_url: str) -> AsyncIterator[Planner]:
    """Shows what the server would do in that database."""
    connection = await asyncpg.connect(sized_url, statement_cache_size=0)
    try:
        yield Planner(connection)
    finally:
        await connection.close()
