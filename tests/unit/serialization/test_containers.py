"""Scalars and containers with annotations."""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterable, Mapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NewType, TypeVar
from uuid import UUID

import pytest

from perdure.errors import RegistrationError, UnserializableValue
from tests.support.serialized import PORTABLE, WHAT, make, refused, round_trip, unreadable

T = TypeVar("T")
OrderId = NewType("OrderId", int)
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
NOON_TEXT = '"2026-01-02T12:00:00.000000Z"'
SOME_UUID = UUID("12345678-1234-5678-9234-567812345678")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (str, "a", '"a"'),
        (int, 2**80, str(2**80)),
        (int, True, "true"),
        (float, 1.5, "1.5"),
        (float, 1, "1"),
        (float, -0.0, "-0.0"),
        (bool, False, "false"),
        (None, None, "null"),
        (OrderId, 7, "7"),
        (Annotated[int, "positive"], 7, "7"),
        (T, {"a": 1}, '{"a":1}'),
        (list, [1, "a"], '[1,"a"]'),
        (list[int], [1, True], "[1,true]"),
        (list[float], [1.0, 1], "[1.0,1]"),
        (list[datetime], [NOON], f"[{NOON_TEXT}]"),
        (list[list[int]], [[1], []], "[[1],[]]"),
        (list[T], [1, "a"], '[1,"a"]'),
        (Sequence[datetime], [NOON], f"[{NOON_TEXT}]"),
        (Iterable[int], [1], "[1]"),
        (Collection[int], [1], "[1]"),
        (MutableSequence[int], [1], "[1]"),
        (typing.List[int], [1], "[1]"),  # noqa: UP006
        (tuple, (1, "a"), '[1,"a"]'),
        (tuple[()], (), "[]"),
        (tuple[int, str], (1, "a"), '[1,"a"]'),
        (tuple[int, ...], (1, 2), "[1,2]"),
        (tuple[int, tuple[Decimal, ...]], (1, (Decimal("1.10"),)), '[1,["1.10"]]'),
        (typing.Tuple, (1,), "[1]"),  # noqa: UP006
        (set[int], {3, 1, 2}, "[1,2,3]"),
        (set[str], {"b", "a"}, '["a","b"]'),
        (frozenset[UUID], frozenset({SOME_UUID}), f'["{SOME_UUID}"]'),
        (set[int | str], {1, "a", 2}, '["a",1,2]'),
        (set[tuple[int, str]], {(2, "a"), (1, "b")}, '[[1,"b"],[2,"a"]]'),
        (AbstractSet[int], {1}, "[1]"),
        (dict, {"a": [1]}, '{"a":[1]}'),
        (dict[str, int], {"b": 1, "a": 2}, '{"b":1,"a":2}'),
        (dict[str, Any], {"a": {"b": 1.5}}, '{"a":{"b":1.5}}'),
        (dict[Any, Any], {"a": 1}, '{"a":1}'),
        (dict[str, datetime], {"a": NOON}, f'{{"a":{NOON_TEXT}}}'),
        (dict[int, str], {1: "a", -2: "b"}, '{"1":"a","-2":"b"}'),
        (dict[int, str], {True: "a", 0: "b"}, '{"true":"a","0":"b"}'),
        (dict[float, str], {1.0: "a", 2: "b"}, '{"1.0":"a","2":"b"}'),
        (dict[int | None, str], {None: "a", 0: "b"}, '{"null":"a","0":"b"}'),
        (dict[UUID, int], {SOME_UUID: 1}, f'{{"{SOME_UUID}":1}}'),
        (dict[date, int], {date(2026, 1, 2): 1}, '{"2026-01-02":1}'),
        (dict[Colour, int], {Colour.RED: 1}, '{"red":1}'),
        (Mapping[int, datetime], {1: NOON}, f'{{"1":{NOON_TEXT}}}'),
        (list[bytes], [b"\x00"], '["AA=="]'),
    ],
)
def test_values_come_back_as_annotated(annotation: Any, value: Any, text: str) -> None:
    assert round_trip(annotation, value) == text


def test_an_abstract_sequence_says_nothing_of_tuples() -> None:
    text, decoded = make().value(Sequence[datetime], WHAT).encode((NOON,))
    assert (text, decoded) == (f"[{NOON_TEXT}]", [NOON])


def test_a_set_is_stored_in_one_order() -> None:
    texts = {make().value(set[str], WHAT).encode(set(order))[0] for order in ("abcd", "dcba")}
    assert texts == {'["a","b","c","d"]'}


@pytest.mark.parametrize(
    ("annotation", "value", "path", "reason"),
    [
        (str, 1, "$", "a int where the annotation says str"),
        (str, Colour.RED, "$", "Colour where the annotation says str"),
        (int, 1.0, "$", "a float where the annotation says int"),
        (int, "1", "$", "a str where the annotation says int"),
        (bool, 1, "$", "a int where the annotation says bool"),
        (float, "1", "$", "a str where the annotation says float"),
        (float, float("nan"), "$", "NaN"),
        (list[float], [0.5, float("inf")], "$[1]", "NaN"),
        (None, 0, "$", "a int where the annotation says None"),
        (list[int], [1, 2, "3"], "$[2]", "a str where the annotation says int"),
        (list[int], (1,), "$", "a tuple where the annotation says list[int]"),
        (list, [{1}], "$[0]", "annotate the type"),
        (tuple[int, str], (1,), "$", "1 items where the annotation says tuple[int, str]"),
        (tuple[int, str], (1, 2), "$[1]", "a int"),
        (tuple[int, ...], [1], "$", "a list where the annotation says tuple[int, ...]"),
        (set[int], frozenset({1}), "$", "a frozenset where the annotation says set[int]"),
        (set[int], {"a"}, "$[0]", "a str"),
        (dict[str, int], {1: 1}, "$[1]", "a int where the annotation says str"),
        (dict[int, str], {"1": "a"}, "$['1']", "a str"),
        (dict[int, str], {1: "a", "1": "b"}, "$['1']", "a str where the annotation says int"),
        (dict[str, list[int]], {"a": [1], "b": [None]}, "$.b[0]", "a NoneType"),
        (dict[float, int], {float("nan"): 1}, "$[nan]", "NaN"),
    ],
)
def test_values_of_other_types_are_refused(
    annotation: Any, value: Any, path: str, reason: str
) -> None:
    refusal = refused(annotation, value)
    assert refusal.path == path
    assert reason in refusal.reason


@pytest.mark.parametrize(
    ("annotation", "text", "found"),
    [
        (int, '"1"', "a text where the annotation says int"),
        (int, "1.0", "1.0 where the annotation says int"),
        (str, "null", "null where the annotation says str"),
        (str, "{", "not JSON"),
        (str, "", "not JSON"),
        (list[int], '[1,{"a":1}]', "$[1]: an object where the annotation says int"),
        (tuple[int, int], "[1]", "1 items"),
        (set[int], "{}", "an object"),
        (dict[int, str], '{"x":"a"}', "$.x: not JSON"),
        (dict[int, str], '{"1":"a"," 1":"b"}', "several keys that are one"),
        (dict[str, datetime], '{"a":"now"}', "$.a: 'now' is not a datetime"),
    ],
)
def test_texts_of_other_values_are_unreadable(annotation: Any, text: str, found: str) -> None:
    assert found in unreadable(annotation, text)


def test_sql_null_is_none_whatever_the_annotation() -> None:
    for annotation in (int, list[int], Any, Colour):
        assert make().value(annotation, WHAT).decode(None, PORTABLE) is None
        assert make().value(annotation, WHAT).decode(None, "custom") is None


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (dict[str | int, int], "could not be told apart as text"),
        (dict[tuple[int, int], str], "could not be told apart as text"),
        (complex, "complex has no stored form"),
        (list[object | complex], "complex has no stored form"),
        (range, "range has no stored form"),
        (typing.Callable[[], int], "has no stored form"),
        (type[int], "type[int] has no stored form"),
        (Iterable[memoryview], "memoryview has no stored form"),
        (typing.Iterator[int], "Iterator[int] has no stored form"),
        (ValueError, "stored when it is raised"),
        (typing.OrderedDict[str, int], "built-in class it derives from"),
        (typing.Counter[str], "built-in class it derives from"),
        (tuple[int, *tuple[str, ...]], "has no stored form"),
        ("Missing", "has no stored form"),
        (3, "has no stored form"),
        ([int], "is not an annotation"),
    ],
)
def test_an_annotation_that_cannot_work_is_refused_at_once(annotation: Any, reason: str) -> None:
    with pytest.raises(RegistrationError) as caught:
        make().value(annotation, WHAT)
    assert str(caught.value).startswith(f"{WHAT}: values annotated ")
    assert reason in str(caught.value)


def test_what_a_value_is_called_may_differ_every_time() -> None:
    serialization = make()
    for what in ("result of 'a'", "result of 'b'"):
        with pytest.raises(UnserializableValue, match=what):
            serialization.value(list[int], what).encode(["x"])
