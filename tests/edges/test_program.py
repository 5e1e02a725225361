"""The program as a whole: what it says when something is wrong, and how it starts."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from perdure.cli import migrate
from perdure.errors import ConfigurationError, DatabaseUnavailable, InvalidArgument, PerdureError
from tests.edges.program import perdure
from tests.support.process import ChildProcess


def test_the_version_is_the_package_s() -> None:
    assert perdure("--version").out == f"perdure {version('perdure')}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("demo", "--help"),
        ("migrate", "--help"),
        ("workflow", "--help"),
        ("queue", "--help"),
        ("queue", "set", "--help"),
    ],
)
def test_help_is_plain_text_that_names_what_there_is(arguments: tuple[str, ...]) -> None:
    ran = perdure(*arguments)
    assert ran.code == 0
    assert "Usage: " in ran.out
    assert "╭" not in ran.out


def test_the_program_of_the_package_and_the_module_are_one() -> None:
    with ChildProcess("-m", "perdure.cli", "--version") as child:
        assert child.succeed() == [f"perdure {version('perdure')}"]
    program = Path(sys.executable).with_name("perdure")
    with ChildProcess("-c", f"import os; os.execv({str(program)!r}, ['perdure', '--version'])") as (
        child
    ):
        assert child.succeed() == [f"perdure {version('perdure')}"]


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_it_says_how_to_install_it(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from perdure.cli.main import main; main()"
    with ChildProcess("-c", code) as child:
        assert child.wait() == 1
        assert f"needs {missing}, which is not installed" in child.errors
        assert "pip install 'perdure[cli]'" in child.errors
        assert "Traceback" not in child.errors


def test_starting_imports_nothing_that_only_some_commands_need() -> None:
    code = (
        "import sys, perdure.cli.program; "
        "print(sorted({'rich', 'asyncpg', 'sqlite3', 'importlib.metadata', "
        "'perdure.cli.tables', 'perdure.cli.demo.workflows'} & set(sys.modules)))"
    )
    with ChildProcess("-c", code) as child:
        assert child.succeed() == ["[]"]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ConfigurationError("this cannot be"), 2, "perdure: this cannot be\n"),
        (InvalidArgument("nor that"), 2, "perdure: nor that\n"),
        (DatabaseUnavailable("it is gone"), 1, "perdure: it is gone\n"),
        (PerdureError("no"), 1, "perdure: no\n"),
        (PermissionError(13, "Permission denied", "/x"), 1, "Permission denied: '/x'\n"),
        (KeyError("oh"), 1, "internal error, KeyError: 'oh'; `perdure --debug …` shows where\n"),
    ],
)
def test_an_error_is_one_sentence_and_with_debug_an_exception(
    error: Exception, code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(migrate, "required", fail)
    ran = perdure("migrate", "--database", "memory:")
    assert ran.code == code
    assert ran.err.endswith(message)
    assert ran.err.count("\n") == 1
    with pytest.raises(type(error)):
        perdure("--debug", "migrate", "--database", "memory:")


@pytest.mark.parametrize(
    "arguments",
    [
        ("migrate",),
        ("workflow", "list"),
        ("workflow", "get", "x"),
        ("queue", "list"),
        ("queue", "pause", "x"),
    ],
)
def test_without_a_database_it_asks_for_one(arguments: tuple[str, ...]) -> None:
    ran = perdure(*arguments, env={"DBOS_SYSTEM_DATABASE_URL": ""})
    assert ran.code == 2
    assert re.search(r"no database: give --database URL .* DBOS_SYSTEM_DATABASE_URL", ran.err)


@pytest.mark.parametrize("arguments", [("workflow", "lst"), ("workflow", "get"), ("--nothing",)])
def test_wrong_use_is_code_two(arguments: tuple[str, ...]) -> None:
    ran = perdure(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert "Error: " in ran.err


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/perdure.db"
    code = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-m', 'perdure.cli', "
        f"'migrate', '--print', '-d', {url!r}], stdout=subprocess.PIPE, stderr=subprocess.PIPE); "
        "p.stdout.close(); print(p.stderr.read().decode())"
    )
    with ChildProcess("-c", code) as child:
        assert child.succeed() == [""]


def test_completion_is_offered() -> None:
    environment = {
        "_PERDURE_COMPLETE": "complete_bash",
        "COMP_WORDS": "perdure work",
        "COMP_CWORD": "1",
    }
    with ChildProcess("-m", "perdure.cli", env=environment) as child:
        assert child.succeed() == ["workflow"]
