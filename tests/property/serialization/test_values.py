"""Whatever is stored under an annotation comes back equal and of equal type, or is refused.

The annotations are generated too: each strategy draws a pair of an annotation and a strategy for
its values, nested to any shape.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple, TypedDict, Union
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from perdure.errors import RegistrationError, UnserializableValue
from perdure.serialization.equality import exactly
from perdure.serialization.sizes import least_bytes
from tests.support.serialized import PORTABLE, WHAT, Spelled, fingerprint, make, strict

Typed = tuple[Any, SearchStrategy[Any]]


class Colour(Enum):
    RED = "red"
    ONE = 1
    NOTHING = None


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Access(Flag):
    READ = 1
    WRITE = 2
    RUN = 4


class Movie(TypedDict, total=False):
    title: str
    made: datetime


class Point(NamedTuple):
    x: float
    label: str | None


# Every text, lone surrogates included; two that would make one character are refused.
texts = st.text(st.characters(exclude_categories=()), max_size=8)
finite = st.floats(allow_nan=False, allow_infinity=False)
stamps = st.datetimes(timezones=st.none() | st.timezones() | st.timezones(no_cache=True))

SCALARS: list[Typed] = [
    (str, texts),
    (int, st.integers() | st.booleans()),
    (bool, st.booleans()),
    (float, finite | st.integers()),
    (None, st.none()),
    (bytes, st.binary(max_size=8)),
    (Decimal, st.decimals()),
    (UUID, st.uuids()),
    (datetime, stamps),
    (date, st.dates()),
    (time, st.times(timezones=st.none() | st.timezones())),
    (timedelta, st.timedeltas()),
    (PurePosixPath, texts.filter(lambda text: "\x00" not in text).map(PurePosixPath)),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (Access, st.sampled_from(range(8)).map(Access)),
    (Literal["a", 1, True], st.sampled_from(["a", 1, True])),
    (Movie, st.fixed_dictionaries({}, optional={"title": texts, "made": stamps})),
    (Point, st.builds(Point, finite, st.none() | texts)),
]
KEYS: list[Typed] = [
    one for one in SCALARS if one[0] in (str, int, float, UUID, date, Level, Colour)
]


def record(parts: list[Typed]) -> Typed:
    cls: Any = dataclasses.make_dataclass(
        "Made", [(f"f{index}", annotation) for index, (annotation, _) in enumerate(parts)]
    )
    return cls, st.builds(cls, *(values for _, values in parts))


def small(build: Callable[..., SearchStrategy[Any]], *parts: SearchStrategy[Any]) -> Any:
    return build(*parts, max_size=4)


def grown(inner: SearchStrategy[Typed]) -> SearchStrategy[Typed]:
    """Annotations one level deeper."""
    hashable = st.sampled_from([one for one in SCALARS if one[0] not in (Movie, Decimal)])
    return st.one_of(
        inner.map(lambda one: (list[one[0]], small(st.lists, one[1]))),
        inner.map(lambda one: (tuple[one[0], ...], small(st.lists, one[1]).map(tuple))),
        hashable.map(lambda one: (set[one[0]], small(st.sets, one[1]))),
        hashable.map(lambda one: (frozenset[one[0]], small(st.frozensets, one[1]))),
        st.tuples(st.sampled_from(KEYS), inner).map(
            lambda pair: (
                dict[pair[0][0], pair[1][0]],
                small(st.dictionaries, pair[0][1], pair[1][1]),
            )
        ),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda parts: (
                tuple[tuple(one[0] for one in parts)],
                st.tuples(*(one[1] for one in parts)),
            )
        ),
        st.lists(inner, min_size=2, max_size=3).map(
            lambda parts: (
                Union[tuple(one[0] for one in parts)],  # noqa: UP007  as many as were drawn
                st.one_of(*(one[1] for one in parts)),
            )
        ),
        st.lists(inner, min_size=1, max_size=3).map(record),
    )


typed = st.recursive(st.sampled_from(SCALARS), grown, max_leaves=6)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
)


def held_to_the_rule(annotation: Any, value: Any) -> str:
    """Hold a value to the rule; the reason of its refusal, or ''."""
    try:
        codec = make().value(annotation, WHAT)
        text, decoded = codec.encode(value)
    except (RegistrationError, UnserializableValue) as refusal:
        return str(refusal)
    strict(text)
    assert least_bytes(value) <= len(text.encode())
    for read in (decoded, codec.decode(text, PORTABLE)):
        assert fingerprint(read) == fingerprint(value)
        assert exactly(read, value)
    assert codec.encode(decoded)[0] == text
    return ""


FAIR_REASONS = (
    "two separate surrogate code points",
    "could not be told apart",
    "would come back as",
    "fraction of a second",
)


@given(st.data())
def test_every_annotation_keeps_its_own_values(data: st.DataObject) -> None:
    annotation, values = data.draw(typed)
    refusal = held_to_the_rule(annotation, data.draw(values))
    assert refusal == "" or any(reason in refusal for reason in FAIR_REASONS)


@given(st.data())
def test_every_annotation_keeps_the_values_of_others_exactly_or_refuses_them(
    data: st.DataObject,
) -> None:
    annotation, _ = data.draw(typed)
    _, values = data.draw(typed)
    held_to_the_rule(annotation, data.draw(values))


@given(st.data())
def test_a_format_of_the_user_s_own_keeps_what_the_shared_one_keeps(data: st.DataObject) -> None:
    annotation, values = data.draw(typed)
    value = data.draw(values)
    try:
        codec = make(serializers={"own": Spelled()}).value(annotation, WHAT)
        codec.encode(value)
    except (RegistrationError, UnserializableValue):
        return
    text, decoded = codec.encode_as("own", value)
    for read in (decoded, codec.decode(text, "own")):
        assert fingerprint(read) == fingerprint(value)
        assert exactly(read, value)


@given(plain)
def test_json_values_need_no_annotation(value: Any) -> None:
    refusal = held_to_the_rule(Any, value)
    assert refusal == "" or FAIR_REASONS[0] in refusal


@given(plain)
def test_what_json_says_is_what_python_reads(value: Any) -> None:
    try:
        text = make().value(Any, WHAT).encode(value)[0]
    except UnserializableValue:
        return
    assert fingerprint(strict(text)) == fingerprint(value)
