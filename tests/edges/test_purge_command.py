"""`perdure purge`."""

from __future__ import annotations

import asyncio

import pytest

from perdure import Engine, workflow
from tests.edges.program import Ran, perdure


@workflow(name="shrink")
async def shrink(file: str) -> str:
    if file == "broken":
        raise ValueError(file)
    return file


async def _end(url: str) -> None:
    async with Engine(url, workflows=[shrink]):
        for file in ("a", "b", "broken"):
            handle = await shrink.options(id=file).start(file)
            await asyncio.wait([asyncio.ensure_future(handle.result())])
            # What ended within one millisecond ended together, and is kept together.
            await asyncio.sleep(0.002)


@pytest.fixture
def url(sqlite_url: str) -> str:
    """A database in which two workflows have succeeded and one has failed."""
    asyncio.run(_end(sqlite_url))
    return sqlite_url


def purge(*arguments: str, url: str, typed: str | None = None) -> Ran:
    return perdure("purge", *arguments, "--database", url, typed=typed)


def left(url: str) -> list[str]:
    listed = perdure("workflow", "list", "--oldest", "--json", "--database", url).json
    return [row["workflow_id"] for row in listed]


def test_it_asks_and_removes(url: str) -> None:
    ran = purge("--older-than", "0s", "--state", "success", url=url, typed="y\n")
    assert ran.code == 0
    assert ran.out.endswith("removed: 2 ended workflows\n")
    assert "Remove 2 ended workflows of 'app' for ever?" in ran.err
    assert left(url) == ["broken"]


def test_who_says_no_loses_nothing(url: str) -> None:
    ran = purge("--older-than", "0", url=url, typed="n\n")
    assert ran.code == 1
    assert "Remove 3 ended workflows" in ran.err
    assert len(left(url)) == 3


def test_a_dry_run_counts(url: str) -> None:
    assert purge("--keep", "1", "--dry-run", url=url).out == "would be removed: 2 ended workflows\n"
    assert purge("--keep", "1", "--dry-run", "--json", url=url).json == {"would_remove": 2}
    assert len(left(url)) == 3


def test_yes_answers(url: str) -> None:
    assert purge("--keep", "1", "--limit", "1", "--yes", "--json", url=url).json == {"removed": 1}
    assert purge("--older-than", "1d", "--yes", url=url).out == "removed: 0 ended workflows\n"
    assert left(url) == ["b", "broken"]


def test_nothing_to_remove_is_no_question(url: str) -> None:
    ran = purge("--older-than", "4w", url=url)
    assert (ran.code, ran.out, ran.err) == (0, "removed: 0 ended workflows\n", "")
    assert purge("--older-than", "0s", "--app", "another", url=url).out.startswith("removed: 0")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "say what may go: --older-than SPAN, --keep N"),
        (("--older-than", "soon"), "'soon' is no span of time"),
        (("--older-than", "9" * 400 + "w"), "is no span of time"),
        (("--keep", "0"), "--keep"),
        (("--older-than", "1d", "--state", "PENDING"), "no state of a workflow that has ended"),
    ],
)
def test_wrong_use_is_said(url: str, arguments: tuple[str, ...], reason: str) -> None:
    ran = purge(*arguments, "--yes", url=url)
    assert ran.code == 2
    assert reason in ran.err
    assert len(left(url)) == 3
