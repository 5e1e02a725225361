"""What must hold for every file of the project and no other check looks at."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

from tests.support.process import PROJECT

# A module's name says what it holds; these say nothing.
EMPTY_NAMES = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}
# Places of one machine. Written as a class of one letter, or this line would find itself.
MACHINE_PATH = re.compile(r"/[w]ork/|/[r]oot/|/[U]sers/|/[h]ome/(?!linuxbrew/)|/[t]mp/v/")


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [name for name in listed.stdout.split("\0") if name]
    return [PROJECT / name for name in names if (PROJECT / name).is_file()]


def test_no_module_or_folder_has_an_empty_name() -> None:
    named = {
        f"{file.relative_to(PROJECT)}"
        for file in tracked_files()
        if file.suffix == ".py"
        for part in file.relative_to(PROJECT).with_suffix("").parts
        if EMPTY_NAMES.intersection(part.lower().split("_"))
    }
    assert named == set()


def test_no_file_names_a_place_of_one_machine() -> None:
    found = []
    for file in tracked_files():
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{file.relative_to(PROJECT)}:{number}"
            for number, line in enumerate(text.splitlines(), 1)
            if MACHINE_PATH.search(line)
        ]
    assert found == []


def test_pure_layers_have_nothing_to_await() -> None:
    awaiting = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
    found = [
        str(file.relative_to(PROJECT))
        for layer in ("logic", "model")
        for file in (PROJECT / "src" / "perdure" / layer).rglob("*.py")
        if any(isinstance(node, awaiting) for node in ast.walk(ast.parse(file.read_text())))
    ]
    assert found == []


_ASSERTING = re.compile("raises|warns|wait_until|eventually|succeed")


def asserts_something(test: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and _ASSERTING.search(ast.unparse(node.func)))
        for node in ast.walk(test)
    )


def test_a_test_asserts_something_or_says_what_its_end_proves() -> None:
    found = []
    for file in sorted((PROJECT / "tests").rglob("test_*.py")):
        found += [
            f"{file.relative_to(PROJECT)}:{node.lineno} {node.name}"
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("test_")
            and not asserts_something(node)
            and not ast.get_docstring(node)
        ]
    assert found == []
