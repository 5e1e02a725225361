"""The type syntax of Python 3.12: aliases that contain themselves, classes with own variables."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure.errors import RegistrationError
from tests.support.serialized import PORTABLE, WHAT, make, refused, round_trip

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")

SOURCE = """
from dataclasses import dataclass
from datetime import datetime

type Json = dict[str, Json] | list[Json] | str | float | None
type Stamps = dict[str, Stamps] | datetime
type Pair[A] = tuple[A, A]
type Endless = Endless

@dataclass
class Box[T]:
    value: T
    more: list[T]

def call[T](pair: Pair[datetime], box: Box[datetime], free: T) -> Json: ...
"""
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
NOON_TEXT = '"2026-01-02T12:00:00.000000Z"'


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": __name__}
    exec(SOURCE, names)  # noqa: S102  older versions could not even parse it
    return names


def test_a_recursive_alias(names: dict[str, Any]) -> None:
    value = {"a": ["x", None, {"b": 1.5}], "c": {}}
    assert round_trip(names["Json"], value) == '{"a":["x",null,{"b":1.5}],"c":{}}'
    assert refused(names["Json"], {"a": [{"b": {1}}]}).path == "$.a[0].b"
    text = f'{{"a":{{"b":{NOON_TEXT}}}}}'
    assert round_trip(names["Stamps"], {"a": {"b": NOON}}) == text


def test_generic_aliases_and_classes(names: dict[str, Any]) -> None:
    assert round_trip(names["Pair"][datetime], (NOON, NOON)) == f"[{NOON_TEXT},{NOON_TEXT}]"
    box = names["Box"](NOON, [NOON])
    text, decoded = make().value(names["Box"][datetime], WHAT).encode(box)
    assert text == f'{{"value":{NOON_TEXT},"more":[{NOON_TEXT}]}}'
    assert decoded == box


def test_an_alias_of_itself_alone_is_refused(names: dict[str, Any]) -> None:
    with pytest.raises(RegistrationError, match="names only itself"):
        make().value(names["Endless"], WHAT)


def test_arguments_of_a_function_with_own_variables(names: dict[str, Any]) -> None:
    codec = make().arguments(names["call"], WHAT)
    text, args, kwargs = codec.encode(((NOON, NOON),), {"box": names["Box"](NOON, []), "free": [1]})
    assert codec.decode(text, PORTABLE) == (args, kwargs)
    assert args == ((NOON, NOON),)
