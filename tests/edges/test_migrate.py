"""`perdure migrate`."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from perdure.api.client import Client
from perdure.errors import SchemaMissing
from tests.edges.program import perdure


async def has_schema(url: str) -> bool:
    try:
        async with Client(url):
            return True
    except SchemaMissing:
        return False


async def perdure_in_a_thread(*arguments: str) -> tuple[int, str, str]:
    """The program runs an event loop of its own."""
    ran = await asyncio.to_thread(perdure, *arguments)
    return ran.code, ran.out, ran.err


async def test_it_makes_the_schema_once(shared_database_url: str) -> None:
    url = shared_database_url
    assert not await has_schema(url)
    code, out, _ = await perdure_in_a_thread("migrate", "--database", url)
    assert code == 0
    assert out.startswith("from nothing to version 125: ")
    assert await has_schema(url)
    _, out, _ = await perdure_in_a_thread("migrate", "--database", url)
    assert out == "nothing to do: the schema is at version 125\n"


async def test_printing_changes_nothing_and_prints_what_would_be_executed(
    shared_database_url: str,
) -> None:
    url = shared_database_url
    code, printed, _ = await perdure_in_a_thread("migrate", "--database", url, "--print")
    assert code == 0
    assert "dbos_migrations" in printed
    assert printed.splitlines()[-1].startswith("-- from nothing to version 125: ")
    assert not await has_schema(url)
    await perdure_in_a_thread("migrate", "--database", url)
    _, printed, _ = await perdure_in_a_thread("migrate", "--database", url, "--print")
    assert printed == "-- nothing to do: the schema is at version 125\n"


def test_what_it_prints_makes_the_same_schema(tmp_path: Path) -> None:
    """On SQLite, where the driver of Python reads several statements."""
    ours, printed = tmp_path / "ours.db", tmp_path / "printed.db"
    script = perdure("migrate", "--database", f"sqlite:///{printed}", "--print").out
    assert perdure("migrate", "--database", f"sqlite:///{ours}").code == 0
    with sqlite3.connect(printed) as connection:
        connection.executescript(script)
    connection.close()
    schemas = []
    for path in (ours, printed):
        connection = sqlite3.connect(path)
        schemas.append(sorted(connection.execute("SELECT name, sql FROM sqlite_master"), key=str))
        connection.close()
    assert schemas[0] == schemas[1]


@pytest.mark.postgres
async def test_the_schema_s_name_is_configurable(postgres_url: str) -> None:
    code, _, _ = await perdure_in_a_thread("migrate", "-d", postgres_url, "--schema", "Odd name")
    assert code == 0
    assert not await has_schema(postgres_url)
    async with Client(postgres_url, schema="Odd name") as client:
        assert await client.workflows.list() == []


async def test_a_database_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, out, err = await perdure_in_a_thread(
        "migrate", "--database", "postgresql://nobody@127.0.0.1:1/nowhere"
    )
    assert (code, out) == (1, "")
    assert err.startswith("perdure: ")
    assert err.count("\n") == 1
    code, _, err = await perdure_in_a_thread(
        "migrate", "--database", f"sqlite:///{tmp_path}/no/folder.db"
    )
    assert code == 2
    assert "create it" in err
