"""Rows in other formats: pickles where the engine was told to, anything else refused by name."""

from __future__ import annotations

import base64
import pickle
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure import errors
from perdure.errors import RemoteError, UndecodableValue, UnserializableValue, ValueTooLarge
from tests.support.serialized import PICKLE, PORTABLE, WHAT, make, unreadable

RAN: list[str] = []


@dataclass
class Point:
    x: int


class Custom(Exception):
    def __init__(self, *, why: str) -> None:
        super().__init__(why)


class Gone(Exception):
    """Its pickle names a class that a reader may not find."""


def trap() -> str:
    RAN.append("trap")
    return "sprung"


class Trap:
    def __reduce__(self) -> Any:
        return trap, ()


def pickled(value: Any) -> str:
    return base64.b64encode(pickle.dumps(value, 4)).decode()


def fn(a: int, b: int = 2) -> None: ...


def test_the_texts_are_those_of_the_python_sdk() -> None:
    codec = make(unpickle=True).value(Any, WHAT)
    assert codec.encode_as(PICKLE, None) == ("gAROLg==", None)
    assert codec.encode_as(PICKLE, 4) == ("gARLBC4=", 4)


def test_without_the_switch_no_pickle_is_read() -> None:
    RAN.clear()
    serialization = make()
    assert "Engine(..., unpickle=True)" in unreadable(Any, pickled(Trap()), PICKLE)
    assert "Engine(..., unpickle=True)" in unreadable(Any, pickled(Trap()), None)
    with pytest.raises(UndecodableValue, match="unpickle=True"):
        serialization.arguments(fn, WHAT).decode(pickled(Trap()), PICKLE)
    with pytest.raises(UnserializableValue, match="unpickle=True"):
        serialization.value(Any, WHAT).encode_as(PICKLE, 1)
    assert type(serialization.errors.decode(pickled(Trap()), PICKLE)) is RemoteError
    assert RAN == []


def test_with_the_switch_pickles_are_read() -> None:
    serialization = make(unpickle=True)
    value = [Point(1), (2, {3}), datetime.now(UTC)]
    for label in (PICKLE, None, ""):
        assert serialization.value(Any, WHAT).decode(pickled(value), label) == value
    call = pickled({"args": (1,), "kwargs": {"b": 3}})
    assert serialization.arguments(fn, WHAT).decode(call, PICKLE) == ((1,), {"b": 3})
    error = serialization.errors.decode(pickled(ValueError("x", 1)), PICKLE)
    assert repr(error) == "ValueError('x', 1)"


def test_json_without_a_label_is_read_as_json() -> None:
    for unpickle in (False, True):
        codec = make(unpickle=unpickle).value(dict[int, str], WHAT)
        assert codec.decode('{"1":"a"}', None) == {1: "a"}
        assert codec.decode('{"1":"a"}', "") == {1: "a"}
    assert make().arguments(fn, WHAT).decode('{"positionalArgs":[1]}', None) == ((1,), {})
    assert "not JSON" in unreadable(Any, "nonsense", None)


@pytest.mark.parametrize("label", ["js_superjson", "DBOS_JSON", "rust_serde", "PORTABLE_JSON"])
def test_another_format_is_named(label: str) -> None:
    assert f"this engine knows no format {label!r}" in unreadable(Any, "1", label)
    with pytest.raises(UndecodableValue, match=label):
        make(unpickle=True).arguments(fn, WHAT).decode("{}", label)


@pytest.mark.parametrize("text", ["%%%", "", "gAR", "gASVCAAAAAAAAACMBGdvbmWULg=="[:20], "AAAA"])
def test_broken_pickles_are_unreadable(text: str) -> None:
    serialization = make(unpickle=True)
    with pytest.raises(UndecodableValue):
        serialization.value(Any, WHAT).decode(text, PICKLE)
    with pytest.raises(UndecodableValue):
        serialization.arguments(fn, WHAT).decode(text, PICKLE)
    assert type(serialization.errors.decode(text, PICKLE)) is RemoteError


@pytest.mark.parametrize(
    "inputs", [[1], {"args": 5, "kwargs": {}}, {"args": ()}, {"args": (1, 2, 3), "kwargs": {}}]
)
def test_pickled_arguments_of_another_shape_are_unreadable(inputs: Any) -> None:
    with pytest.raises(UndecodableValue):
        make(unpickle=True).arguments(fn, WHAT).decode(pickled(inputs), PICKLE)


def test_values_are_added_in_the_format_of_their_row() -> None:
    codec = make(unpickle=True).value(Any, WHAT)
    text, decoded = codec.encode_as(PICKLE, [Point(1), (2,)])
    assert decoded == [Point(1), (2,)]
    assert codec.decode(text, PICKLE) == decoded
    assert codec.encode_as(PORTABLE, (1,)) == ("[1]", [1])
    assert codec.encode_as(None, 1) == ("gARLAS4=", 1)
    assert make().value(Any, WHAT).encode_as(None, (1,)) == ("[1]", [1])
    with pytest.raises(UnserializableValue, match="cannot be pickled"):
        codec.encode_as(PICKLE, threading.Lock())
    with pytest.raises(ValueTooLarge):
        make(unpickle=True, limit=10).value(Any, WHAT).encode_as(PICKLE, "x" * 20)


@pytest.mark.parametrize("unpickle", [False, True])
@pytest.mark.parametrize(
    ("error", "stored"),
    [
        (ValueError("x", 1), ValueError("x", 1)),
        (Custom(why="x"), Exception("Custom: x")),
        (KeyboardInterrupt(), Exception("KeyboardInterrupt: ")),
        (errors.StepTimeout("s", 1.0), Exception(f"StepTimeout: {errors.StepTimeout('s', 1.0)}")),
        (Gone(threading.Lock()), None),
        (ValueError("x" * 1_000), Exception("ValueError: " + "x" * 488)),
    ],
    ids=lambda part: type(part).__name__,
)
def test_errors_are_added_so_that_any_python_process_reads_them(
    error: BaseException, stored: Exception | None, unpickle: bool
) -> None:
    text = make(unpickle=unpickle, limit=800).errors.encode_as(PICKLE, error)
    again = pickle.loads(base64.b64decode(text))  # noqa: S301  written by this test
    if stored is None or (not unpickle and str(error) == "('x', 1)"):
        assert type(again) is Exception
        assert str(again).startswith(f"{type(error).__name__}: ")
    else:
        assert repr(again) == repr(stored)


def test_errors_are_added_as_envelopes_elsewhere() -> None:
    assert make().errors.encode_as(PORTABLE, ValueError("x")).startswith('{"name":"ValueError"')


def test_of_a_pickled_error_that_cannot_be_made_its_name_and_message_are_read() -> None:
    text = pickled(Gone("lost"))
    missing = base64.b64encode(base64.b64decode(text).replace(b"Gone", b"Away")).decode()
    for serialization, one in ((make(), text), (make(unpickle=True), missing)):
        again = serialization.errors.decode(one, PICKLE)
        assert type(again) is RemoteError
        assert again.name in ("Gone", "Away")
        assert again.message.startswith("lost (")


def test_a_pickled_signal_is_an_ordinary_error() -> None:
    again = make(unpickle=True).errors.decode(pickled(KeyboardInterrupt("now")), PICKLE)
    assert type(again) is RemoteError
    assert (again.name, again.message) == ("KeyboardInterrupt", "now")
    again = make(unpickle=True).errors.decode(pickled(5), PICKLE)
    assert type(again) is RemoteError
