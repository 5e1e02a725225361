"""`perdure workflow export | import`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine, step, workflow
from tests.edges.program import perdure


@step
async def name(file: str) -> str:
    return file


@workflow
async def archive(file: str) -> str:
    return await name(file)


@workflow
async def folder() -> None:
    await archive.options(id="x")("x")


async def _work(url: str) -> None:
    async with Engine(url, workflows=[archive, folder]):
        await folder.options(id="all")()


@pytest.fixture
def source(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/source.db"
    asyncio.run(_work(url))
    return url


@pytest.fixture
def target(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/target.db"
    assert perdure("migrate", "--database", url).code == 0
    return url


def listed(url: str) -> Any:
    rows = perdure("workflow", "list", "--oldest", "--json", "-d", url).json
    return [(row["workflow_id"], row["state"], row["output"]) for row in rows]


def test_workflows_go_into_another_database(source: str, target: str, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    ran = perdure("workflow", "export", "all", "--children", "--out", file, "-d", source)
    assert (ran.code, ran.out, ran.err) == (0, "", f"exported: 2 workflows to {str(file)!r}\n")
    assert len(file.read_text().splitlines()) == 2
    ran = perdure("workflow", "import", file, "--database", target)
    assert (ran.code, ran.out) == (0, "imported: 2 workflows\n")
    assert listed(target) == listed(source)
    assert perdure("workflow", "steps", "x", "--json", "-d", target).json[0]["output"] == "x"


def test_what_stands_is_refused_or_passed_over(source: str, target: str) -> None:
    one = perdure("workflow", "export", "x", "--database", source).out
    both = perdure("workflow", "export", "--state", "success", "--json", "-d", source).out
    assert [each["workflow"]["workflow_id"] for each in json.loads(both)] == ["x", "all"]
    assert perdure("workflow", "import", "-", "-d", target, typed=one).code == 0
    ran = perdure("workflow", "import", "-", "--database", target, typed=both)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(
        "perdure: a workflow with the id 'x' exists already, so that nothing was imported; with "
        "--on-conflict skip"
    )
    skipping = ("workflow", "import", "-", "--on-conflict", "skip", "--database", target)
    assert perdure(*skipping, "--json", typed=both).json == {"imported": ["all"], "left": ["x"]}
    assert perdure(*skipping, typed=one).out == (
        "imported: 0 workflows\nleft alone: 1 workflow whose ids stand already\n"
    )


def test_a_file_that_stands_is_not_written_over(source: str, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    file.write_text("kept")
    ran = perdure("workflow", "export", "all", "--out", file, "--database", source)
    assert ran.code == 1
    assert "exists: export to a new file" in ran.err
    assert file.read_text() == "kept"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("", "'-' holds no workflow"),
        ("[]", "'-' holds no workflow"),
        ('{"format": 1', "'-' holds no JSON that `perdure workflow export` wrote"),
        ("[" * 200_000, "'-' holds no JSON"),
        ("{} {}", "cannot import $[0]"),
        ("7", "cannot import $[0]"),
    ],
)
def test_what_is_no_export_is_refused(target: str, content: str, named: str) -> None:
    ran = perdure("workflow", "import", "-", "--database", target, typed=content)
    assert (ran.code, ran.out) == (2, "")
    assert named in ran.err
    assert listed(target) == []


def test_a_file_that_is_not_there(target: str) -> None:
    ran = perdure("workflow", "import", "nowhere.jsonl", "--database", target)
    assert ran.code == 1
    assert "No such file or directory: 'nowhere.jsonl'" in ran.err
