"""The program run inside the test's process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from perdure.cli.program import program


@dataclass(frozen=True)
class Ran:
    """How a call of the program ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


def perdure(
    *arguments: str | Path, env: dict[str, str] | None = None, typed: str | None = None
) -> Ran:
    """Run the program, which reads `typed`; an exception that leaves it fails the test."""
    result = CliRunner().invoke(program, [str(each) for each in arguments], typed, env)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)
