"""Literal texts of the wire: what we write, and what the Python SDK's serializer wrote."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from perdure.errors import RemoteError
from tests.support.serialized import PICKLE, PORTABLE, WHAT, fingerprint, make


@dataclass
class Order:
    id: int


def fn(*args: Any, **kwargs: Any) -> None: ...


def dated(at: datetime, on: date, price: Decimal, parts: tuple[int, set[int]]) -> None: ...


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (1796032240.0259829, "1796032240.0259829"),
        ("__DBOS_STREAM_CLOSED__", '"__DBOS_STREAM_CLOSED__"'),
        ({"ключ": [1, "é"]}, '{"ключ":[1,"é"]}'),
    ],
)
def test_values_are_compact_and_keep_their_letters(value: Any, text: str) -> None:
    assert make().value(Any, WHAT).encode(value)[0] == text


def test_arguments_have_both_keys_the_named_first() -> None:
    codec = make().arguments(fn, WHAT)
    assert codec.encode((), {})[0] == '{"namedArgs":{},"positionalArgs":[]}'
    assert codec.encode((1, "é"), {"b": 2})[0] == ('{"namedArgs":{"b":2},"positionalArgs":[1,"é"]}')


def test_what_the_python_sdk_wrote_as_portable_json_is_read() -> None:
    text = (
        '{"namedArgs":{},"positionalArgs":["2026-01-02T01:04:05.678Z","2026-01-02","1.10",[1,[2]]]}'
    )
    args, kwargs = make().arguments(dated, WHAT).decode(text, PORTABLE)
    at = datetime(2026, 1, 2, 1, 4, 5, 678_000, tzinfo=UTC)
    assert fingerprint(args) == fingerprint((at, date(2026, 1, 2), Decimal("1.10"), (1, {2})))
    assert kwargs == {}
    odd = '{"namedArgs":{"n":NaN,"m":{"a":null}},"positionalArgs":["é\\u0000"]}'
    args, kwargs = make().arguments(fn, WHAT).decode(odd, PORTABLE)
    assert fingerprint((args, kwargs)) == (
        fingerprint((("é\x00",), {"n": float("nan"), "m": {"a": None}}))
    )


@pytest.mark.parametrize(
    ("text", "name", "code", "data"),
    [
        ('{"name":"E","message":"m","code":404,"data":{"a":[1]}}', "E", 404, {"a": [1]}),
        (
            '{"name":"PortableWorkflowError","message":"m","code":404,"data":{"id":[1]}}',
            "PortableWorkflowError",
            404,
            {"id": [1]},
        ),
        ('{"name":"RangeError","message":"m"}', "RangeError", None, None),
    ],
)
def test_errors_of_other_sdks_are_read(text: str, name: str, code: Any, data: Any) -> None:
    again = make().errors.decode(text, PORTABLE)
    assert type(again) is RemoteError
    assert (again.name, again.message, again.code, again.data) == (name, "m", code, data)


def test_what_the_python_sdk_pickled_is_read() -> None:
    call = "gASVIgAAAAAAAAB9lCiMBGFyZ3OUSwGFlIwGa3dhcmdzlH2UjAFilEsCc3Uu"
    error = "gASVIwAAAAAAAACMCGJ1aWx0aW5zlIwKVmFsdWVFcnJvcpSTlIwBeJSFlFKULg=="
    serialization = make(unpickle=True)
    assert serialization.arguments(fn, WHAT).decode(call, PICKLE) == ((1,), {"b": 2})
    assert repr(serialization.errors.decode(error, PICKLE)) == "ValueError('x')"
    assert make().errors.decode(error, PICKLE).args[0].startswith("ValueError: x (it is a pickle")


def test_a_pickled_error_of_a_class_that_is_not_installed_shows_what_it_says() -> None:
    text = (
        "gASVZwAAAAAAAACME2Rib3MuX3NlcmlhbGl6YXRpb26UjBVQb3J0YWJsZVdvcmtmbG93RXJyb3KUk5SMAW2UjAFO"
        "lIaUUpR9lCiMB21lc3NhZ2WUaAOMBG5hbWWUaASMBGNvZGWUTowEZGF0YZROdWIu"
    )
    elsewhere = b64encode(b64decode(text).replace(b"dbos.", b"gone.")).decode()
    again = make(unpickle=True).errors.decode(elsewhere, PICKLE)
    assert type(again) is RemoteError
    assert again.name == "PortableWorkflowError"
    assert again.message.startswith("m (it cannot be unpickled: ModuleNotFoundError")


def test_what_typescript_and_go_write_is_read() -> None:
    def take(order: Order, note: str = "") -> None: ...

    codec = make().arguments(take, WHAT)
    assert codec.decode('{"positionalArgs":[{"id":1}]}', PORTABLE) == ((Order(1),), {})
    assert codec.decode('{"positionalArgs":[{"id":1}],"namedArgs":{}}', PORTABLE) == (
        (Order(1),),
        {},
    )
