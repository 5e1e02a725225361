"""Formats of the user's own: held to the rule that every codec keeps, and refused in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure.errors import (
    ConfigurationError,
    FormatUnavailable,
    InvalidArgument,
    RemoteError,
    UndecodableValue,
    UnserializableValue,
    ValueTooLarge,
)
from perdure.serialization import Serialization, Serializer
from tests.support.serialized import PORTABLE, Spelled, make

NOW = datetime(2026, 11, 30, 12, 30, 1, 250, tzinfo=UTC)


class Made:
    """A serializer of two functions."""

    def __init__(
        self,
        encode: Callable[[Any], Any] = json.dumps,
        decode: Callable[[str], Any] = json.loads,
    ) -> None:
        self.encode = encode
        self.decode = decode


def knowing(serializer: Serializer | None = None, **options: Any) -> Serialization:
    return make(serializers={"own": serializer or Spelled()}, **options)


def total(n: int, *rest: set[int], when: datetime) -> None:
    """What arguments are of."""


def test_a_value_is_written_and_read_in_it() -> None:
    codec = knowing().value(dict[str, set[int]], "a value")
    text, read = codec.encode_as("own", {"a": {1, 2}})
    assert text == Spelled().encode({"a": [1, 2]})
    assert read == codec.decode(text, "own") == {"a": {1, 2}}
    assert codec.encode_as(PORTABLE, {"a": {1}}) == ('{"a":[1]}', {"a": {1}})
    assert codec.decode(None, "own") is None


def test_arguments_are_written_and_read_in_it() -> None:
    """In the shape in which the formats of other SDKs are given them."""
    codec = knowing().arguments(total, "total")
    text, args, kwargs = codec.encode((1, {2}, {3}), {"when": NOW}, "own")
    assert (args, kwargs) == ((1, {2}, {3}), {"when": NOW})
    assert Spelled().decode(text) == {
        "args": [1, [2], [3]],
        "kwargs": {"when": "2026-11-30T12:30:01.000250Z"},
    }
    assert codec.decode(text, "own") == (args, kwargs)


def test_an_error_is_written_and_read_in_it() -> None:
    codec = knowing(errors=(LookupError,)).errors
    text = codec.encode_as("own", LookupError("gone", 3))
    assert Spelled().decode(text)["name"] == "LookupError"
    again = codec.decode(text, "own")
    assert (type(again), again.args) == (LookupError, ("gone", 3))
    assert repr(codec.recorded(text, "own")) == repr(again)


def test_an_error_that_it_cannot_write_is_written_without_what_it_cannot() -> None:
    def no_lists(tree: Any) -> str:
        if "[" in json.dumps(tree):
            raise TypeError("no lists")
        return json.dumps(tree)

    codec = knowing(Made(no_lists)).errors
    again = codec.decode(codec.encode_as("own", LookupError("gone")), "own")
    assert isinstance(again, RemoteError)
    assert (again.name, again.message) == ("LookupError", "gone")


def test_an_error_is_stored_even_if_it_writes_nothing() -> None:
    def refuse(_: Any) -> str:
        raise TypeError("never")

    text = knowing(Made(refuse)).errors.encode_as("own", LookupError("gone"))
    assert json.loads(text)["name"] == "LookupError"


def test_an_exception_that_another_program_stored_is_that() -> None:
    codec = knowing(Made(decode=lambda _: KeyError("k"))).errors
    assert repr(codec.decode("whatever", "own")) == "KeyError('k')"


@pytest.mark.parametrize(
    ("serializer", "said"),
    [
        (Made(lambda tree: json.dumps(tree).encode()), "no text"),
        (Made(lambda _: "a\x00b"), "no text"),
        (Made(lambda _: "\ud800"), "no text"),
        (Made(lambda _: 1 / 0), "encode of the serializer 'own' raised ZeroDivisionError"),
        (Made(decode=lambda _: 1 / 0), "decode of the serializer 'own' raised ZeroDivisionError"),
        (Made(decode=lambda _: [1, 2.0]), "another value"),
        (Made(decode=lambda _: (1, 2)), "another value"),
        (Made(decode=lambda _: [True, 2]), "another value"),
    ],
)
def test_what_does_not_come_back_equal_is_refused(serializer: Serializer, said: str) -> None:
    known = knowing(serializer)
    with pytest.raises(UnserializableValue, match=said):
        known.value(list[int], "a value").encode_as("own", [1, 2])
    with pytest.raises(UnserializableValue, match=said):
        known.arguments(total, "total").encode((1,), {"when": NOW}, "own")


def test_what_its_annotation_refuses_is_refused_with_the_path() -> None:
    codec = knowing().value(dict[str, int], "a value")
    with pytest.raises(UnserializableValue, match=r"\$\.a"):
        codec.encode_as("own", {"a": "text"})


def test_the_limit_is_of_the_text_that_is_stored() -> None:
    known = knowing(Made(lambda tree: json.dumps(tree) + " " * 100), limit=50)
    with pytest.raises(ValueTooLarge):
        known.value(int, "a value").encode_as("own", 1)
    with pytest.raises(ValueTooLarge):
        known.arguments(total, "total").encode((1,), {"when": NOW}, "own")
    assert len(known.errors.encode_as("own", LookupError("gone"))) <= 50


def test_what_cannot_be_read_says_why() -> None:
    codec = knowing().value(list[int], "a value")
    with pytest.raises(UndecodableValue, match="decode of the serializer 'own' raised"):
        codec.decode("!", "own")
    with pytest.raises(UndecodableValue, match=r"\[0\]"):
        codec.decode(Spelled().encode(["text"]), "own")
    assert isinstance(knowing().errors.decode("!", "own"), RemoteError)


def test_an_unknown_label_is_another_process_s_to_read() -> None:
    """It names the remedy; nothing is guessed."""
    codec = make().value(list[int], "a value")
    with pytest.raises(FormatUnavailable, match=r"knows no format 'own'.*serializers="):
        codec.decode("[]", "own")
    with pytest.raises(FormatUnavailable):
        make().arguments(total, "total").decode("{}", "own")
    with pytest.raises(FormatUnavailable):
        make().errors.recorded("{}", "own")


def test_what_stands_beside_a_row_is_in_its_own_format_or_in_the_shared_one() -> None:
    known = knowing(unpickle=True)
    labels = ("own", PORTABLE, "py_pickle", "js_superjson", None, "")
    assert [known.label_for(label) for label in labels] == ["own", *[PORTABLE] * 5]


def test_a_call_chooses_among_those_there_are() -> None:
    assert [knowing().chosen(name) for name in ("own", PORTABLE)] == ["own", PORTABLE]
    for name in ("other", "py_pickle", "", 3):
        with pytest.raises(InvalidArgument, match="portable_json, own"):
            knowing().chosen(name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "serializers",
    [
        {"portable_json": Made()},
        {"py_pickle": Made()},
        {"": Made()},
        {" ": Made()},
        {3: Made()},
        {"own": Spelled},
        {"own": json},
        {"own": None},
    ],
    ids=["json", "pickle", "empty", "blank", "number", "class", "module", "nothing"],
)
def test_what_is_no_serializer_is_refused(serializers: Any) -> None:
    with pytest.raises(ConfigurationError, match="serializers"):
        make(serializers=serializers)
