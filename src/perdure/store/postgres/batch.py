"""How a batch of rows travels to the server: one text for each column.

`sql/batch.sql` has the other end. asyncpg takes a microsecond for each value of an array; joining
the values takes a twentieth of that, and the server takes them apart as fast.
"""

import secrets
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeVar

from perdure.errors import DatabaseConflict
from perdure.store.postgres.failures import DuplicateKey

T = TypeVar("T")
A = TypeVar("A")

SEPARATOR = "\x1f"
"""Between values. JSON text never holds it; other values may, and then another one is found."""

NULL = "\x1e"
"""In place of a value that is None."""


def packed(rows: Sequence[Sequence[Any]], numbers: AbstractSet[int] = frozenset()) -> list[Any]:
    """`[separator, null, column, …]`, the first parameters of a statement over at least one row.

    The fields at the positions in `numbers` are whole numbers, the others texts; both may be None.
    """
    if len(rows) == 1:
        # A lone step has this once for each of its round trips: a tenth of their time counts.
        single = _packed_row(rows[0], numbers)
        if single is not None:
            return single
    return packed_columns(list(zip(*rows, strict=True)), numbers)


def packed_columns(
    columns: Sequence[Sequence[Any]], numbers: AbstractSet[int] = frozenset()
) -> list[Any]:
    """The same of columns, none of which is empty."""
    separator, null = SEPARATOR, NULL
    while True:
        try:
            return [
                separator,
                null,
                *[
                    packed_numbers(column)
                    if position in numbers
                    else _texts(column, separator, null)
                    for position, column in enumerate(columns)
                ],
            ]
        except _AmbiguousError:
            token = secrets.token_hex(8)
            separator, null = f"{SEPARATOR}{token}{SEPARATOR}", f"{NULL}{token}{NULL}"


def packed_list(values: Sequence[str]) -> list[Any]:
    """The same of a single column of texts, which may be empty."""
    return packed_columns([values]) if values else [SEPARATOR, NULL, None]


def transposed(rows: Sequence[Sequence[Any]], width: int) -> list[Sequence[Any]]:
    """The columns of rows of that width, of which there may be none."""
    return list(zip(*rows, strict=True)) if rows else [()] * width


async def in_waves(
    items: Sequence[T],
    keys: Callable[[T], Iterable[Hashable]],
    write: Callable[[Sequence[T]], Awaitable[list[A]]],
) -> list[A]:
    """Write the items in groups that hold no key twice, and return the answers in their order.

    Of items with a common key the earlier one is in an earlier group, so that the later one is
    judged against it. There is one group unless somebody repeats himself.
    """
    if len(items) == 1:
        return await write(items)
    answers: dict[int, A] = {}
    left = list(enumerate(items))
    while left:
        seen: set[Hashable] = set()
        wave: list[tuple[int, T]] = []
        later: list[tuple[int, T]] = []
        for position, item in left:
            wanted = set(keys(item))
            (wave if wanted.isdisjoint(seen) else later).append((position, item))
            seen |= wanted
        found = await write([item for _, item in wave])
        answers.update(zip((position for position, _ in wave), found, strict=True))
        left = later
    return [answers[position] for position in range(len(items))]


async def past_duplicates(write: Callable[[], Awaitable[T]]) -> T:
    """What the write returns that looks around for rows in its way.

    It fails where one was committed after it began, and sees that one when it is done again.
    """
    for _ in range(_TRIES):
        try:
            return await write()
        except DuplicateKey:
            continue
    raise DatabaseConflict("others keep writing the same rows")


_TRIES: Final = 3


class _AmbiguousError(Exception):
    """A value holds what should stand between values or in place of one."""


def _packed_row(row: Sequence[Any], numbers: AbstractSet[int]) -> list[Any] | None:
    packed: list[Any] = [SEPARATOR, NULL]
    for position, value in enumerate(row):
        if value is None:
            packed.append(None)
        elif position in numbers:
            packed.append(f"{{{value}}}")
        elif SEPARATOR in value or NULL in value:
            return None
        else:
            packed.append(value)
    return packed


def _texts(column: Sequence[str | None], separator: str, null: str) -> str | None:
    nulls = column.count(None) if None in column else 0
    if nulls == len(column):
        return None
    values = [null if value is None else value for value in column] if nulls else column
    text = separator.join(values)  # type: ignore[arg-type]
    if text.count(separator) != len(column) - 1 or text.count(null) != nulls:
        raise _AmbiguousError
    return text


def packed_numbers(column: Sequence[int | None]) -> str | None:
    """A column of whole numbers as the text of an array, as the fragment `numbers` takes it."""
    if column and column[0] is None and column.count(None) == len(column):
        return None
    return "{" + str(list(column))[1:-1].replace("None", "NULL") + "}"
