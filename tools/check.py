"""Runs every check of the project and says what failed.

Use: `python tools/check.py` runs all, `python tools/check.py types shape` the named ones.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).parents[1]

CHECKS: dict[str, list[str]] = {
    "format": ["ruff", "format", "--check", "."],
    "lint": ["ruff", "check", "."],
    "types": ["mypy"],
    "public-types": ["pyright", "--pythonpath", sys.executable],
    "layers": ["importlinter.cli", "lint-imports", "--no-logo"],
    "shape": ["tools/shape.py"],
    "public-names": ["tools/public_names.py"],
    "repetition": ["pylint", "src", "tools"],
    "links": ["tools/links.py"],
    "news": ["towncrier", "build", "--draft", "--version", "next"],
}


def command(arguments: list[str]) -> list[str]:
    """How to run a check with this interpreter, whatever the PATH is."""
    program, *rest = arguments
    if program.endswith(".py"):
        return [sys.executable, program, *rest]
    if program == "importlinter.cli":
        # It has no `-m` form.
        call = "from importlinter.cli import lint_imports_command as c; c()"
        return [sys.executable, "-c", call, *rest[1:]]
    return [sys.executable, "-m", program, *rest]


def main() -> int:
    chosen = sys.argv[1:] or list(CHECKS)
    unknown = [name for name in chosen if name not in CHECKS]
    if unknown:
        print(f"no such check: {', '.join(unknown)}; there are {', '.join(CHECKS)}")
        return 2
    failed = []
    for name in chosen:
        print(f"\n== {name}", flush=True)
        began = time.monotonic()
        code = subprocess.run(command(CHECKS[name]), cwd=PROJECT, check=False).returncode
        print(
            f"-- {name}: {'failed' if code else 'ok'} in {time.monotonic() - began:.1f} s",
            flush=True,
        )
        if code:
            failed.append(name)
    print(
        f"\nchecks failed: {', '.join(failed)}" if failed else f"\nall {len(chosen)} checks passed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
