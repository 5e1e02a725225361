"""The real other SDKs, and databases that `dbos` has made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from perdure.store.postgres import schema
from tests.support.postgres import Databases
from tests.support.reference import dbos_python, launch_dbos, typescript_sdk
from tests.support.schemas import connected, connector

__all__ = ["dbos_python", "typescript_sdk"]


@pytest.fixture(scope="session")
def dbos_template(postgres_databases: Databases, dbos_python: Path) -> Iterator[str]:
    """The name of a database that the real `dbos` has made, to copy."""
    url = asyncio.run(postgres_databases.create())
    try:
        launch_dbos(dbos_python, url)
        yield urlsplit(url).path.lstrip("/")
    finally:
        asyncio.run(postgres_databases.drop(url))


@pytest.fixture
async def dbos_url(postgres_databases: Databases, dbos_template: str) -> AsyncIterator[str]:
    """A Postgres database as the real `dbos` leaves it."""
    url = await postgres_databases.create(template=dbos_template)
    try:
        yield url
    finally:
        await postgres_databases.drop(url)


@pytest.fixture(scope="session", params=["perdure", "dbos"])
def made_once(
    request: pytest.FixtureRequest, postgres_databases: Databases, dbos_template: str
) -> Iterator[str]:
    by_dbos = request.param == "dbos"
    template = dbos_template if by_dbos else "template0"
    url = asyncio.run(postgres_databases.create(template=template))
    try:
        if not by_dbos:
            asyncio.run(schema.migrate(connector(url), "dbos"))
        yield url
    finally:
        asyncio.run(postgres_databases.drop(url))


@pytest.fixture
async def made_url(made_once: str) -> str:
    """A database whose shared schema was made by us or by the real `dbos`; without a workflow.

    The tests of one maker share it, and leave nothing behind but rows.
    """
    async with connected(made_once) as connection:
        await connection.execute(
            "DELETE FROM dbos.workflow_input; DELETE FROM dbos.workflow_output; "
            "DELETE FROM dbos.workflow_status"
        )
    return made_once
