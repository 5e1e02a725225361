"""The real other SDKs, installed once into a cache of their own, for tests against them.

A conftest that imports a fixture from here makes it available to its folder. `dbos` comes from
PyPI and lives in a virtual environment; `PERDURE_TEST_DBOS_PYTHON` may name an interpreter that
has it instead. The TypeScript SDK comes from npm.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

DBOS_VERSION = "3.4.0"
DBOS_VARIABLE = "PERDURE_TEST_DBOS_PYTHON"
TYPESCRIPT_VERSION = "5.3.0"
"""A release that leaves the schema at version 123."""

NO_DBOS_FILES = "dbos cannot write a SQLite file under this Python with this SQLite library"
dbos_writes_files = sys.version_info < (3, 12) or sqlite3.sqlite_version_info >= (3, 42)
"""It asks the library for fractions of a second, which older ones answer with NULL."""

dbos_makes_files = pytest.mark.skipif(not dbos_writes_files, reason=NO_DBOS_FILES)
"""For tests in which the real `dbos` creates a SQLite file."""

_INSTALL_S = 300
_LAUNCH_S = 60
_PROGRAMS = Path(__file__).with_name("reference_programs")


@pytest.fixture(scope="session")
def dbos_python() -> Path:
    """An interpreter that has the real `dbos`, and psycopg."""
    given = os.environ.get(DBOS_VARIABLE)
    if given:
        return Path(given)
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folder = _installed_once(f"dbos-{DBOS_VERSION}-{python}", _install_dbos)
    return _interpreter(folder)


@pytest.fixture(scope="session")
def typescript_sdk() -> Path:
    """A folder whose `node_modules` has the real TypeScript SDK; skips where there is no Node."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("no Node on this machine")
    return _installed_once(f"dbos-sdk-{TYPESCRIPT_VERSION}", _install_typescript_sdk)


def launch_dbos(python: Path, url: str, schema: str = "dbos", *, listen: bool = True) -> None:
    """Launch an application of the real `dbos` on that database and shut it down again."""
    arguments = [url, schema, "listen" if listen else "poll"]
    _run([str(python), str(_PROGRAMS / "launch_dbos.py"), *arguments], _LAUNCH_S)


def launch_typescript(folder: Path, url: str, schema: str = "dbos") -> None:
    """The same with the TypeScript SDK in that folder."""
    program = folder / "launch.mjs"
    shutil.copyfile(_PROGRAMS / "launch_typescript.mjs", program)
    _run(["node", str(program), url, schema], _LAUNCH_S)


def read_with_typescript(folder: Path, url: str, *ids: str) -> list[dict[str, Any]]:
    """What a client of the TypeScript SDK in that folder sees of these workflows."""
    program = folder / "read.mjs"
    shutil.copyfile(_PROGRAMS / "read_typescript.mjs", program)
    lines = _run(["node", str(program), url, *ids], _LAUNCH_S)
    # Node says on the same terminal what it thinks of its libraries.
    return [json.loads(line) for line in lines if line.startswith("{")]


def _installed_once(name: str, install: Callable[[Path], None]) -> Path:
    """The folder of that name in the cache, filled by `install` if nobody has filled it yet."""
    folder = _cache() / name
    complete = folder / ".complete"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock", timeout=_INSTALL_S):
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            install(folder)
            complete.touch()
    return folder


def _cache() -> Path:
    if sys.platform == "win32":
        parent = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        parent = "~/Library/Caches"
    else:
        parent = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(parent).expanduser() / "perdure-tests"


def _install_dbos(folder: Path) -> None:
    venv.create(folder, with_pip=True)
    wanted = [f"dbos=={DBOS_VERSION}", "psycopg[binary]"]
    _run([str(_interpreter(folder)), "-m", "pip", "install", "--quiet", *wanted], _INSTALL_S)


def _interpreter(folder: Path) -> Path:
    scripts = "Scripts/python.exe" if sys.platform == "win32" else "bin/python"
    return folder / scripts


def _install_typescript_sdk(folder: Path) -> None:
    (folder / "package.json").write_text('{"private": true, "type": "module"}\n')
    wanted = f"@dbos-inc/dbos-sdk@{TYPESCRIPT_VERSION}"
    npm = shutil.which("npm") or "npm"
    _run([npm, "--prefix", str(folder), "install", "--no-audit", "--no-fund", wanted], _INSTALL_S)


def _run(command: list[str], timeout_s: float) -> list[str]:
    """The lines it printed, once it ended well."""
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert ended.returncode == 0, f"{command} ended with {ended.returncode}:\n{ended.stdout}"
    return ended.stdout.splitlines()
