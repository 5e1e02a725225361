"""A batch comes out as it went in, and nobody in it is written beside himself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from perdure.store.postgres.batch import NULL, SEPARATOR, in_waves, packed, packed_list

TEXT = st.none() | st.text() | st.sampled_from(["", SEPARATOR, NULL, f"a{SEPARATOR}b", "NULL"])
NUMBER = st.none() | st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(st.tuples(TEXT, NUMBER, TEXT), min_size=1, max_size=40)


def texts_of(packed_text: str | None, separator: str, null: str, count: int) -> list[str | None]:
    """What string_to_array and unnest make of a column, as `sql/batch.sql` uses them."""
    if packed_text is None:
        return [None] * count
    if packed_text == "":
        return [""]
    return [None if text == null else text for text in packed_text.split(separator)]


def numbers_of(packed_text: str | None, count: int) -> list[int | None]:
    """What a cast to bigint[] and unnest make of a column."""
    if packed_text is None:
        return [None] * count
    assert packed_text.startswith("{")
    assert packed_text.endswith("}")
    return [None if text == "NULL" else int(text) for text in packed_text[1:-1].split(", ")]


@given(ROWS)
def test_rows_come_out_as_they_went_in(
    rows: list[tuple[str | None, int | None, str | None]],
) -> None:
    separator, null, first, second, third = packed(rows, {1})
    count = len(rows)
    columns = (
        texts_of(first, separator, null, count),
        numbers_of(second, count),
        texts_of(third, separator, null, count),
    )
    assert list(zip(*columns, strict=True)) == rows


@given(st.lists(st.text()))
def test_a_list_comes_out_as_it_went_in(values: list[str]) -> None:
    separator, null, text = packed_list(values)
    assert (texts_of(text, separator, null, 0) if values else text) == (values or None)


@given(st.lists(st.sets(st.integers(0, 5), min_size=1, max_size=2), max_size=12))
def test_waves_hold_no_key_twice_and_keep_the_order_of_each(items: list[set[int]]) -> None:
    written: list[list[set[int]]] = []

    async def write(wave: Sequence[set[int]]) -> list[int]:
        written.append(list(wave))
        return [id(item) for item in wave]

    answers = asyncio.run(in_waves(items, lambda item: item, write))
    assert answers == [id(item) for item in items]
    for wave in written:
        keys = [key for item in wave for key in item]
        assert len(keys) == len(set(keys))
    for key in range(6):
        of_key = [item for item in items if key in item]
        assert [item for wave in written for item in wave if key in item] == of_key
