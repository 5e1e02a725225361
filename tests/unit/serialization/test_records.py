"""Dataclasses, named tuples, typed dicts, attrs classes and structs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import namedtuple
from dataclasses import KW_ONLY, InitVar, dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, NotRequired, Required, TypedDict, TypeVar

import attrs
import msgspec
import pytest

from perdure.errors import RegistrationError
from tests.support.serialized import PORTABLE, WHAT, make, refused, round_trip, unreadable

T = TypeVar("T")
U = TypeVar("U")
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
NOON_TEXT = '"2026-01-02T12:00:00.000000Z"'


@dataclass
class Item:
    price: Decimal
    tags: list[str] = field(default_factory=list)
    kind: ClassVar[str] = "item"


@dataclass
class Order:
    id: int
    items: list[Item]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Frozen:
    x: int
    _: KW_ONLY
    y: int = field(default=0, compare=False)


@dataclass
class Counted:
    start: int
    total: int = field(init=False)

    def grow(self) -> Counted:
        self.total = self.start + 1
        return self


@dataclass
class Base(Generic[T]):
    value: T
    when: datetime


@dataclass
class Child(Base[Decimal]):
    many: list[Decimal]


@dataclass
class Pair(Base[T], Generic[T, U]):
    other: dict[str, U]


@dataclass
class Tree:
    left: Tree | None = None
    right: Tree | None = None
    labels: dict[str, list[Tree]] = field(default_factory=dict)


@dataclass
class Normal:
    name: str
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.name = self.name.strip()
        self.cache: dict[str, str] = {}


@dataclass
class Growing:
    items: list[int]

    def __post_init__(self) -> None:
        self.items.append(0)


@dataclass
class Checked:
    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("negative")


@dataclass
class Seeded:
    x: int
    seed: InitVar[int] = 7

    def __post_init__(self, seed: int) -> None:
        self.grown = self.x + seed


@dataclass
class Unseeded:
    x: int
    seed: InitVar[int]

    def __post_init__(self, seed: int) -> None: ...


@dataclass
class Own:
    x: int

    def __init__(self) -> None:
        raise AssertionError("a constructor must not run")


@dataclass
class Lazy:
    x: int

    @cached_property
    def twice(self) -> int:
        return 2 * self.x


@dataclass
class Locked:
    lock: threading.Lock  # type: ignore[valid-type]


@dataclass
class Abstract(ABC):
    x: int

    @abstractmethod
    def act(self) -> None: ...


class Point(NamedTuple):
    x: int
    at: datetime
    note: str = "none"


class Wide:
    __slots__ = ("aside",)


@dataclass(slots=True)
class Narrow(Wide):
    x: int

    def set_aside(self) -> Narrow:
        self.aside = 1
        return self


class Labelled(Point):
    """A subclass whose instances have a `__dict__`."""


Old = namedtuple("Old", ["a", "b"])  # noqa: PYI024  the untyped form is tested


class Movie(TypedDict, total=False):
    title: Required[str]
    when: datetime


class Sequel(Movie):
    part: int
    notes: NotRequired[list[Decimal]]


@attrs.define
class Attrs:
    x: int
    _hidden: datetime
    tags: set[str] = attrs.Factory(set)


@attrs.frozen
class Validated:
    x: int = attrs.field(validator=attrs.validators.ge(0), converter=int)


class Struct(msgspec.Struct, frozen=True):
    x: int
    when: datetime
    tags: list[str] = msgspec.field(default_factory=list)


LEAF = '{"left":null,"right":null,"labels":{}}'
ORDER = Order(1, [Item(Decimal("1.10"), ["a"]), Item(Decimal(2))])


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (
            Order,
            ORDER,
            '{"id":1,"items":[{"price":"1.10","tags":["a"]},{"price":"2","tags":[]}],"note":null}',
        ),
        (Frozen, Frozen(1, y=2), '{"x":1,"y":2}'),
        (Counted, Counted(1).grow(), '{"start":1,"total":2}'),
        (Base, Base([1], NOON), f'{{"value":[1],"when":{NOON_TEXT}}}'),
        (Base[Decimal], Base(Decimal(1), NOON), f'{{"value":"1","when":{NOON_TEXT}}}'),
        (
            Child,
            Child(Decimal(1), NOON, [Decimal(2)]),
            f'{{"value":"1","when":{NOON_TEXT},"many":["2"]}}',
        ),
        (
            Pair[Decimal, datetime],
            Pair(Decimal(1), NOON, {"a": NOON}),
            f'{{"value":"1","when":{NOON_TEXT},"other":{{"a":{NOON_TEXT}}}}}',
        ),
        (
            Tree,
            Tree(Tree(), None, {"a": [Tree()]}),
            f'{{"left":{LEAF},"right":null,"labels":{{"a":[{LEAF}]}}}}',
        ),
        (Narrow, Narrow(1), '{"x":1}'),
        (Normal, Normal(" a "), '{"name":"a","tags":[]}'),
        (Checked, Checked(1), '{"x":1}'),
        (Seeded, Seeded(1), '{"x":1}'),
        (Point, Point(1, NOON), f'[1,{NOON_TEXT},"none"]'),
        (Labelled, Labelled(1, NOON), f'[1,{NOON_TEXT},"none"]'),
        (Old, Old(1, ["b"]), '[1,["b"]]'),
        (Movie, {"title": "x", "when": NOON}, f'{{"title":"x","when":{NOON_TEXT}}}'),
        (Movie, {"title": "x"}, '{"title":"x"}'),
        (Sequel, {"title": "x", "part": 2, "other": [1]}, '{"title":"x","part":2,"other":[1]}'),
        (Attrs, Attrs(1, NOON, {"a"}), f'{{"x":1,"_hidden":{NOON_TEXT},"tags":["a"]}}'),
        (Validated, Validated(1), '{"x":1}'),
        (Struct, Struct(1, NOON), f'{{"x":1,"when":{NOON_TEXT},"tags":[]}}'),
    ],
)
def test_records_come_back_exactly(annotation: Any, value: Any, text: str) -> None:
    assert round_trip(annotation, value) == text


def test_fields_are_set_without_running_init() -> None:
    own = Own.__new__(Own)
    own.x = 1
    round_trip(Own, own)


def test_fields_left_out_of_comparison_come_back_too() -> None:
    decoded = make().value(Frozen, WHAT).encode(Frozen(1, y=2))[1]
    assert decoded.y == 2


def test_a_post_init_runs_again() -> None:
    decoded = make().value(Normal, WHAT).encode(Normal("a"))[1]
    assert decoded.cache == {}
    assert make().value(Seeded, WHAT).encode(Seeded(1))[1].grown == 8


def test_a_cached_property_is_no_field() -> None:
    lazy = Lazy(1)
    assert lazy.twice == 2
    assert make().value(Lazy, WHAT).encode(lazy)[0] == '{"x":1}'


def with_attribute(value: Any, name: str, part: Any) -> Any:
    value.__dict__[name] = part
    return value


@pytest.mark.parametrize(
    ("annotation", "value", "path", "reason"),
    [
        (Order, Order(1, [Item(Decimal(1)), Item(1.5)]), "$.items[1].price", "a float"),  # type: ignore[arg-type]
        (Order, Order(1, [], 5), "$.note", "a int where the annotation says str | None"),  # type: ignore[arg-type]
        (Order, {"id": 1}, "$", "a dict where the annotation says"),
        (Base[Decimal], Child(Decimal(1), NOON, []), "$", "Child where the annotation says"),
        (Counted, Counted(1), "$.total", "never set"),
        (Lazy, with_attribute(Lazy(1), "extra", 1), "$", "the attribute 'extra' is not a field"),
        (Item, with_attribute(Item(Decimal(1)), "kind", "other"), "$", "the attribute 'kind'"),
        (Narrow, Narrow(1).set_aside(), "$", "the attribute 'aside'"),
        (Growing, Growing([1]), "$.items", "again changes this field"),
        (Checked, with_attribute(Checked(1), "x", -1), "$", "ValueError: negative"),
        (Point, (1, NOON, ""), "$", "a tuple where the annotation says"),
        (Point, Labelled(1, NOON), "$", "Labelled where"),
        (Labelled, with_attribute(Labelled(1, NOON), "extra", 1), "$", "attributes beside"),
        (Point, Point("1", NOON), "$[0]", "a str"),  # type: ignore[arg-type]
        (Movie, {"when": NOON}, "$", "the key 'title' of"),
        (Movie, {"title": "x", "when": "now"}, "$.when", "a str"),
        (Movie, {"title": "x", 1: 2}, "$[1]", "not a text"),
        (Movie, {"title": "x", "other": NOON}, "$.other", "annotate the type"),
        (Sequel, {"title": "x"}, "$", "the key 'part' of"),
        (Attrs, Attrs(1, NOON, {1}), "$.tags[0]", "a int"),  # type: ignore[arg-type]
        (Struct, Struct("1", NOON), "$.x", "a str"),  # type: ignore[arg-type]
    ],
)
def test_what_would_be_lost_is_refused(annotation: Any, value: Any, path: str, reason: str) -> None:
    refusal = refused(annotation, value)
    assert refusal.path == path
    assert reason in refusal.reason


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (Order, '{"id":1,"items":[],"newer":true}', Order(1, [])),
        (Item, '{"price":"1"}', Item(Decimal(1))),
        (Frozen, '{"x":1}', Frozen(1)),
        (Point, f"[1,{NOON_TEXT}]", Point(1, NOON)),
        (Attrs, f'{{"x":1,"_hidden":{NOON_TEXT}}}', Attrs(1, NOON)),
        (Struct, f'{{"x":1,"when":{NOON_TEXT}}}', Struct(1, NOON)),
    ],
)
def test_older_and_newer_writers_are_read(annotation: Any, text: str, value: Any) -> None:
    assert make().value(annotation, WHAT).decode(text, PORTABLE) == value


def test_a_default_is_made_afresh_for_each() -> None:
    codec = make().value(Item, WHAT)
    assert codec.decode('{"price":"1"}', PORTABLE).tags is not (
        codec.decode('{"price":"1"}', PORTABLE).tags
    )


@pytest.mark.parametrize(
    ("annotation", "text", "found"),
    [
        (Order, "[]", "an array where the annotation says"),
        (Order, '{"id":1}', "$.items: the field is missing and has no default"),
        (Order, '{"id":1,"items":[{"price":true}]}', "$.items[0].price: True where"),
        (Checked, '{"x":-1}', "refused its fields: ValueError: negative"),
        (Point, "[1]", "1 items"),
        (Movie, "{}", "the key 'title'"),
    ],
)
def test_other_texts_are_unreadable(annotation: Any, text: str, found: str) -> None:
    assert found in unreadable(annotation, text)


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (Locked, "Locked.lock: "),
        (list[Locked], "Locked.lock"),
        (Unseeded, "InitVar 'seed'"),
        (Abstract, "abstract"),
    ],
)
def test_a_class_that_cannot_be_stored_is_refused_at_once(annotation: Any, reason: str) -> None:
    with pytest.raises(RegistrationError) as caught:
        make().value(annotation, WHAT)
    assert reason in str(caught.value)


def test_a_class_with_unknown_names_is_refused_at_once() -> None:
    @dataclass
    class Broken:
        x: Missing  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(RegistrationError, match="name 'Missing' is not defined"):
        make().value(Broken, WHAT)


def test_a_failed_building_leaves_nothing_behind() -> None:
    serialization = make()
    for _ in range(2):
        with pytest.raises(RegistrationError):
            serialization.value(Locked, WHAT)
