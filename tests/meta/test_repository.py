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


_Function = ast.FunctionDef | ast.AsyncFunctionDef
_ASSERTING = re.compile("raises|warns|wait_until|eventually|succeed")


def called(function: _Function) -> set[str]:
    """The last names of all that a function calls."""
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return {ast.unparse(call).rpartition(".")[2] for call in calls}


def asserting(functions: list[_Function]) -> set[str]:
    """The names of functions that assert something, by themselves or through one they call."""
    found = {
        function.name
        for function in functions
        if any(isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(function))
        or any(_ASSERTING.search(name) for name in called(function))
    }
    while more := {f.name for f in functions if f.name not in found and called(f) & found}:
        found |= more
    return found


def test_a_test_asserts_something_or_says_what_its_end_proves() -> None:
    functions: list[_Function] = []
    silent: list[tuple[Path, _Function]] = []
    for file in sorted((PROJECT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, _Function):
                functions.append(node)
                if node.name.startswith("test_") and not ast.get_docstring(node):
                    silent.append((file, node))
    known = asserting(functions)
    assert [f"{file.name}: {test.name}" for file, test in silent if test.name not in known] == []
