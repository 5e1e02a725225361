"""The shared envelope of errors: what we write for others, and what we read of theirs."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

import pytest

from perdure.errors import RemoteError
from tests.support.serialized import PORTABLE, make, raised


class Coded(Exception):
    def __init__(self, **attributes: Any) -> None:
        super().__init__("m")
        self.__dict__.update(attributes)


class Hostile(Exception):
    @property
    def code(self) -> int:
        raise ZeroDivisionError

    @property
    def data(self) -> int:
        raise KeyError

    def __str__(self) -> str:
        raise ValueError("no")

    def __repr__(self) -> str:
        return "<hostile>"


class Unprintable(Hostile):
    def __repr__(self) -> str:
        raise ValueError("no")


def shared(error: BaseException, limit: int = 100_000) -> str:
    """What another SDK makes of the stored text: its four keys, as compact JSON."""
    tree = json.loads(make(limit=limit).errors.encode(error))
    tree.pop("perdure", None)
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            ValueError("plain value error"),
            '{"name":"ValueError","message":"plain value error","code":null}',
        ),
        (
            FileNotFoundError(2, "nofile"),
            '{"name":"FileNotFoundError","message":"[Errno 2] nofile","code":2}',
        ),
        (
            RemoteError("NotFoundError", "gone", 404, {"id": [1]}),
            '{"name":"NotFoundError","message":"gone","code":404,"data":{"id":[1]}}',
        ),
        (RemoteError("RangeError", "rng"), '{"name":"RangeError","message":"rng","code":null}'),
        (Coded(code="A", errno=1), '{"name":"Coded","message":"m","code":"A"}'),
        (Coded(code=1.5, status=404), '{"name":"Coded","message":"m","code":404}'),
        (Coded(code=None, status=404), '{"name":"Coded","message":"m","code":null}'),
        (Coded(status_code=HTTPStatus.OK), '{"name":"Coded","message":"m","code":200}'),
        (Coded(data=None), '{"name":"Coded","message":"m","code":null,"data":null}'),
        (Coded(details=(1, 2)), '{"name":"Coded","message":"m","code":null,"data":[1,2]}'),
        (Coded(payload=b"x"), '{"name":"Coded","message":"m","code":null,"data":"b\'x\'"}'),
        (Coded(meta=float("nan")), '{"name":"Coded","message":"m","code":null,"data":"nan"}'),
        (Coded(data=len, extra=1), '{"name":"Coded","message":"m","code":null,"data":1}'),
        (RemoteError(5, None, 1.5), '{"name":"5","message":"None","code":null}'),  # type: ignore[arg-type]
        (Hostile(), '{"name":"Hostile","message":"<hostile>","code":null}'),
        (Unprintable(), '{"name":"Unprintable","message":"<unprintable>","code":null}'),
        (ValueError("a\x00b"), '{"name":"ValueError","message":"a\\u0000b","code":null}'),
        (ValueError("é"), '{"name":"ValueError","message":"é","code":null}'),
    ],
)
def test_others_read_what_the_wire_says(error: BaseException, text: str) -> None:
    assert shared(error) == text


def test_the_stored_text_is_standard_json_whatever_the_message_holds() -> None:
    for message in ("\ud800", "\ud83d\ude00", "a\x00b", '"\\', "\udc80" * 3):
        text = make().errors.encode(ValueError(message))
        assert text.isprintable() or "\\u0000" in text
        assert text.encode()
        again = make().errors.decode(text, PORTABLE)
        assert getattr(again, "message", str(again)).encode(
            "utf-16", "surrogatepass"
        ) == message.encode("utf-16", "surrogatepass")


@pytest.mark.parametrize(
    ("text", "name", "message", "code", "data"),
    [
        ('{"name":"ValueError","message":"x","code":null}', "ValueError", "x", None, None),
        ('{"name":"N","message":"m","code":404,"data":{"a":1}}', "N", "m", 404, {"a": 1}),
        ('{"message":"m","name":"RangeError"}', "RangeError", "m", None, None),
        ('{"name":"N","message":5,"code":1.5}', "N", "5", None, None),
        ('{"name":"N"}', "Error", '{"name":"N"}', None, None),
        ('"bare text"', "Error", "bare text", None, None),
        ("bare text", "Error", "bare text", None, None),
        ("", "Error", "", None, None),
        (None, "Error", "no error was recorded", None, None),
        ("[1]", "Error", "[1]", None, None),
    ],
)
def test_envelopes_of_others_are_remote_errors(
    text: str | None, name: str, message: str, code: Any, data: Any
) -> None:
    again = make().errors.decode(text, PORTABLE)
    assert type(again) is RemoteError
    assert (again.name, again.message, again.code, again.data) == (name, message, code, data)
    assert again.traceback_text is None


def test_other_formats_are_read_as_far_as_they_show() -> None:
    superjson = '{"json":{"name":"TypeError","message":"bad","stack":"at f"},"meta":{"values":{}}}'
    again = make().errors.decode(superjson, "js_superjson")
    assert type(again) is RemoteError
    assert (again.name, again.message, again.traceback_text) == ("TypeError", "bad", "at f")
    bare = make().errors.decode("eyJh", "DBOS_JSON")
    assert type(bare) is RemoteError
    assert bare.message == "eyJh"


@pytest.mark.parametrize("limit", [20, 100, 400, 700, 2_000, 20_000])
def test_an_error_of_any_size_is_stored(limit: int) -> None:
    error = raised(Coded(data="d" * 3_000, big="b" * 3_000), ValueError("c" * 30_000))
    error.args = ("m" * 1_000,)
    text = make(limit=limit, errors=(Coded,)).errors.encode(error)
    again = make(errors=(Coded,)).errors.decode(text, PORTABLE)
    assert len(text) <= max(limit, len('{"name":"Coded","message":"","code":null}'))
    assert type(again) is (Coded if limit == 20_000 else RemoteError)
    assert str(again).count("m") >= (500 if limit >= 700 else 0)
