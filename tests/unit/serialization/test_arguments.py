"""Arguments: the wire's text, bound to the signature, each by its annotation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from perdure.errors import (
    InvalidArgument,
    RegistrationError,
    UndecodableValue,
    UnserializableValue,
    ValueTooLarge,
)
from perdure.serialization import annotations_of
from tests.support.serialized import PORTABLE, make

WHAT = "workflow 'place'"
NOON_TEXT = "2026-01-02T12:00:00.000000Z"
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@dataclass
class Item:
    price: Decimal


@dataclass
class Order:
    items: list[Item]


async def place(order: Order, when: datetime, *, note: str | None = None) -> int: ...  # type: ignore[empty-body]


def untyped(a, b=2, *rest, **options): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN002, ANN003, ANN201


def typed_rest(first: int, /, *rest: datetime, **options: Decimal) -> None: ...


def by_position(first: int, /) -> None: ...


def none() -> None: ...


def codec(fn: Callable[..., Any], **options: Any) -> Any:
    return make(**options).arguments(fn, WHAT)


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "text"),
    [
        (none, (), {}, '{"namedArgs":{},"positionalArgs":[]}'),
        (untyped, (1,), {}, '{"namedArgs":{},"positionalArgs":[1]}'),
        (untyped, ("é", [None]), {}, '{"namedArgs":{},"positionalArgs":["é",[null]]}'),
        (untyped, (1,), {"b": {"x": 1.5}}, '{"namedArgs":{"b":{"x":1.5}},"positionalArgs":[1]}'),
        (untyped, (), {"b": 1, "a": 2}, '{"namedArgs":{"b":1,"a":2},"positionalArgs":[]}'),
        (untyped, (1, 2, 3), {"z": 4}, '{"namedArgs":{"z":4},"positionalArgs":[1,2,3]}'),
        (
            place,
            (Order([Item(Decimal("1.10"))]), NOON),
            {"note": "x"},
            '{"namedArgs":{"note":"x"},"positionalArgs":[{"items":[{"price":"1.10"}]},"NOON"]}'.replace(
                "NOON", NOON_TEXT
            ),
        ),
        (
            typed_rest,
            (1, NOON),
            {"first": Decimal(2)},
            '{"namedArgs":{"first":"2"},"positionalArgs":[1,"2026-01-02T12:00:00.000000Z"]}',
        ),
    ],
)
def test_calls_come_back_as_they_were_made(
    fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], text: str
) -> None:
    assert codec(fn).encode(args, kwargs) == (text, args, kwargs)
    assert codec(fn).decode(text, PORTABLE) == (args, kwargs)


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "message"),
    [
        (place, (), {}, "missing a required argument: 'order'"),
        (place, (1,), {}, "missing a required argument: 'when'"),
        (place, (1, 2, 3), {}, "too many positional arguments"),
        (place, (1, 2), {"order": 3}, "multiple values for argument 'order'"),
        (place, (1, 2), {"other": 3}, "got an unexpected keyword argument 'other'"),
        (none, (1,), {}, "too many positional arguments"),
        (by_position, (), {"first": 1}, "'first'"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(
    fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message) as caught:
        codec(fn).encode(args, kwargs)
    assert str(caught.value).startswith(f"{WHAT}: ")


def test_a_required_keyword_is_required() -> None:
    def only_named(*, key: int) -> None: ...

    with pytest.raises(InvalidArgument, match=r"missing a required.* 'key'"):
        codec(only_named).encode((), {})
    assert codec(only_named).encode((), {"key": 1})[2] == {"key": 1}


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "path"),
    [
        (place, (Order([Item(Decimal(1)), Item(2)]), NOON), {}, "argument 'order'.items[1].price"),  # type: ignore[arg-type]
        (place, (Order([]), "now"), {}, "argument 'when'"),
        (place, (Order([]), NOON), {"note": 1}, "argument 'note'"),
        (typed_rest, (1, NOON, 2), {}, "argument 'rest'[1]"),
        (typed_rest, (1,), {"x": "1"}, "argument 'x'"),
        (untyped, (lambda: 1,), {}, "argument 'a'"),
        (untyped, (1, {"x": [{1}]}), {}, "argument 'b'.x[0]"),
        (untyped, (1, 2, {"x": "\ud83d\ude00"}), {}, "argument 'rest'[0].x"),
        (untyped, (1,), {"b": "\ud83d\ude00"}, "argument 'b'"),
    ],
)
def test_a_refusal_names_the_argument(
    fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], path: str
) -> None:
    with pytest.raises(UnserializableValue) as caught:
        codec(fn).encode(args, kwargs)
    assert caught.value.path == path
    assert caught.value.what == WHAT


def test_over_deep_and_cyclic_arguments_are_refused_by_name() -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    cycle: list[Any] = []
    cycle.append(cycle)
    for value, reason in ((deep, "200 levels"), (cycle, "contains itself")):
        with pytest.raises(UnserializableValue, match=reason) as caught:
            codec(untyped).encode((1,), {"b": value})
        assert caught.value.path.startswith("argument 'b'[0]")


def test_all_arguments_together_have_one_limit() -> None:
    with pytest.raises(ValueTooLarge):
        codec(untyped, limit=60).encode(("x" * 10, "x" * 10), {})


def test_the_decoded_arguments_are_copies() -> None:
    value = {"a": [1]}
    _, args, _ = codec(untyped).encode((value,), {})
    value["a"].append(2)
    assert args == ({"a": [1]},)


@pytest.mark.parametrize(
    ("text", "args", "kwargs"),
    [
        (None, (), {}),
        ("{}", (), {}),
        ('{"positionalArgs":[1]}', (1,), {}),
        ('{"namedArgs":{"a":1}}', (), {"a": 1}),
        ('{"positionalArgs":null,"namedArgs":null}', (), {}),
        ('{ "positionalArgs" : [ 1 ] , "namedArgs" : { } , "more" : 1 }', (1,), {}),
    ],
)
def test_what_other_writers_leave_out_is_read(
    text: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    def lenient(a: int = 0) -> None: ...

    assert codec(lenient).decode(text, PORTABLE) == (args, kwargs)


@pytest.mark.parametrize(
    ("fn", "text", "found"),
    [
        (place, None, "missing a required argument: 'order'"),
        (place, '{"positionalArgs":[{"items":[]}]}', "missing a required argument: 'when'"),
        (none, '{"namedArgs":{"gone":1}}', "unexpected keyword argument 'gone'"),
        (none, '{"positionalArgs":[1]}', "too many positional arguments"),
        (
            place,
            '{"positionalArgs":[{"items":[{"price":"1"},{}]},"2026-01-02T12:00:00Z"]}',
            "argument 'order'.items[1].price: the field is missing",
        ),
        (place, '{"positionalArgs":[{"items":[]},"now"]}', "argument 'when': 'now' is not a"),
        (none, "[]", "an array where"),
        (none, '{"positionalArgs":{}}', "positionalArgs must be an array"),
        (none, "nonsense", "not JSON"),
    ],
)
def test_arguments_that_no_longer_fit_are_unreadable_by_name(
    fn: Any, text: str | None, found: str
) -> None:
    with pytest.raises(UndecodableValue) as caught:
        codec(fn).decode(text, PORTABLE)
    assert found in str(caught.value)
    assert str(caught.value).startswith(f"{WHAT}: cannot read")


def test_an_annotation_that_cannot_work_is_refused_by_name() -> None:
    def wrong(x: int, y: complex) -> None: ...

    with pytest.raises(RegistrationError, match="argument 'y': values annotated complex"):
        codec(wrong)


def test_an_annotation_that_does_not_resolve_is_refused_by_name() -> None:
    def wrong(x: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(RegistrationError) as caught:
        codec(wrong)
    assert "the annotation of 'x', 'Missing', cannot be resolved" in str(caught.value)
    assert "TYPE_CHECKING" in str(caught.value)


def test_annotations_of_a_function() -> None:
    @dataclass
    class Local:
        x: int

    def fn(a: Local, b, *c: int) -> list[Local]:  # type: ignore[no-untyped-def]  # noqa: ANN001
        return [Local(1)]

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    for one in (fn, wrapper):
        found = annotations_of(one)
        assert found == {"a": Local, "b": Any, "c": int, "return": list[Local]}


def test_only_the_annotations_asked_for_are_resolved() -> None:
    def fn(a: Missing) -> int:  # type: ignore[name-defined]  # noqa: F821
        return 1

    found = annotations_of(fn)
    assert found["return"] is int
    assert list(found) == ["a", "return"]
    assert found.get("b", Any) is Any
    with pytest.raises(RegistrationError, match="'a', 'Missing'"):
        found["a"]


def test_a_variable_around_a_function_may_get_its_value_after_the_decoration() -> None:
    """As the ids that a workflow defined above them closes over."""

    @dataclass
    class Local:
        x: int

    def fn(a: Local) -> Later:
        return Later(Local(later).x + a.x)

    found = annotations_of(fn)
    assert found["a"] is Local
    with pytest.raises(RegistrationError, match="Later"):
        found["return"]

    class Later(Local): ...

    assert found["return"] is Later
    later = 1
    assert fn(Local(1)) == Later(2)
