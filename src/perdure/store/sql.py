"""Loads the named queries a store keeps in its `sql/*.sql` files.

A query begins with a line `-- name: <name>`, followed by comment lines that describe it and then
by its text. `-- fragment: <name>` begins a piece of text that other queries include. In a text

    {schema} {own}     are the quoted names of the shared schema and of our own,
    {step_columns:s}   is a column list of `rows.py`, each column prefixed with the alias `s`,
    {fragment_name}    is that fragment of the same store,
    {fragment_name:x}  is the fragment with `x` in place of its `{arg}`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from perdure.store.rows import COLUMN_LISTS

_HEAD = re.compile(r"^-- (name|fragment): (\w+)\n", re.MULTILINE)
_PLACE = re.compile(r"\{(\w+)(?::(\w+))?\}")


@dataclass(frozen=True, slots=True)
class Block:
    """One query or fragment as it stands in its file."""

    kind: str
    name: str
    description: str
    text: str


class Queries(Mapping[str, str]):
    """The queries of one store by name, ready to be sent."""

    def __init__(self, package: str, identifiers: Mapping[str, str] | None = None) -> None:
        """Load every file of `<package>/sql`; `identifiers` are quoted already."""
        blocks = read_blocks(package)
        fragments = {b.name: b.text for b in blocks if b.kind == "fragment"}
        places = {**fragments, **(identifiers or {})}
        self._texts = {b.name: _fill(b.text, places) for b in blocks if b.kind == "name"}

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def read_blocks(package: str) -> list[Block]:
    """Every query and fragment of `<package>/sql`, file by file in the order of their names.

    Raises `ValueError` for a name that stands twice or a block without a description.
    """
    folder = files(package).joinpath("sql")
    found: dict[str, Block] = {}
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            for block in parse(file.read_text(encoding="utf-8")):
                if block.name in found:
                    raise ValueError(f"{package}: {block.name!r} stands twice")
                found[block.name] = block
    return list(found.values())


def parse(text: str) -> Iterator[Block]:
    """The blocks of one file; what stands before the first head is the file's own comment."""
    _, *parts = _HEAD.split(text)
    for kind, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        lines = body.strip().splitlines()
        count = next((i for i, line in enumerate(lines) if not line.startswith("--")), len(lines))
        description = " ".join(line.removeprefix("--").strip() for line in lines[:count])
        if not description:
            raise ValueError(f"{name!r} has no description")
        yield Block(kind, name, description, "\n".join(lines[count:]).strip().removesuffix(";"))


def _fill(text: str, places: Mapping[str, str]) -> str:
    def fill(match: re.Match[str]) -> str:
        name, argument = match.groups()
        if name in COLUMN_LISTS:
            return columns(COLUMN_LISTS[name], argument)
        # An identifier may itself contain what looks like a place; only fragments are filled again.
        if name in ("schema", "own"):
            return places[name]
        return _fill(places[name].replace("{arg}", argument or ""), places)

    return _PLACE.sub(fill, text)


def columns(names: tuple[str, ...], alias: str | None = None) -> str:
    """The names as a select list, each prefixed with the alias if there is one."""
    prefix = f"{alias}." if alias else ""
    return ", ".join(f"{prefix}{name}" for name in names)
