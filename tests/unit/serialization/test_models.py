"""Pydantic models, when pydantic is installed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass as plain_dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Generic, TypeVar
from zoneinfo import ZoneInfo

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, RootModel, field_serializer
from pydantic.dataclasses import dataclass as pydantic_dataclass

from perdure.errors import RegistrationError
from tests.support.serialized import PORTABLE, WHAT, make, refused, unreadable

T = TypeVar("T")
NOON = datetime(2026, 1, 2, 12, 0, 0, 5, tzinfo=UTC)


class Item(BaseModel):
    price: Decimal
    tags: set[str] = set()


class Order(BaseModel):
    id: int = Field(alias="orderId")
    when: datetime
    items: list[Item] = []
    pair: tuple[int, str] = (1, "a")


class Box(BaseModel, Generic[T]):
    value: T


class Words(RootModel[list[str]]):
    pass


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    anything: Any = None


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    when: datetime


class Rounded(BaseModel):
    x: float

    @field_serializer("x")
    def write(self, x: float) -> float:
        return round(x, 1)


class OneWay(BaseModel):
    x: int = Field(validation_alias=AliasChoices("y"), serialization_alias="z")


class Failing(BaseModel):
    x: int

    @field_serializer("x")
    def write(self, _: int) -> int:
        raise ZeroDivisionError("no")


@pydantic_dataclass
class Data:
    x: int
    when: datetime


@plain_dataclass
class Holder:
    orders: list[Order]
    best: Item | None


ORDER = Order(orderId=1, when=NOON, items=[Item(price=Decimal("1.10"), tags={"a"})])


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Order, ORDER),
        (Box[Decimal], Box[Decimal](value=Decimal("1.10"))),
        (Words, Words(["a"])),
        (Loose, Loose(anything=[1, {"a": None}], other="x")),
        (Strict, Strict(when=NOON)),
        (Rounded, Rounded(x=1.5)),
        (Data, Data(1, NOON)),
        (Holder, Holder([ORDER], Item(price=Decimal(1)))),
        (list[Order] | None, [ORDER]),
        (Order, Order(orderId=1, when=NOON.astimezone(timezone(timedelta(hours=2))))),
    ],
)
def test_models_come_back_equal(annotation: Any, value: Any) -> None:
    codec = make().value(annotation, WHAT)
    text, decoded = codec.encode(value)
    for read in (decoded, codec.decode(text, PORTABLE)):
        assert read == value
        assert type(read) is type(value)


def test_the_stored_form_is_the_models_own() -> None:
    assert make().value(Order, WHAT).encode(ORDER)[0] == (
        '{"orderId":1,"when":"2026-01-02T12:00:00.000005Z",'
        '"items":[{"price":"1.10","tags":["a"]}],"pair":[1,"a"]}'
    )


@pytest.mark.parametrize(
    ("annotation", "value", "path", "reason"),
    [
        (Order, {"orderId": 1}, "$", "a dict where the annotation says"),
        (Loose, Loose(anything=NOON), "$.anything", "another value"),
        (Loose, Loose(anything=(1, 2)), "$.anything", "another value"),
        (Rounded, Rounded(x=1.25), "$.x", "another value"),
        (Rounded, Rounded(x=float("inf")), "$.x", "NaN"),
        (Order, Order(orderId=1, when=NOON.replace(tzinfo=ZoneInfo("UTC"))), "$.when", "another"),
        (OneWay, OneWay(y=1), "$", "Field required"),
        (Failing, Failing(x=1), "$", "ZeroDivisionError"),
        (Holder, Holder([], Loose()), "$.best", "Loose where"),  # type: ignore[arg-type]
    ],
)
def test_what_pydantic_would_alter_is_refused(
    annotation: Any, value: Any, path: str, reason: str
) -> None:
    refusal = refused(annotation, value)
    assert refusal.path == path
    assert reason in refusal.reason


def test_a_text_that_does_not_validate_is_unreadable() -> None:
    assert "orderId" in unreadable(Order, "{}")
    assert "$.orders[0]" in unreadable(Holder, '{"orders":[{}],"best":null}')


def test_a_model_of_any_shape_cannot_stand_beside_text() -> None:
    with pytest.raises(RegistrationError, match="both stored as text"):
        make().value(Words | datetime, WHAT)


def test_pydantic_is_not_imported() -> None:
    script = "import sys, perdure.serialization; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
