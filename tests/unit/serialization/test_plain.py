"""Values without an annotation: JSON's kinds, exactly, or refused."""

from __future__ import annotations

import inspect
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from perdure.errors import UnserializableValue
from tests.support.serialized import PORTABLE, WHAT, fingerprint, make, refused, round_trip


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Name(str):
    __slots__ = ()


@dataclass
class Point:
    x: int


def numbers() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (0, "0"),
        (-7, "-7"),
        (2**53 + 1, "9007199254740993"),
        (2**64, "18446744073709551616"),
        (10**400, "1" + "0" * 400),
        (-(10**30), "-1" + "0" * 30),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (5e-324, "5e-324"),
        (1e16, "1e16"),
        ("", '""'),
        ("é😀", '"é😀"'),
        ("a\x00b", '"a\\u0000b"'),
        ('"\\/\x7f\n', '"\\"\\\\/\x7f\\n"'),
        ("\ud800", '"\\ud800"'),
        ("\udc80.txt", '"\\udc80.txt"'),
        ([], "[]"),
        ({}, "{}"),
        ([1, 1.0, True, None, "1"], '[1,1.0,true,null,"1"]'),
        ({"b": 1, "a": [{"": 2}]}, '{"b":1,"a":[{"":2}]}'),
        ({"\udc80": ["\x00"]}, '{"\\udc80":["\\u0000"]}'),
    ],
)
def test_json_kinds_come_back_exactly(value: Any, text: str) -> None:
    assert round_trip(Any, value) == text


def test_no_annotation_is_any_and_object() -> None:
    for annotation in (Any, object, inspect.Parameter.empty):
        assert round_trip(annotation, {"a": [1]}) == '{"a":[1]}'


def test_a_tuple_arrives_as_a_list_at_every_depth() -> None:
    text, decoded = make().value(Any, WHAT).encode(({"a": (1, (2.5,))}, ()))
    assert text == '[{"a":[1,[2.5]]},[]]'
    assert fingerprint(decoded) == fingerprint([{"a": [1, [2.5]]}, []])


def test_the_decoded_value_is_a_copy() -> None:
    value = {"a": [1, {"b": [2]}]}
    decoded = make().value(Any, WHAT).encode(value)[1]
    value["a"].append(3)  # type: ignore[attr-defined]
    assert decoded == {"a": [1, {"b": [2]}]}


def test_shared_parts_become_separate_ones() -> None:
    part = [1]
    decoded = make().value(Any, WHAT).encode([part, part])[1]
    assert decoded[0] == decoded[1]
    assert decoded[0] is not decoded[1]


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (float("nan"), "$", "NaN"),
        ({"x": [1.0, float("-inf")]}, "$.x[1]", "infinity"),
        ({1: "a"}, "$[1]", "text keys only"),
        ({1: "a", "1": "b"}, "$[1]", "text keys only"),
        ({"1": "b", None: "a"}, "$[None]", "NoneType"),
        ({"a": {("x", 1): 2}}, "$.a[('x', 1)]", "dict[int, str]"),
        ({Name("k"): 1}, "$['k']", "Name"),
        ([Name("s")], "$[0]", "plain str"),
        ({"items": [{"price": Decimal("1.10")}]}, "$.items[0].price", "annotate the type"),
        ({"a b": {1}}, "$['a b']", "annotate the type"),
        (b"x", "$", "annotate the type"),
        (datetime.now(UTC), "$", "annotate the type"),
        (uuid4(), "$", "annotate the type"),
        (Point(1), "$", "annotate the type"),
        (Path("x"), "$", "annotate the type"),
        (Colour.RED, "$", "plain str"),
        (Level.LOW, "$", "plain int"),
        (OrderedDict(a=1), "$", "plain dict"),
        (defaultdict(int), "$", "plain dict"),
        (lambda: 1, "$", "bound to this process"),
        (numbers(), "$", "bound to this process"),
        (threading.Lock(), "$", "bound to this process"),
        (object(), "$", "annotate the type"),
        ("\ud83d\ude00", "$", "one character"),
        ({"a": ["\ud83d\ude00"]}, "$.a[0]", "one character"),
        ({"\ud83d\ude00": 1}, "$['\\ud83d\\ude00']", "one character"),
        ([10**5000], "$[0]", "digits"),
    ],
)
def test_anything_else_is_refused_with_its_path(value: Any, path: str, reason: str) -> None:
    refusal = refused(Any, value)
    assert refusal.path == path
    assert reason in refusal.reason
    assert str(refusal).startswith(f"{WHAT}: cannot store {path}: ")


def test_an_open_file_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "f").open("w") as file:
        assert "bound to this process" in refused(Any, {"f": file}).reason


def test_a_value_whose_parts_raise_is_refused() -> None:
    class Hostile(dict[str, int]):
        pass

    class Worse:
        def __repr__(self) -> str:
            raise ValueError

    assert "plain dict" in refused(Any, Hostile()).reason
    assert refused(Any, {Worse(): 1}).path == "$[<Worse>]"
    with pytest.raises(UnserializableValue):
        make().value(Any, WHAT).encode(Worse())


def test_what_the_python_sdk_writes_beyond_json_is_read() -> None:
    codec = make().value(Any, WHAT)
    assert fingerprint(codec.decode('{"x":NaN,"y":[Infinity,-Infinity]}', PORTABLE)) == (
        fingerprint({"x": float("nan"), "y": [float("inf"), float("-inf")]})
    )
    assert codec.decode('{ "a" : 1 }', PORTABLE) == {"a": 1}
