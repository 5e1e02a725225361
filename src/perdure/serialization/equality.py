"""Equality with equal types at every depth, for what a codec cannot promise by itself."""

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, time, tzinfo
from decimal import Decimal
from enum import Enum
from functools import cached_property
from pathlib import PurePath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

_SELF_COMPARING = (str, bytes, bytearray, int, Enum, type, UUID, PurePath)
"""Classes whose `==` between values of one class misses nothing."""

_NOT_COMPARED = ("__dict__", "__weakref__", "__pydantic_fields_set__")
"""Which fields of a pydantic model were given rather than left to their defaults is no part of its
equality, and a stored model has all of them."""


def exactly(one: Any, other: Any) -> bool:
    """Whether two values are equal and of equal type, part by part; NaN is equal to itself."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        same_sign = math.copysign(1, one) == math.copysign(1, other)
        return (one == other and same_sign) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, Decimal):
        return str(one) == str(other)
    if isinstance(one, datetime | time):
        return _same_clock(one, other)
    if isinstance(one, _SELF_COMPARING):
        return bool(one == other)
    return _same_parts(one, other)


def _same_clock(one: Any, other: Any) -> bool:
    bare = one.replace(tzinfo=None) == other.replace(tzinfo=None) and one.fold == other.fold
    return bare and _same_zone(one.tzinfo, other.tzinfo)


def _same_zone(one: tzinfo | None, other: tzinfo | None) -> bool:
    """Fixed offsets are one kind of zone, of whatever class; named zones are another."""
    if isinstance(one, ZoneInfo) and isinstance(other, ZoneInfo):
        return one.key == other.key
    if isinstance(one, ZoneInfo) or isinstance(other, ZoneInfo):
        return False
    return one == other


def _same_parts(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping):
        return _same_items(list(one.items()), list(other.items())) and _same_state(one, other)
    if isinstance(one, Sequence):
        return _same_items(one, other) and _same_state(one, other)
    if isinstance(one, AbstractSet):
        found = {part: part for part in other}
        return len(one) == len(found) and all(
            part in found and exactly(part, found[part]) for part in one
        )
    if isinstance(one, BaseException):
        return exactly(one.args, other.args) and _same_state(one, other)
    return _same_state(one, other) if _state(one) else bool(one == other)


def _same_items(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(
        exactly(part, same) for part, same in zip(one, other, strict=True)
    )


def _same_state(one: Any, other: Any) -> bool:
    states = _state(one), _state(other)
    return states[0].keys() == states[1].keys() and all(
        exactly(part, states[1][name]) for name, part in states[0].items()
    )


def _state(value: Any) -> dict[str, Any]:
    """The attributes of an instance, wherever its class keeps them."""
    state = {
        name: part
        for name, part in getattr(value, "__dict__", {}).items()
        if not isinstance(getattr(type(value), name, None), cached_property)
    }
    names = [name for cls in type(value).__mro__ for name in slots_of(cls)]
    for name in names:
        if hasattr(value, name):
            state[name] = getattr(value, name)
    return state


def slots_of(cls: type) -> tuple[str, ...]:
    """The attributes for which a class itself made slots, under the names they are kept by."""
    slots = cls.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(
        f"_{cls.__name__.lstrip('_')}{name}"
        if name.startswith("__") and not name.endswith("__")
        else name
        for name in names
        if name not in _NOT_COMPARED
    )
