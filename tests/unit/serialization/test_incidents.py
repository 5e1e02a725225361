"""Faults that happened to others: each kind is impossible here, or said at once."""

from __future__ import annotations

import socket
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from logging import Logger, getLogger
from typing import Any
from uuid import UUID

import pytest

from perdure import errors
from perdure.errors import (
    RegistrationError,
    RemoteError,
    UndecodableValue,
    UnserializableValue,
    ValueTooLarge,
)
from tests.support.serialized import PORTABLE, WHAT, make, raised, refused


class Raising:
    def __reduce__(self) -> Any:
        raise RuntimeError("no")


class KeywordOnly(Exception):
    def __init__(self, *, reason: str) -> None:
        super().__init__(reason)


class Demanding(Exception):
    def __init__(self, one: str, two: str) -> None:
        if not two:
            raise AssertionError
        super().__init__(one)


@dataclass
class WithLogger:
    name: str
    log: Logger


def numbers() -> Iterator[int]:
    yield 1


UNSTORABLE = [threading.Lock(), numbers(), Raising(), lambda: 1, sqlite3.Connection(":memory:")]


@pytest.mark.parametrize("value", UNSTORABLE, ids=lambda value: type(value).__name__)
def test_b008_a_result_that_cannot_be_stored_is_an_error_that_can(value: object) -> None:
    refusal = refused(Any, {"state": value})
    assert refusal.path == "$.state"
    codec = make().errors
    again = codec.decode(codec.encode(refusal), PORTABLE)
    assert type(again) is UnserializableValue
    assert again.__dict__ == refusal.__dict__


def test_b008_an_open_socket_is_refused() -> None:
    with socket.socket() as open_socket:
        assert refused(Any, open_socket).path == "$"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"a": (1,)}, {"a": [1]}),
        ([1.0, True, -0.0], [1.0, True, -0.0]),
        ({"n": 2**70}, {"n": 2**70}),
    ],
)
def test_b043_the_first_run_gets_what_a_replay_gets(value: Any, kind: Any) -> None:
    codec = make().value(Any, WHAT)
    text, first = codec.encode(value)
    assert repr(first) == repr(codec.decode(text, PORTABLE)) == repr(kind)


@pytest.mark.parametrize(
    "error",
    [raised(KeywordOnly(reason="why")), raised(Demanding("why", "x"))],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("listed", [True, False])
def test_b137_an_error_with_a_constructor_of_its_own_is_loaded(
    error: BaseException, listed: bool
) -> None:
    text = make().errors.encode(error)
    again = make(errors=(type(error),) if listed else ()).errors.decode(text, PORTABLE)  # type: ignore[arg-type]
    assert type(again) is (type(error) if listed else RemoteError)
    assert "why" in str(again)


def test_b137_a_class_that_is_gone_or_local_keeps_its_name_and_message() -> None:
    class Local(Exception):
        pass

    again = make().errors.decode(make().errors.encode(raised(Local("why"))), PORTABLE)
    assert type(again) is RemoteError
    assert (again.name, again.message) == ("Local", "why")
    assert "Local: why" in str(again.traceback_text)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        KeywordOnly(reason="x"),
        ValueError("x", b"y"),
        KeyError("x", datetime.now(UTC)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_b138_no_error_is_hidden_behind_one_of_ours(error: Exception) -> None:
    codec = make().errors
    again = codec.decode(codec.encode(raised(error)), PORTABLE)
    assert "x" in str(again)
    assert type(error).__name__ in (type(again).__name__, getattr(again, "name", ""))


@pytest.mark.parametrize("value", UNSTORABLE, ids=lambda value: type(value).__name__)
def test_b139_an_argument_that_cannot_be_stored_is_refused_at_the_call(value: object) -> None:
    def place(order: Any) -> None: ...

    codec = make().arguments(place, "workflow 'place'")
    with pytest.raises(UnserializableValue) as caught:
        codec.encode((), {"order": [value]})
    assert caught.value.path == "argument 'order'[0]"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("gASV%%%", "py_pickle"),
        ("gASVEgAAAAAAAACMBGdvbmWUjANHb26Uk5Qu", "py_pickle"),
        ('{"json":1}', "js_superjson"),
        ("1", "no_such_format"),
        ("{broken", PORTABLE),
        ("", PORTABLE),
    ],
)
@pytest.mark.parametrize("unpickle", [True, False])
def test_b140_a_row_that_cannot_be_read_is_one_clear_error(
    text: str, label: str, unpickle: bool
) -> None:
    with pytest.raises(UndecodableValue) as caught:
        make(unpickle=unpickle).value(Any, WHAT).decode(text, label)
    assert label in str(caught.value)
    assert isinstance(make(unpickle=unpickle).errors.decode(text, label), RemoteError)


def test_b141_nul_is_stored_escaped() -> None:
    value = {"a\x00": "b\x00c", "l": ["\x00"]}
    text, decoded = make().value(Any, WHAT).encode(value)
    assert "\x00" not in text
    assert decoded == value
    codec = make().errors
    stored = codec.encode(raised(ValueError("a\x00b")))
    assert "\x00" not in stored
    assert codec.decode(stored, PORTABLE).args == ("a\x00b",)


def test_b142_nan_and_infinity_never_reach_a_row() -> None:
    for value, path in (({"x": float("nan")}, "$.x"), ({"y": [1.0, float("inf")]}, "$.y[1]")):
        for annotation in (Any, dict[str, Any], dict[str, float | list[float]]):
            assert refused(annotation, value).path == path


def test_b143_lone_surrogates_come_back() -> None:
    value = {"name\udc80": "\ud800"}
    text, decoded = make().value(Any, WHAT).encode(value)
    assert text.encode() == b'{"name\\udc80":"\\ud800"}'
    assert decoded == value
    codec = make().errors
    assert codec.decode(codec.encode(ValueError("\ud800")), PORTABLE).args == ("\ud800",)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 2**53 + 1),
        (int, 10**400),
        (Decimal, Decimal("1.10")),
        (datetime, datetime(2026, 1, 2, 3, 4, 5, 6)),  # noqa: DTZ001  naive on purpose
        (datetime, datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
        (set[int], {1}),
        (tuple[int, str], (1, "1")),
        (dict[int, str], {1: "a"}),
        (float, 1.0),
        (float, -0.0),
    ],
)
def test_b144_nothing_is_rounded_or_retyped(annotation: Any, value: Any) -> None:
    text, decoded = make().value(annotation, WHAT).encode(value)
    assert (
        repr(decoded) == repr(value) == repr(make().value(annotation, WHAT).decode(text, PORTABLE))
    )


@pytest.mark.parametrize(
    "value",
    [{1: "a", "1": "b"}, {None: 1}, {(1, 2): 3}, UUID(int=1), b"x", {1}, Decimal(1)],
    ids=repr,
)
def test_b144_what_json_cannot_say_is_refused_without_annotation(value: Any) -> None:
    assert "annotate the type" in refused(Any, value).reason


def test_b146_state_bound_to_the_process_is_found_when_it_is_declared() -> None:
    def work(state: WithLogger) -> None: ...

    with pytest.raises(RegistrationError, match=r"WithLogger\.log: logging\.Logger has no stored"):
        make().arguments(work, "workflow 'work'")
    assert "annotate the type" in refused(Any, WithLogger("x", getLogger())).reason


def test_b147_a_value_beyond_the_limit_is_refused_with_both_sizes() -> None:
    with pytest.raises(ValueTooLarge) as caught:
        make(limit=1_000_000).value(bytes, WHAT).encode(bytes(1_000_000))
    assert (caught.value.size, caught.value.limit) == (1_333_338, 1_000_000)
    assert "Engine(max_value_bytes=...)" in str(caught.value)
    codec = make().errors
    again = codec.decode(codec.encode(caught.value), PORTABLE)
    assert type(again) is errors.ValueTooLarge


def test_b147_what_is_surely_too_large_is_not_encoded_first() -> None:
    """Which would stop everything else for seconds: nobody comes to its parts."""
    codec = make(limit=1_000).value(Any, WHAT)
    unstorable: Any = object()
    for value in (
        "\ud800" * 999,
        bytes(750),
        [unstorable] * 500,
        dict.fromkeys(range(200), unstorable),
    ):
        with pytest.raises(ValueTooLarge):
            codec.encode(value)

    def place(one: Any, *, two: Any) -> None: ...

    with pytest.raises(ValueTooLarge, match="at least 1,002 bytes"):
        make(limit=1_000).arguments(place, WHAT).encode(([unstorable] * 250,), {"two": "x" * 499})
