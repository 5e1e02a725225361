"""The real dbos launching on an empty database at the same time as we install."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure.store.postgres import schema as postgres_schema
from perdure.store.sqlite import schema as sqlite_schema
from tests.support.reference import dbos_makes_files, launch_dbos
from tests.support.schemas import (
    as_known,
    connected,
    connector,
    golden,
    opened,
    postgres_facts,
    sqlite_facts,
)
from tests.support.waiting import eventually

AT_VERSIONS = [0, 1, 30, 110]
"""What the launch has recorded when we begin; 0: nothing yet."""


@pytest.mark.parametrize("version", AT_VERSIONS)
async def test_on_postgres(postgres_url: str, dbos_python: Path, version: int) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.to_thread(launch_dbos, dbos_python, postgres_url))
        async with connected(postgres_url) as connection:

            async def reached() -> bool:
                table = await connection.fetchval("SELECT to_regclass('dbos.dbos_migrations')")
                if table is None:
                    return version == 0
                found = await connection.fetchval("SELECT max(version) FROM dbos.dbos_migrations")
                return (found or 0) >= version

            await eventually(reached)
        installing = [
            group.create_task(postgres_schema.migrate(connector(postgres_url), "dbos"))
            for _ in range(3)
        ]
    reports = [task.result() for task in installing]
    assert {report.after for report in reports} == {125}
    known = golden("postgres")
    assert as_known(await postgres_facts(postgres_url), known) == known


@dbos_makes_files
@pytest.mark.parametrize("created", [False, True])
async def test_on_sqlite(tmp_path: Path, dbos_python: Path, created: bool) -> None:
    file = tmp_path / "system.db"
    launching = asyncio.create_task(
        asyncio.to_thread(launch_dbos, dbos_python, f"sqlite:///{file}")
    )
    if created:
        await eventually(file.exists)

    def install() -> int:
        with opened(file) as connection:
            return sqlite_schema.migrate(connection).after

    assert await asyncio.to_thread(install) == 125
    await launching
    known = golden("sqlite")
    assert as_known(sqlite_facts(file), known) == known
