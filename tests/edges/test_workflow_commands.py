"""`perdure workflow list | get | steps | tree | count | count-steps`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure import Engine, run_step, sleep, step, workflow
from perdure.cli import tables
from perdure.model.listing import Branch
from perdure.store.rows import WORKFLOW_COLUMNS, workflow_row
from tests.edges.program import Ran, perdure


@step
async def greet(name: str) -> str:
    return f"hello {name}"


@step
async def refuse(reason: str) -> None:
    raise ValueError(reason)


@workflow
async def welcome(name: str, *, loud: bool = False) -> dict[str, str]:
    greeting = await greet(name)
    return {"greeting": greeting.upper() if loud else greeting}


@workflow
async def family(names: list[str]) -> int:
    for name in names:
        await welcome(name)
    await run_step("count", len, names)
    await sleep(seconds=0.01)
    return len(names)


@workflow
async def doomed(reason: str) -> None:
    await refuse(reason)


async def _work(url: str) -> None:
    async with Engine(url, workflows=[welcome, family, doomed]) as engine:
        await welcome.options(id="ada", attributes={"plan": "gold"})("Ada", loud=True)
        await family.options(id="fam")(["Bo", "Cy"])
        with contextlib.suppress(ValueError):
            await doomed.options(id="bad")("no\x1b[31m[bold]way[/bold]")
        await engine.workflows.list()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One database that these tests only look at."""
    path = tmp_path_factory.mktemp("looked-at") / "perdure.db"
    asyncio.run(_work(f"sqlite:///{path}"))
    return path


@pytest.fixture
def url(database: Path) -> str:
    return f"sqlite:///{database}"


def listed(url: str, *arguments: str) -> list[str]:
    ran = perdure("workflow", "list", "--database", url, "--json", *arguments)
    assert ran.code == 0
    return [row["workflow_id"] for row in ran.json]


def test_workflows_are_listed_the_newest_first(url: str) -> None:
    assert listed(url) == ["bad", "fam-3", "fam-1", "fam", "ada"]
    assert listed(url, "--oldest") == ["ada", "fam", "fam-1", "fam-3", "bad"]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (("--state", "error"), ["bad"]),
        (("--state", "SUCCESS", "--name", "welcome"), ["fam-3", "fam-1", "ada"]),
        (("--state", "ERROR", "--state", "SUCCESS", "--limit", "2"), ["bad", "fam-3"]),
        (("--name", "family", "--name", "doomed"), ["bad", "fam"]),
        (("--queue", "none"), []),
        (("--queued",), []),
        (("--parent", "fam"), ["fam-3", "fam-1"]),
        (("--id-prefix", "fam-", "--id-prefix", "a"), ["fam-3", "fam-1", "ada"]),
        (("--attribute", "plan=gold"), ["ada"]),
        (("--attribute", 'plan="gold"', "--attribute", "seats=3"), []),
        (("--version", "app@default", "--state", "ERROR"), ["bad"]),
        (("--executor", "local", "--limit", "1"), ["bad"]),
        (("--executor", "elsewhere"), []),
        (("--since", "1h", "--until", "2100-01-01", "--name", "doomed"), ["bad"]),
        (("--since", "2100-01-01T00:00+01:00"), []),
        (("--until", "1d"), []),
        (("--completed-since", "1h", "--completed-until", "0s", "--limit", "1"), ["bad"]),
        (("--app", "another"), []),
        (("--app", "another", "--any-app", "--limit", "1"), ["bad"]),
    ],
)
def test_filters(url: str, filters: tuple[str, ...], expected: list[str]) -> None:
    assert listed(url, *filters) == expected


def test_what_is_beyond_the_limit_is_mentioned(url: str) -> None:
    ran = perdure("workflow", "list", "--database", url, "--limit", "4")
    said = re.fullmatch(
        r"There are more than these 4: choose with --limit, or go on with --after (\d+\.fam)\n",
        ran.err,
    )
    assert said is not None
    assert listed(url, "--after", said.group(1)) == ["ada"]
    assert perdure("workflow", "list", "--database", url, "--limit", "5").err == ""


def test_the_table_is_plain_and_complete(url: str) -> None:
    lines = perdure("workflow", "list", "--database", url).out.splitlines()
    assert lines[0].split() == ["id", "state", "name", "queue", "created", "took", "attempts"]
    assert [line.split()[:3] for line in lines[1:]] == [
        ["bad", "ERROR", "doomed"],
        ["fam-3", "SUCCESS", "welcome"],
        ["fam-1", "SUCCESS", "welcome"],
        ["fam", "SUCCESS", "family"],
        ["ada", "SUCCESS", "welcome"],
    ]
    assert all(line == line.rstrip() for line in lines)
    nothing = perdure("workflow", "list", "--database", url, "--app", "another")
    assert (nothing.code, nothing.out) == (0, "no workflows of the application 'another' match\n")


def test_one_workflow_with_its_values(url: str) -> None:
    row = perdure("workflow", "get", "ada", "--database", url, "--json").json
    assert row["state"] == "SUCCESS"
    assert row["input"] == {"positionalArgs": ["Ada"], "namedArgs": {"loud": True}}
    assert row["output"] == {"greeting": "HELLO ADA"}
    assert row["error"] is None
    assert row["attributes"] == {"plan": "gold"}
    for instant in ("created_at", "updated_at", "completed_at"):
        assert datetime.fromisoformat(row[instant]).utcoffset() is not None
    text = perdure("workflow", "get", "ada", "--database", url).out
    assert 'input        "Ada", loud=true' in text
    assert 'output       {"greeting": "HELLO ADA"}' in text


def test_its_error_is_shown_without_steering_the_terminal(url: str) -> None:
    row = perdure("workflow", "get", "bad", "--database", url, "--json").json
    assert row["error"]["name"] == "ValueError"
    text = perdure("workflow", "get", "bad", "--database", url).out
    assert "error        ValueError: no\\x1b[31m[bold]way[/bold]" in text


def test_a_workflow_of_another_application_is_found_by_its_id(tmp_path: Path) -> None:
    async def work(url: str) -> None:
        async with Engine(url, workflows=[welcome], name="shop"):
            await welcome.options(id="one")("Ada")

    url = f"sqlite:///{tmp_path}/perdure.db"
    asyncio.run(work(url))
    assert listed(url) == []
    assert listed(url, "--app", "shop") == ["one"]
    assert perdure("workflow", "get", "one", "-d", url, "--json").json["application"] == "shop"


def test_steps_with_their_outcomes(url: str) -> None:
    steps = perdure("workflow", "steps", "fam", "--database", url, "--json").json
    assert [(each["step_id"], each["name"], each["child_workflow_id"]) for each in steps] == [
        (1, "welcome", "fam-1"),
        (2, "DBOS.getResult", "fam-1"),
        (3, "welcome", "fam-3"),
        (4, "DBOS.getResult", "fam-3"),
        (5, "count", None),
        (6, "DBOS.sleep", None),
    ]
    assert [each["output"] for each in steps[:5]] == [
        None,
        {"greeting": "hello Bo"},
        None,
        {"greeting": "hello Cy"},
        2,
    ]
    lines = perdure("workflow", "steps", "fam", "--database", url).out.splitlines()
    assert lines[0].split() == ["step", "name", "started", "took", "outcome"]
    assert lines[1].endswith("started fam-1")
    assert lines[5].endswith("2")
    assert lines[-1] == "6 steps"
    bad = perdure("workflow", "steps", "bad", "--database", url)
    assert "ValueError: no\\x1b[31m" in bad.out


def test_numbers(url: str) -> None:
    ran = perdure("workflow", "count", "--database", url, "--json")
    assert [(each["state"], each["workflows"]) for each in ran.json] == [
        ("SUCCESS", 4),
        ("ERROR", 1),
    ]
    ran = perdure(
        *("workflow", "count", "-d", url, "--by", "name", "--by", "created", "--span", "52w"),
        *("--state", "SUCCESS", "--since", "1h", "--json"),
    )
    assert {(each["name"], each["workflows"]) for each in ran.json} == {
        ("welcome", 3),
        ("family", 1),
    }
    assert datetime.fromisoformat(ran.json[0]["created"]) < datetime.now(UTC)
    lines = perdure("workflow", "count", "--database", url, "--by", "name").out.splitlines()
    assert lines[0].split() == ["name", "workflows", "oldest", "longest", "wait", "longest", "life"]
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["welcome", "3"],
        ["doomed", "1"],
        ["family", "1"],
    ]
    assert lines[4] == "5 workflows"
    assert perdure("workflow", "count", "--database", url, "--by", "colour").code == 2


def test_numbers_of_steps(url: str) -> None:
    ran = perdure("workflow", "count-steps", "--database", url, "--json")
    numbers = {each["name"]: (each["steps"], each["failed"]) for each in ran.json}
    assert numbers == {
        "greet": (3, 0),
        "welcome": (2, 0),
        "DBOS.getResult": (2, 0),
        "count": (1, 0),
        "refuse": (1, 1),
        "DBOS.sleep": (1, 0),
    }
    ran = perdure(
        *("workflow", "count-steps", "-d", url, "--by", "completed", "--by", "name", "--json"),
        *("--span", "52w", "--name", "greet", "--name", "refuse", "--completed-since", "1h"),
    )
    assert [list(each) for each in ran.json] == [
        ["completed", "name", "steps", "failed", "longest_ms"]
    ] * len(ran.json)
    assert {each["name"]: each["steps"] for each in ran.json} == {"greet": 3, "refuse": 1}
    assert datetime.fromisoformat(ran.json[0]["completed"]) < datetime.now(UTC)
    nothing = perdure("workflow", "count-steps", "-d", url, "--completed-until", "1d", "--json")
    assert nothing.json == []


def test_the_table_of_numbers_of_steps(url: str) -> None:
    elsewhere = ("workflow", "count-steps", "--database", url, "--app", "another")
    assert perdure(*elsewhere).out.splitlines()[-1] == "0 steps"
    lines = perdure(*elsewhere, "--any-app").out.splitlines()
    assert lines[0].split() == ["name", "steps", "failed", "longest"]
    assert lines[1].split()[:3] == ["greet", "3", "0"]
    assert ["refuse", "1", "1"] in [line.split()[:3] for line in lines]
    assert lines[-1] == "10 steps"
    assert perdure(*elsewhere, "--by", "colour").code == 2


def test_steps_page_by_page(url: str) -> None:
    ran = perdure("workflow", "steps", "fam", "-d", url, "--limit", "2", "--after", "3", "--json")
    assert [each["step_id"] for each in ran.json] == [4, 5]
    assert ran.err == "There are more: go on with --after 5\n"
    ran = perdure("workflow", "steps", "fam", "-d", url, "--after", "5", "--json")
    assert ([each["step_id"] for each in ran.json], ran.err) == ([6], "")


def test_a_tree(url: str) -> None:
    ran = perdure("workflow", "tree", "fam", "--database", url, "--json")
    assert [(each["depth"], each["workflow_id"]) for each in ran.json] == [
        (0, "fam"),
        (1, "fam-1"),
        (1, "fam-3"),
    ]
    lines = perdure("workflow", "tree", "fam", "--database", url).out.splitlines()
    assert lines[0].split()[:3] == ["id", "state", "name"]
    assert [line.split("  ")[0] for line in lines[1:4]] == ["fam", "├─ fam-1", "└─ fam-3"]
    assert lines[4] == "3 workflows"
    ran = perdure("workflow", "tree", "fam", "--database", url, "--limit", "1")
    assert ran.code == 2
    assert "more than 1 descendants" in ran.err


def test_the_lines_of_a_tree() -> None:
    depths = [0, 1, 2, 3, 2, 1, 2]
    row = workflow_row({**dict.fromkeys(WORKFLOW_COLUMNS), "workflow_uuid": "w", "status": "ERROR"})
    assert tables._lines([Branch(depth, row) for depth in depths]) == [  # noqa: SLF001
        "",
        "├─ ",
        "│  ├─ ",
        "│  │  └─ ",
        "│  └─ ",
        "└─ ",
        "   └─ ",
    ]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (("--since", "soon"), "neither an instant"),
        (("--attribute", "plan"), "KEY=VALUE"),
        (("--after", "nowhere"), "after='nowhere'"),
        (("--limit", "100000"), "10000"),
        (("--state", "BROKEN"), "BROKEN"),
    ],
)
def test_what_is_wrong_is_named(url: str, wrong: tuple[str, ...], named: str) -> None:
    ran = perdure("workflow", "list", "--database", url, *wrong)
    assert ran.code == 2
    assert named in ran.err


@pytest.mark.parametrize("command", ["get", "steps", "tree"])
def test_an_unknown_id_is_an_error(url: str, command: str) -> None:
    ran: Ran = perdure("workflow", command, "nobody", "--database", url)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "perdure: no workflow has the id 'nobody'\n"


def test_what_is_in_another_format_is_shown_raw(database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with (
        contextlib.closing(sqlite3.connect(database)) as source,
        contextlib.closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
        target.execute("UPDATE workflow_status SET serialization = 'py_pickle'")
        target.execute("UPDATE workflow_output SET output = 'gASVBQAAAAAAAABLKi4='")
        target.execute("UPDATE operation_outputs SET serialization = 'js_superjson'")
        target.commit()
    url = f"sqlite:///{copy}"
    row = perdure("workflow", "get", "ada", "--database", url, "--json").json
    assert (row["serialization"], row["output"]) == ("py_pickle", "gASVBQAAAAAAAABLKi4=")
    assert json.loads(row["input"])["positionalArgs"] == ["Ada"]
    steps = perdure("workflow", "steps", "ada", "--database", url, "--json").json
    assert steps[0]["output"] == '"hello Ada"'


def test_a_database_without_a_schema_stays_without_one(tmp_path: Path) -> None:
    ran = perdure("workflow", "list", "--database", f"sqlite:///{tmp_path}/none.db")
    assert ran.code == 1
    assert "perdure migrate" in ran.err
    assert list(tmp_path.iterdir()) == []


async def test_on_postgres_too(postgres_url: str) -> None:
    await _work(postgres_url)
    ran = await asyncio.to_thread(perdure, "workflow", "list", "-d", postgres_url, "--json")
    assert {row["workflow_id"]: row["state"] for row in ran.json} == {
        "ada": "SUCCESS",
        "fam": "SUCCESS",
        "fam-1": "SUCCESS",
        "fam-3": "SUCCESS",
        "bad": "ERROR",
    }
    ran = await asyncio.to_thread(perdure, "workflow", "steps", "ada", "-d", postgres_url, "--json")
    assert [each["output"] for each in ran.json] == ["hello Ada"]
