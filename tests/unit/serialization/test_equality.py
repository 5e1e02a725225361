"""Equality with equal types at every depth."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid1
from zoneinfo import ZoneInfo

import pytest

from perdure.serialization.equality import exactly

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


class Level(IntEnum):
    LOW = 1


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x


@dataclass
class Loose:
    x: Any

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    @cached_property
    def twice(self) -> Any:
        return [self.x, self.x]


class Named(dict[str, int]):
    note = ""


def noted(note: str) -> Named:
    named = Named(a=1)
    named.note = note
    return named


def looked_at(loose: Loose) -> Loose:
    assert loose.twice
    return loose


SOME_UUID = uuid1()
SAME: list[tuple[Any, Any]] = [
    (float("nan"), float("nan")),
    (Decimal("sNaN"), Decimal("sNaN")),
    ([1, (2.0, {"a": {3}})], [1, (2.0, {"a": {3}})]),
    (NOON, datetime(2026, 1, 2, 12, tzinfo=timezone(timedelta(0), "Z"))),
    (NOON.replace(tzinfo=ZoneInfo("UTC")), NOON.replace(tzinfo=ZoneInfo.no_cache("UTC"))),
    (ValueError(1, [2]), ValueError(1, [2])),
    (Slotted([1]), Slotted([1])),
    (looked_at(Loose(1)), Loose(1)),
    (SOME_UUID, type(SOME_UUID)(str(SOME_UUID))),
    (Path("a"), Path("a")),
    (noted("x"), noted("x")),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (1, True),
    (1, 1.0),
    (0.0, -0.0),
    (1, Level.LOW),
    (Decimal("1.0"), Decimal("1.00")),
    ([1], (1,)),
    ([1], [1, 2]),
    ([1], [True]),
    ({1}, frozenset({1})),
    ({1, 2}, {True, 2}),
    ({1}, {2}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({1: "a"}, {True: "a"}),
    (NOON, NOON.replace(tzinfo=None)),
    (NOON, NOON.replace(tzinfo=ZoneInfo("UTC"))),
    (NOON, NOON.astimezone(timezone(timedelta(hours=1)))),
    (NOON, NOON.replace(fold=1)),
    (time(1), time(1, tzinfo=UTC)),
    (ValueError(1), ValueError(True)),
    (ValueError(1), TypeError(1)),
    (Slotted(1), Slotted(1.0)),
    (Loose(1), Loose(2)),
    (noted("x"), noted("y")),
    (object(), object()),
    ("a", b"a"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same(one: Any, other: Any) -> None:
    assert exactly(one, other)
    assert exactly(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_not_the_same(one: Any, other: Any) -> None:
    assert not exactly(one, other)
    assert not exactly(other, one)
