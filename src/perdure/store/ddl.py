"""Schema statements kept in `.sql` files, and their rendering for one schema name.

Each statement stands under a `-- name:` line; comment lines before the statement say why. Nothing
is put into a statement but quoted identifiers and texts of our own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a schema: its name, and its text without a final semicolon."""

    name: str
    text: str


@cache
def statements(package: str, file: str) -> Mapping[str, Statement]:
    """The statements of `ddl/<file>.sql` in the package by name, in order, not yet rendered."""
    text = files(package).joinpath("ddl", f"{file}.sql").read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    return {
        name: Statement(name, _statement_alone(body))
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def render(statement: Statement, values: Mapping[str, str]) -> Statement:
    """The statement with `{key}` replaced by `values[key]`, in one pass.

    One pass, because a quoted name may itself contain what looks like a placeholder. Braces around
    anything that is no key stay as they are.
    """

    def value(match: re.Match[str]) -> str:
        return values.get(match[1], match[0])

    return Statement(statement.name, _PLACEHOLDER.sub(value, statement.text))


def dollar_quote(*names: str) -> str:
    """A dollar quote that none of the names contains, so that no name can end a function's body."""
    tag = "body"
    while any(f"${tag}$" in name for name in names):
        tag += "_"
    return f"${tag}$"


def _statement_alone(body: str) -> str:
    lines = body.strip().splitlines()
    while lines and lines[0].startswith("--"):
        del lines[0]
    return "\n".join(lines).removesuffix(";")
