"""The page about values says what is so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel

from perdure.serialization.nesting import MAX_DEPTH
from tests.support.serialized import round_trip

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "values.md"


class Colour(Enum):
    RED = "red"


class Access(Flag):
    READ = 1
    WRITE = 2


@dataclass
class Order:
    id: int
    tags: set[str]


class Movie(TypedDict):
    title: str


class Point(NamedTuple):
    x: int
    y: int


class Item(BaseModel):
    price: Decimal


NAMES = {
    one.__name__: one
    for one in (date, datetime, time, timedelta, Decimal, UUID, ZoneInfo, Path, Colour, Access)
} | {"Literal": Literal, "UTC": UTC, "Order": Order, "Movie": Movie, "Point": Point, "Item": Item}


def rows() -> list[tuple[str, str, str]]:
    table = PAGE.read_text().split("| annotation | value | stored as |")[1].split("\n\n")[0]
    found = re.findall(r"^\| `(.+?)` \| `(.+?)` \| `(.+?)` \|$", table, re.MULTILINE)
    return [tuple(cell.replace("\\|", "|") for cell in row) for row in found]  # type: ignore[misc]


def evaluated(text: str) -> Any:
    return eval(text, dict(NAMES))  # noqa: S307  the project's own page


def test_every_row_is_read() -> None:
    lines = PAGE.read_text().split("| annotation | value | stored as |")[1].split("\n\n")[0]
    assert len(rows()) == lines.strip().count("\n") > 20


@pytest.mark.parametrize(("annotation", "value", "stored"), rows())
def test_a_value_is_stored_as_the_page_says(annotation: str, value: str, stored: str) -> None:
    assert round_trip(evaluated(annotation), evaluated(value)) == stored


def test_the_depth_is_the_one_that_is_enforced() -> None:
    assert f"more than {MAX_DEPTH} levels deep" in PAGE.read_text()
