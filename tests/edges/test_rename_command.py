"""`perdure rename`, and `Client.rename_application`."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import pytest

from perdure import Client, Engine, InvalidArgument, Queue, workflow
from perdure.errors import ApplicationRunning
from tests.edges.program import Ran, perdure


@workflow(name="bills")
async def bills(number: int) -> int:
    return number


async def _work(url: str) -> None:
    queue = Queue("invoices")
    async with Engine(url, name="billing", version="b1", workflows=[bills], queues=[queue]):
        for number in range(3):
            await bills.options(id=f"b-{number}")(number)
        await bills.options(id="later", queue=queue, delay=3600).start(9)


@pytest.fixture
def url(sqlite_url: str) -> str:
    """A database on which an application has worked and is stopped."""
    asyncio.run(_work(sqlite_url))
    return sqlite_url


def rename(*arguments: str, url: str, typed: str | None = None) -> Ran:
    return perdure("rename", *arguments, "--database", url, typed=typed)


def listed(url: str, app: str) -> list[str]:
    found = perdure("workflow", "list", "--oldest", "--json", "--app", app, "--database", url).json
    return [row["workflow_id"] for row in found]


def test_everything_is_the_new_applications(url: str) -> None:
    ran = rename("billing", "payments", url=url, typed="y\n")
    assert ran.code == 0
    assert ran.out.endswith(
        "'payments' owns now what was of 'billing': 1 queue, 0 schedules, 1 version, 4 workflows, "
        "0 steps\n"
    )
    assert listed(url, "payments") == ["b-0", "b-1", "b-2", "later"]
    assert listed(url, "billing") == []
    asyncio.run(_goes_on(url))


async def _goes_on(url: str) -> None:
    async with Engine(url, name="payments", version="b1", workflows=[bills]) as engine:
        await engine.workflows.set_delay("later", delay=0)
        assert await engine.handle("later").result() == 9


def test_who_says_no_changes_nothing(url: str) -> None:
    ran = rename("billing", "payments", url=url, typed="n\n")
    assert ran.code == 1
    assert "Give all that 'billing' owns to 'payments'?" in ran.err
    assert len(listed(url, "billing")) == 4


def test_what_is_nobodys_moves_when_asked(url: str) -> None:
    path = url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE workflow_status SET application_name = NULL WHERE name = 'bills'"
        )
    connection.close()
    assert rename("billing", "payments", "--yes", "--json", url=url).json["workflows"] == 0
    ran = rename("payments", "sales", "--unclaimed", "--batch", "1", "--yes", "--json", url=url)
    assert ran.json == {"queues": 1, "schedules": 0, "versions": 1, "workflows": 4, "steps": 0}


@pytest.mark.parametrize("names", [("billing", "billing"), ("billing", "X"), ("billing", "a/b")])
def test_wrong_names_are_refused(url: str, names: tuple[str, str]) -> None:
    ran = rename(*names, "--yes", url=url)
    assert ran.code == 2
    assert len(listed(url, "billing")) == 4


@pytest.mark.parametrize(
    ("old", "new", "options"),
    [
        (None, "payments", {}),
        ("", "payments", {}),
        ("billing", "x", {}),
        ("billing", None, {}),
        ("billing", "payments", {"batch": 0}),
        ("billing", "payments", {"batch": True}),
    ],
)
async def test_a_client_refuses_what_cannot_be_meant(
    sqlite_url: str, old: Any, new: Any, options: dict[str, Any]
) -> None:
    await _work(sqlite_url)
    async with Client(sqlite_url) as client:
        with pytest.raises(InvalidArgument):
            await client.rename_application(old, new, **options)
        moved = await client.rename_application(None, "payments", unclaimed=True)
        assert sum(moved) == 0


async def test_a_running_application_keeps_its_name(sqlite_url: str) -> None:
    async with (
        Engine(sqlite_url, name="billing", version="b1", workflows=[bills]),
        Client(sqlite_url) as client,
    ):
        with pytest.raises(ApplicationRunning, match="stop its processes first"):
            await client.rename_application("billing", "payments")
