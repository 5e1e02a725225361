"""Engines for the tests of this folder, and the real other SDKs on the same databases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.database_fixtures import (
    postgres_database,
    postgres_template,
    sqlite_database,
    sqlite_template,
)
from tests.support.engines import Lab, postgres_lab, shared_lab
from tests.support.reference import (
    NO_DBOS_FILES,
    dbos_python,
    dbos_writes_files,
    typescript_sdk,
)
from tests.support.reference_client import DbosClient

__all__ = [
    "dbos_python",
    "postgres_database",
    "postgres_lab",
    "postgres_template",
    "shared_lab",
    "sqlite_database",
    "sqlite_template",
    "typescript_sdk",
]


@pytest.fixture(scope="session")
def dbos_process(dbos_python: Path) -> Iterator[DbosClient]:
    """The process of a real dbos client, which all tests share."""
    client = DbosClient(dbos_python)
    yield client
    client.close()


@pytest.fixture
def dbos_can_write(request: pytest.FixtureRequest) -> None:
    """Skips what `dbos` itself cannot do."""
    asked = {"dbos", "dbos_python"}.intersection(request.fixturenames)
    lab: Lab | None = request.getfixturevalue("shared_lab") if asked else None
    if lab is not None and lab.kind == "sqlite" and not dbos_writes_files:
        pytest.skip(NO_DBOS_FILES)


class Dbos:
    """A real dbos client on the database of one lab."""

    def __init__(self, process: DbosClient, url: str) -> None:
        self._process = process
        self._url = url

    async def ask(self, method: str, *args: Any, **keywords: Any) -> Any:
        """What that method of the client returns."""
        return await self._process.ask(self._url, method, *args, **keywords)


@pytest.fixture
async def dbos(shared_lab: Lab, dbos_process: DbosClient) -> AsyncIterator[Dbos]:
    """A real dbos client on the lab's database."""
    yield Dbos(dbos_process, shared_lab.url)
    await dbos_process.ask(shared_lab.url, "close")
