"""What the documentation of the first steps and of the command line says is so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from perdure.api.filters import FilterOptions
from perdure.api.management import Workflows
from perdure.cli.program import program
from perdure.logic.explaining import Cause
from tests.edges.program import perdure
from tests.edges.records import end_sleeps, recorded
from tests.support.process import PROJECT, ChildProcess
from tests.support.waiting import wait_until

TUTORIAL = (PROJECT / "docs/tutorial/first-steps.md").read_text(encoding="utf-8")
COMMAND_LINE = (PROJECT / "docs/howto/command-line.md").read_text(encoding="utf-8")
QUEUES = (PROJECT / "docs/howto/queues.md").read_text(encoding="utf-8")
LOOKING = (PROJECT / "docs/howto/looking.md").read_text(encoding="utf-8")
WAITING = (PROJECT / "docs/howto/waiting-work.md").read_text(encoding="utf-8")
MANAGEMENT = (PROJECT / "docs/howto/management.md").read_text(encoding="utf-8")
MESSAGES = (PROJECT / "docs/howto/messages.md").read_text(encoding="utf-8")
CONCURRENCY = (PROJECT / "docs/howto/concurrency.md").read_text(encoding="utf-8")
CHANGING = (PROJECT / "docs/howto/changing-code.md").read_text(encoding="utf-8")
CLIENTS = (PROJECT / "docs/howto/clients.md").read_text(encoding="utf-8")
USERS = (PROJECT / "docs/howto/users-and-roles.md").read_text(encoding="utf-8")
APPLICATIONS = (PROJECT / "docs/howto/applications.md").read_text(encoding="utf-8")
REPAIRING = (PROJECT / "docs/howto/repairing.md").read_text(encoding="utf-8")
RETENTION = (PROJECT / "docs/howto/retention.md").read_text(encoding="utf-8")
VERSIONS = (PROJECT / "docs/howto/versions.md").read_text(encoding="utf-8")
VALUES = (PROJECT / "docs/explanation/values.md").read_text(encoding="utf-8")
REPLAY = (PROJECT / "docs/explanation/replay.md").read_text(encoding="utf-8")


def blocks(page: str) -> list[str]:
    """The programs a page shows."""
    return re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


BLOCKS = blocks(TUTORIAL)


def test_the_trip_goes_on_as_the_tutorial_shows_it(tmp_path: Path) -> None:
    script = tmp_path / "trip.py"
    script.write_text(BLOCKS[0].replace("seconds=5", "seconds=600"), encoding="utf-8")
    with ChildProcess(script, cwd=tmp_path) as child:
        child.wait_for("booking a flight to Lisbon")
        wait_until(lambda: recorded(tmp_path / "trips.db", "DBOS.sleep"))
        child.kill()
    end_sleeps(tmp_path / "trips.db")
    shown = ["booking a hotel in Lisbon", "['flight to Lisbon', 'hotel in Lisbon']"]
    assert "\n".join(shown) in TUTORIAL
    for expected in (shown, shown[1:]):
        with ChildProcess(script, cwd=tmp_path) as child:
            assert child.succeed() == expected


def test_the_queue_of_the_page_about_queues_runs(tmp_path: Path) -> None:
    script = tmp_path / "media.py"
    script.write_text(blocks(QUEUES)[0], encoding="utf-8")
    with ChildProcess(script, cwd=tmp_path) as child:
        assert child.succeed() == ["['intro.mp4', 'talk.mp4', 'outro.mp4']"]


def test_the_shop_of_the_page_about_looking_runs(tmp_path: Path) -> None:
    script = tmp_path / "shop.py"
    script.write_text(blocks(LOOKING)[0], encoding="utf-8")
    with ChildProcess(script, cwd=tmp_path) as child:
        shown = child.succeed()
    assert "\n".join(shown) in LOOKING


def test_the_page_about_looking_names_every_condition() -> None:
    for option in FilterOptions.__annotations__:
        bare = option if not option.startswith(("started", "completed")) else option.split("_")[0]
        assert f"`{bare}" in LOOKING, option


def test_the_order_of_the_page_about_messages_runs(tmp_path: Path) -> None:
    script = tmp_path / "orders.py"
    script.write_text(blocks(MESSAGES)[0], encoding="utf-8")
    with ChildProcess(script, cwd=tmp_path) as child:
        assert child.succeed() == [
            "waits for a decision",
            "picked",
            "packed",
            "sent",
            "kettle sent, approved by Ada",
        ]


def test_the_commands_of_the_page_about_repairing_work(tmp_path: Path) -> None:
    """On the orders of its example: forks are made once more, and then the sources rewound."""
    with ChildProcess(PROJECT / "examples/repair.py", cwd=tmp_path) as child:
        child.succeed()
    environment = {"DBOS_SYSTEM_DATABASE_URL": f"sqlite:///{tmp_path / 'repair.db'}"}
    shown = re.findall(r"^perdure ([^|\n]*)", REPAIRING, re.MULTILINE)
    said = {}
    for line in sorted(shown, key=lambda line: "rewind" in line):
        ran = perdure(*line.split(), env=environment, typed="y\n")
        assert ran.code == 0, ran.err
        said[line.split()[1]] = ran.out
    assert re.search(r"^ERROR +4 ", said["count"], re.MULTILINE)
    assert said["list"].count('"name": "KeyError"') == 4
    assert "KeyError: 'CH'" in said["steps"]
    assert said["fork"].endswith("forked: 4 workflows\n")
    assert said["rewind"].endswith("rewound: 4 workflows\n")


@pytest.mark.parametrize("cause", Cause)
def test_every_answer_of_explain_is_on_its_page(cause: Cause) -> None:
    assert f"| `{cause.value}` |" in WAITING


@pytest.mark.parametrize("command", [name for name in vars(Workflows) if name[0] != "_"])
def test_every_command_is_on_its_page(command: str) -> None:
    assert re.search(rf"(`|\.){command}\b", MANAGEMENT)


@pytest.mark.parametrize(
    "block",
    [
        *BLOCKS[1:],
        *blocks(QUEUES)[1:],
        *blocks(MESSAGES)[1:],
        *blocks(MANAGEMENT),
        *blocks(CONCURRENCY),
        *blocks(REPLAY),
        *blocks(CHANGING),
        *blocks(CLIENTS),
        *blocks(USERS),
        *blocks(VALUES),
        *blocks(APPLICATIONS),
        *blocks(REPAIRING),
        *blocks(RETENTION),
        *blocks(VERSIONS),
    ],
)
def test_the_other_code_of_the_pages_stands_by_itself(block: str, tmp_path: Path) -> None:
    script = tmp_path / "block.py"
    script.write_text(block, encoding="utf-8")
    with ChildProcess(script, cwd=tmp_path) as child:
        assert child.succeed() == []


def options() -> Iterator[tuple[str, str]]:
    """Every command with every option it has."""

    def below(command: object, path: str) -> Iterator[tuple[str, str]]:
        for parameter in command.params:  # type: ignore[attr-defined]
            for option in (*parameter.opts, *parameter.secondary_opts):
                if option.startswith("-"):
                    yield path, option
        for name, inner in getattr(command, "commands", {}).items():
            yield from below(inner, f"{path} {name}".strip())

    yield from below(get_command(program), "")


@pytest.mark.parametrize(("command", "option"), sorted(set(options())))
def test_every_command_and_option_is_on_the_page(command: str, option: str) -> None:
    assert f"perdure {command}".strip() in COMMAND_LINE
    assert re.search(rf"(?<![\w-]){re.escape(option)}\b", COMMAND_LINE)


def test_the_page_names_no_option_that_is_not_there() -> None:
    known = {option for _, option in options()} | {"--help"}
    assert set(re.findall(r"(?<![\w|-])--[a-z][a-z-]*", COMMAND_LINE)) - known == set()
