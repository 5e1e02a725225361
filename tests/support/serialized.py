"""Codecs for tests, and a strict view of values to compare them by."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable, Mapping
from datetime import datetime, time, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from perdure.errors import UndecodableValue, UnserializableValue
from perdure.serialization import Serialization, Serializer

PORTABLE = "portable_json"
PICKLE = "py_pickle"
WHAT = "result of step 'fetch'"


def make(
    *,
    limit: int = 10_000_000,
    unpickle: bool = False,
    errors: tuple[type[BaseException], ...] = (),
    known: Callable[[str, str], type[BaseException] | None] = lambda _module, _name: None,
    serializers: Mapping[str, Serializer] | None = None,
) -> Serialization:
    return Serialization(
        max_value_bytes=limit,
        unpickle=unpickle,
        errors=errors,
        known_error=known,
        serializers=serializers,
    )


class Spelled:
    """A format that no reader takes for another: JSON, escaped and in base 64, behind a mark."""

    def encode(self, tree: Any, /) -> str:
        return "~" + base64.b64encode(json.dumps(tree).encode()).decode()

    def decode(self, text: str, /) -> Any:
        if not text.startswith("~"):
            raise ValueError("no text of this format")
        return json.loads(base64.b64decode(text[1:], validate=True))


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """The error after it was raised, with its traceback."""

    def fail() -> None:
        raise error from cause

    with pytest.raises(type(error)) as caught:
        fail()
    return caught.value


def fingerprint(value: Any) -> Any:
    """A value as nested tuples that are equal only for equal values of equal types.

    Errors within it count by their name: each is proven on its own.
    """
    kind = type(value).__qualname__
    if isinstance(value, BaseException):
        return "error", getattr(value, "name", None) or kind
    if isinstance(value, Enum):
        return kind, value.name or value.value
    if isinstance(value, datetime | time):
        return kind, value.replace(tzinfo=None).isoformat(), value.fold, _zone(value.tzinfo)
    if isinstance(value, float | Decimal):
        return kind, repr(value)
    if isinstance(value, dict):
        return kind, [(fingerprint(key), fingerprint(part)) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return kind, [fingerprint(part) for part in value]
    if isinstance(value, set | frozenset):
        return kind, sorted(repr(fingerprint(part)) for part in value)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return kind, [(name, fingerprint(getattr(value, name))) for name in names]
    return kind, value


def _zone(zone: tzinfo | None) -> Any:
    if isinstance(zone, ZoneInfo):
        return zone.key
    return None if zone is None else zone.utcoffset(None)


def strict(text: str) -> Any:
    """What a reader that knows standard JSON alone makes of a text."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text.encode(), parse_constant=refuse)


def round_trip(annotation: Any, value: Any) -> str:
    """Store a value, hold both what it decoded to and what a reader gets to it; its text."""
    codec = make().value(annotation, WHAT)
    text, decoded = codec.encode(value)
    assert fingerprint(decoded) == fingerprint(value)
    assert fingerprint(codec.decode(text, PORTABLE)) == fingerprint(value)
    return text


def refused(annotation: Any, value: Any) -> UnserializableValue:
    """The refusal of a value."""
    with pytest.raises(UnserializableValue) as caught:
        make().value(annotation, WHAT).encode(value)
    assert caught.value.what == WHAT
    return caught.value


def unreadable(annotation: Any, text: str, serialization: str | None = PORTABLE) -> str:
    """The message of what cannot be read."""
    with pytest.raises(UndecodableValue) as caught:
        make().value(annotation, WHAT).decode(text, serialization)
    return str(caught.value)
