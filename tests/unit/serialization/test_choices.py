"""Enums, literals and unions, in every spelling of them."""
# ruff: noqa: PYI051, PYI061, UP007, UP045

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from pathlib import Path
from typing import Any, Literal, Optional, Union
from uuid import UUID

import pytest

from perdure.errors import RegistrationError
from tests.support.serialized import PORTABLE, WHAT, make, refused, round_trip, unreadable

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


class Colour(Enum):
    RED = "red"
    CRIMSON = "red"  # noqa: PIE796  an alias of RED
    BLUE = 2
    NONE = None


class Planet(Enum):
    EARTH = (5.97e24, 6.37e6)
    MARS = (6.42e23, 3.39e6)


class Size(StrEnum):
    S = auto()
    L = auto()


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Access(Flag):
    READ = auto()
    WRITE = auto()


class Bits(IntFlag):
    A = 1
    B = 2


@dataclass
class Cat:
    name: str


@dataclass
class Dog:
    name: str


@dataclass
class Cow:
    name: str
    milk: float = 0.0


@dataclass
class Card:
    kind: Literal["card"]
    number: str


@dataclass
class Cash:
    kind: Literal["cash"]
    number: str


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (Colour, Colour.RED, '"red"'),
        (Colour, Colour.CRIMSON, '"red"'),
        (Colour, Colour.BLUE, "2"),
        (Colour, Colour.NONE, "null"),
        (Planet, Planet.MARS, '"MARS"'),
        (Size, Size.L, '"l"'),
        (Level, Level.HIGH, "2"),
        (Access, Access.READ, "1"),
        (Access, Access.READ | Access.WRITE, "3"),
        (Access, Access(0), "0"),
        (Bits, Bits.A | Bits(8), "9"),
        (Literal["a", 1, None], "a", '"a"'),
        (Literal["a", 1, None], None, "null"),
        (Literal[1, True], True, "true"),
        (Literal[1, True], 1, "1"),
        (Literal[b"x", Level.LOW], b"x", '"eA=="'),
        (Literal[b"x", Level.LOW], Level.LOW, "1"),
        (Optional[int], None, "null"),
        (Optional[datetime], NOON, '"2026-01-02T12:00:00.000000Z"'),
        (int | str, "1", '"1"'),
        (int | str, 1, "1"),
        (int | float | None, 1.0, "1.0"),
        (int | bool, True, "true"),
        (Union[list[int], dict[str, int], str], [1], "[1]"),
        (list[int] | list[str], ["a"], '["a"]'),
        (list[int] | list[str], [], "[]"),
        (datetime | UUID, UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
        (datetime | UUID, NOON, '"2026-01-02T12:00:00.000000Z"'),
        (date | datetime, date(2026, 1, 2), '"2026-01-02"'),
        (date | datetime, NOON, '"2026-01-02T12:00:00.000000Z"'),
        (Literal["auto"] | str, "auto", '"auto"'),
        (Literal["auto"] | str, "other", '"other"'),
        (Level | str, Level.LOW, "1"),
        (Decimal | float, Decimal("1.0"), '"1.0"'),
        (Cat | None, Cat("x"), '{"name":"x"}'),
        (Cat | Cow, Cat("x"), '{"name":"x"}'),
        (Cow | Cat, Cat("x"), '{"name":"x"}'),
        (Cat | Cow, Cow("x"), '{"name":"x","milk":0.0}'),
        (Card | Cash, Cash("cash", "1"), '{"kind":"cash","number":"1"}'),
        (list[Card | Cash], [Card("card", "1")], '[{"kind":"card","number":"1"}]'),
        (Cat | list[Cat] | int, [Cat("x")], '[{"name":"x"}]'),
        (Any | None, [1], "[1]"),
        (Cat | Any, {"nickname": "x"}, '{"nickname":"x"}'),
    ],
)
def test_alternatives_come_back_exactly(annotation: Any, value: Any, text: str) -> None:
    assert round_trip(annotation, value) == text


@pytest.mark.parametrize(
    ("annotation", "value", "path", "reason"),
    [
        (Colour, "red", "$", "a str where the annotation says"),
        (Level, 1, "$", "a int where the annotation says"),
        (int, Level.LOW, "$", "Level where the annotation says int"),
        (str, Size.S, "$", "Size where the annotation says str"),
        (Literal["a", 1], "b", "$", "'b' where the annotation says Literal['a', 1]"),
        (Literal[1], True, "$", "a bool where the annotation says Literal[1]"),
        (Literal[1], 1.0, "$", "a float"),
        (Optional[int], "1", "$", "a str where the annotation says int | None"),
        (Optional[list[int]], [1, "2"], "$[1]", "a str where the annotation says int"),
        (list[int] | list[str], [1, "2"], "$[1]", "a str"),
        (Cat | Dog, Dog("x"), "$", "would come back as"),
        (Dog | Cat, Dog("x"), "$", "would come back as"),
        (list[Dog | Cat], [Cat("x"), Dog("x")], "$[1]", "Literals"),
        (set[int] | list[int], {1}, "$", "would come back as list[int]"),
        (Cat | Any, {"name": "x"}, "$", "would come back as"),
        (Cat | Any, Dog("x"), "$", "annotate the type"),
        (bytes | Decimal, b64decode("1234"), "$", "would come back as Decimal"),
    ],
)
def test_what_would_come_back_as_another_is_refused(
    annotation: Any, value: Any, path: str, reason: str
) -> None:
    refusal = refused(annotation, value)
    assert refusal.path == path
    assert reason in refusal.reason


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (str | bytes, "both stored as text"),
        (datetime | str, "both stored as text"),
        (Path | str, "both stored as text"),
        (Size | str, "both stored as text"),
        (Optional[str | UUID], "both stored as text"),
        (Any | UUID, "both stored as text"),
        (Literal["AA==", b"\x00"], "stored alike"),
    ],
)
def test_alternatives_that_only_the_text_tells_apart_are_refused_at_once(
    annotation: Any, reason: str
) -> None:
    with pytest.raises(RegistrationError, match=reason):
        make().value(annotation, WHAT)


def test_the_order_of_alternatives_means_nothing() -> None:
    text = make().value(Cat | Dog, WHAT).encode(Cat("x"))[0]
    for annotation in (Cat | Dog, Dog | Cat):
        assert make().value(annotation, WHAT).decode(text, PORTABLE) == Cat("x")


def test_a_stored_form_that_no_alternative_writes_is_read_by_one_that_can() -> None:
    codec = make().value(Cat | Cow, WHAT)
    assert codec.decode('{"name":"x","milk":2,"newer":1}', PORTABLE) == Cat("x")
    assert codec.decode('{"name":"x","milk":2}', PORTABLE) == Cow("x", 2)


@pytest.mark.parametrize(
    ("annotation", "text", "found"),
    [
        (Colour, '"green"', "'green' is not the value of any"),
        (Level, "1.0", "1.0 is not the value of any"),
        (Level, "true", "True is not the value of any"),
        (Access, "4", "4"),
        (Access, '"READ"', "a text"),
        (Access, "true", "True where"),
        (Literal["a"], '"b"', "'b' where"),
        (int | None, '"x"', "a text where the annotation says int | None"),
        (Card | Cash, '{"kind":"coin","number":"1"}', "is none of"),
        (list[Card | None], '[{"kind":"card"}]', "$[0].number: the field is missing"),
    ],
)
def test_other_texts_are_unreadable(annotation: Any, text: str, found: str) -> None:
    assert found in unreadable(annotation, text)
