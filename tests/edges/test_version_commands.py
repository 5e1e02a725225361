"""`perdure version list | promote | register`."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from perdure import Engine
from tests.edges.program import Ran, perdure


async def _deploy(url: str) -> None:
    for version in ("v1", "v2"):
        async with Engine(url, workflows=[], version=version):
            pass
    async with Engine(url, workflows=[], name="another", version="a1"):
        pass


@pytest.fixture
def url(sqlite_url: str) -> str:
    """A database on which two versions were deployed, and one of another application."""
    asyncio.run(_deploy(sqlite_url))
    return sqlite_url


def version(*arguments: str, url: str) -> Ran:
    return perdure("version", *arguments, "--database", url)


def names(url: str) -> list[str]:
    return [row["name"] for row in version("list", "--json", url=url).json]


def test_versions_are_listed_the_latest_first(url: str) -> None:
    lines = version("list", url=url).out.splitlines()
    assert lines[0].split() == ["version", "latest", "since", "registered", "application"]
    assert lines[1].split()[:2] == ["v2", "yes"]
    assert [lines[2].split()[0], lines[2].split()[-1]] == ["v1", "app"]
    assert len(lines) == 3
    latest, first = version("list", "--json", url=url).json
    assert latest.keys() == {"name", "id", "application", "at", "created_at"}
    assert datetime.fromisoformat(first["at"]) <= datetime.fromisoformat(latest["at"])


def test_without_versions_it_says_so(url: str) -> None:
    ran = version("list", "--app", "third", url=url)
    assert (ran.code, ran.out) == (0, "the application 'third' has no versions\n")


def test_rolling_back_and_forward(url: str) -> None:
    ran = version("promote", "v1", url=url)
    assert (ran.code, ran.out) == (0, "version 'v1' is the latest, of application 'app'\n")
    assert names(url) == ["v1", "v2"]
    assert version("promote", "v2", "--json", url=url).json["name"] == "v2"
    assert names(url) == ["v2", "v1"]


def test_a_version_is_registered_before_its_deploy(url: str) -> None:
    ran = version("register", "v3", url=url)
    assert (ran.code, ran.out) == (0, "version 'v3' is registered, of application 'app'\n")
    assert names(url) == ["v3", "v2", "v1"]
    assert version("register", "v1", url=url).code == 0
    assert names(url)[0] == "v3"


def test_an_unknown_version_is_a_failure(url: str) -> None:
    ran = version("promote", "v9", url=url)
    assert ran.code == 1
    assert "application 'app' has no version 'v9'" in ran.err


@pytest.mark.parametrize("command", ["promote", "register"])
def test_a_version_of_another_application_is_refused(url: str, command: str) -> None:
    ran = version(command, "a1", url=url)
    assert ran.code == 2
    assert "version 'a1' is registered by application 'another'" in ran.err
    assert version("promote", "a1", "--app", "another", url=url).code == 0
