"""The client: looks at workflows, creates nothing."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from perdure import Engine, workflow
from perdure.api.client import Client
from perdure.errors import (
    ConfigurationError,
    DatabaseUnavailable,
    NotRunning,
    SchemaMissing,
    WorkflowNotFound,
    WrongPlace,
)


@workflow
async def double(number: int) -> int:
    return 2 * number


async def test_it_sees_what_an_engine_did(shared_database_url: str) -> None:
    url = shared_database_url
    async with Engine(url, workflows=[double]):
        await double.options(id="twice").start(21)
    async with Client(url) as client:
        row = await client.workflows.get("twice", with_payloads=True)
        assert (row.key.name, row.output) == ("double", "42")
        assert await client.workflows.steps("twice") == []
        with pytest.raises(WorkflowNotFound):
            await client.workflows.get("thrice")


async def test_it_sees_its_application_s_workflows_and_any_by_id(sqlite_url: str) -> None:
    async with Engine(sqlite_url, workflows=[double], name="shop"):
        await double.options(id="theirs").start(1)
    async with Client(sqlite_url, name="shop") as client:
        assert [row.workflow_id for row in await client.workflows.list()] == ["theirs"]
    async with Client(sqlite_url, name="bank") as client:
        assert await client.workflows.list() == []
        assert (await client.workflows.get("theirs")).application_name == "shop"
    async with Client(sqlite_url) as nameless:
        assert [row.workflow_id for row in await nameless.workflows.list()] == ["theirs"]


async def test_where_nothing_is_it_makes_nothing_and_says_what_to_do(
    shared_database_url: str, tmp_path: Path
) -> None:
    for _ in range(2):
        with pytest.raises(SchemaMissing, match="perdure migrate"):
            await Client(shared_database_url).open()
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - a quick look, in a running loop


async def test_an_unreachable_database_is_said_at_once() -> None:
    with pytest.raises(DatabaseUnavailable):
        await Client("postgresql://nobody@127.0.0.1:1/nowhere").open()


async def test_it_can_be_opened_again_and_closed_twice(sqlite_url: str) -> None:
    async with Engine(sqlite_url, workflows=[double]):
        pass
    client = Client(sqlite_url)
    with pytest.raises(NotRunning):
        _ = client.workflows
    for _ in range(2):
        await client.open()
        await client.open()
        assert await client.workflows.list() == []
        await client.close()
        await client.close()


async def test_it_belongs_to_the_loop_it_was_opened_in(shared_database_url: str) -> None:
    async with Engine(shared_database_url, workflows=[double]):
        pass
    async with Client(shared_database_url) as client:

        async def elsewhere() -> None:
            with pytest.raises(WrongPlace, match="another event loop"):
                await client.enqueue("double", queue="q", allow_unknown_queue=True)
            with pytest.raises(WrongPlace, match="another event loop"):
                await client.workflows.list()

        await asyncio.to_thread(asyncio.run, elsewhere())
        with pytest.raises(WrongPlace, match="from a coroutine"):
            await asyncio.to_thread(client.handle, "w")
        assert await client.workflows.list() == []


def test_its_settings_come_from_where_the_engine_s_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBOS_SYSTEM_DATABASE_URL", "sqlite:///from-environment.db")
    assert Client().config.url == "sqlite:///from-environment.db"
    assert Client("memory:").config.url == "memory:"
    monkeypatch.delenv("DBOS_SYSTEM_DATABASE_URL")
    with pytest.raises(ConfigurationError, match="no database"):
        Client()
    with pytest.raises(ConfigurationError, match="name='x'"):
        Client("memory:", name="x")
    with pytest.raises(ConfigurationError, match="schema='a"):
        Client("memory:", schema="a\x00")
