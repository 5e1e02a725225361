"""How tables are drawn: on a terminal, or as plain lines for a program that searches them."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perdure.cli.wording import printable
from perdure.logic.phrases import duration

_UNBOUNDED = 1_000_000
"""Where no terminal bounds the width nothing is folded, so that the output can be searched."""

_LONGEST_CELL = 120

_WHOLE = frozenset({"id", "state", "step", "queue", "version", "offset"})
"""Columns that are folded last where a terminal is narrow."""


def draw(table: Table) -> None:
    """Draw a table on the terminal, or as plain lines without its padding."""
    console = Console(highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        console.print(table)
        return
    console.width = _UNBOUNDED
    with console.capture() as drawn:
        console.print(table)
    for line in drawn.get().splitlines():
        print(line.rstrip())


def grid(*columns: str) -> Table:
    """A table with a line for each thing."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in _WHOLE)
    return table


def sheet() -> Table:
    """A table of two columns: what it is, and the value."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def fill(table: Table, details: Iterable[tuple[str, object]]) -> None:
    """Add to a sheet what there is to say."""
    for what, value in details:
        if value not in (None, ""):
            table.add_row(what, Text(printable(str(value))))


def texts(*values: object) -> Iterable[Text]:
    """Cells without markup: what is stored is not ours to interpret."""
    return [Text(printable("" if value is None else str(value))) for value in values]


def took(start_ms: int | None, end_ms: int | None) -> str:
    """The time between two instants."""
    if start_ms is None or end_ms is None:
        return ""
    return duration(max(end_ms - start_ms, 0) / 1000)


def shortened(text: str) -> str:
    """A text that would make its line too long, without its end."""
    shown = printable(text)
    return shown if len(shown) <= _LONGEST_CELL else f"{shown[: _LONGEST_CELL - 1]}…"
