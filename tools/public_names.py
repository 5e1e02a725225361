"""Compares the public names of the package with their snapshot, one name a line.

Use: `python tools/public_names.py` checks, `--update` writes the snapshot. A name that goes away
or changes is a change users notice: it belongs into a news fragment.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PACKAGE = PROJECT / "src" / "perdure" / "__init__.py"
SNAPSHOT = PROJECT / "tests" / "meta" / "public_names.txt"


def public_names() -> list[str]:
    """What `from perdure import *` gives, in the order the package states it."""
    for node in ast.parse(PACKAGE.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    raise SystemExit(f"{PACKAGE.relative_to(PROJECT)} states no __all__")


def differences() -> list[str]:
    """What the package and the snapshot disagree on; empty when they agree."""
    recorded = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    now = public_names()
    wrong = [f"new: {name}" for name in now if name not in recorded]
    wrong += [f"gone: {name}" for name in recorded if name not in now]
    return wrong


def main() -> int:
    if "--update" in sys.argv[1:]:
        SNAPSHOT.write_text("".join(f"{name}\n" for name in public_names()), encoding="utf-8")
        return 0
    wrong = differences()
    print("\n".join(wrong) if wrong else f"{len(public_names())} public names, as recorded")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
