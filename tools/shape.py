"""Checks the size of modules, classes and functions against the ceilings of the project.

Use: `python tools/shape.py`. Branches, complexity and parameters are checked by ruff. Exemptions
stand with their reasons in `[tool.shape.exempt]` of pyproject.toml, keyed by `path` for a module
and `path:qualified.name` for what is inside; one that is no longer needed is an error.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "tools", "benchmarks", "examples")
MODULE_LINES = 500
CLASS_LINES = 350
CLASS_METHODS = 20
FUNCTION_LINES = 60

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Excess:
    """Something over its ceiling; `key` is what an exemption names."""

    key: str
    line: int
    message: str


def excesses(source: str, path: str) -> Iterator[Excess]:
    """All that is too large in one module."""
    lines = len(source.splitlines())
    if lines > MODULE_LINES:
        yield Excess(path, 1, f"module of {lines} lines, at most {MODULE_LINES}")
    for name, node in definitions(ast.parse(source, path)):
        for message in _faults(node):
            yield Excess(f"{path}:{name}", node.lineno, f"{name}: {message}")


def definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.ClassDef | Function]]:
    """Every class and function with its qualified name, also those inside others."""
    for node in ast.iter_child_nodes(tree):
        inner = prefix
        if isinstance(node, ast.ClassDef | Function):
            inner = f"{prefix}{node.name}."
            yield prefix + node.name, node
        yield from definitions(node, inner)


def _faults(node: ast.ClassDef | Function) -> Iterator[str]:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if not isinstance(node, ast.ClassDef):
        if lines > FUNCTION_LINES:
            yield f"function of {lines} lines, at most {FUNCTION_LINES}"
        return
    if lines > CLASS_LINES:
        yield f"class of {lines} lines, at most {CLASS_LINES}"
    methods = {m.name for m in node.body if isinstance(m, Function) and not m.name.startswith("_")}
    if len(methods) > CLASS_METHODS:
        yield f"class of {len(methods)} public methods, at most {CLASS_METHODS}"


def verdicts(found: list[Excess], exempt: dict[str, str]) -> list[str]:
    """What is wrong, one line each."""
    wrong = [f"{e.key.split(':')[0]}:{e.line}: {e.message}" for e in found if e.key not in exempt]
    keys = {e.key for e in found}
    wrong += [
        f"pyproject.toml: exemption of {key} is not needed" for key in exempt if key not in keys
    ]
    wrong += [
        f"pyproject.toml: exemption of {key} gives no reason"
        for key, why in exempt.items()
        if not why.strip()
    ]
    return wrong


def main() -> int:
    configuration = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    exempt: dict[str, str] = configuration["tool"].get("shape", {}).get("exempt", {})
    found: list[Excess] = []
    count = 0
    for folder in FOLDERS:
        for file in sorted((PROJECT / folder).rglob("*.py")):
            count += 1
            path = file.relative_to(PROJECT).as_posix()
            found += excesses(file.read_text(encoding="utf-8"), path)
    wrong = verdicts(found, exempt)
    print("\n".join(wrong) if wrong else f"{count} modules are within their ceilings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
