"""Classes stored as one text: exactly these texts, exactly these values, naive ones too."""
# ruff: noqa: DTZ001

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from io import BytesIO
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from tests.support.serialized import PORTABLE, WHAT, make, refused, round_trip, unreadable

ROME = ZoneInfo("Europe/Rome")
TWO_HOURS = timezone(timedelta(hours=2))
SOME_UUID = UUID("12345678-1234-5678-9234-567812345678")


class Elsewhere(tzinfo):
    def utcoffset(self, _: datetime | None) -> timedelta:
        return timedelta(hours=3)

    def dst(self, _: datetime | None) -> None:
        return None


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (datetime, datetime(2026, 1, 2, 3, 4, 5, 6), "2026-01-02T03:04:05.000006"),
        (datetime, datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00.000000Z"),
        (datetime, datetime(2026, 1, 2, tzinfo=TWO_HOURS), "2026-01-02T00:00:00.000000+02:00"),
        (
            datetime,
            datetime(1, 1, 1, 12, tzinfo=timezone(timedelta(seconds=-1))),
            "0001-01-01T12:00:00.000000-00:00:01",
        ),
        (
            datetime,
            datetime(2026, 1, 2, tzinfo=ROME),
            "2026-01-02T00:00:00.000000+01:00[Europe/Rome]",
        ),
        (
            datetime,
            datetime(2026, 1, 2, tzinfo=ZoneInfo("UTC")),
            "2026-01-02T00:00:00.000000+00:00[UTC]",
        ),
        (
            datetime,
            datetime(2026, 10, 25, 2, 30, tzinfo=ROME),
            "2026-10-25T02:30:00.000000+02:00[Europe/Rome]",
        ),
        (
            datetime,
            datetime(2026, 10, 25, 2, 30, tzinfo=ROME, fold=1),
            "2026-10-25T02:30:00.000000+01:00[Europe/Rome]",
        ),
        (
            datetime,
            datetime(2026, 3, 29, 2, 30, tzinfo=ROME),  # a time that this zone never had
            "2026-03-29T02:30:00.000000+01:00[Europe/Rome]",
        ),
        (
            datetime,
            datetime(2026, 1, 2, tzinfo=ROME, fold=1),
            "2026-01-02T00:00:00.000000+01:00[Europe/Rome][fold=1]",
        ),
        (datetime, datetime(2026, 10, 25, 2, fold=1), "2026-10-25T02:00:00.000000[fold=1]"),
        (date, date(1, 1, 1), "0001-01-01"),
        (time, time(23, 59, 59, 999_999), "23:59:59.999999"),
        (time, time(1, 2, tzinfo=TWO_HOURS), "01:02:00.000000+02:00"),
        (time, time(1, 2, tzinfo=ROME, fold=1), "01:02:00.000000[Europe/Rome][fold=1]"),
        (timedelta, timedelta(0), "P0DT0S"),
        (timedelta, timedelta(days=1, seconds=3, microseconds=40), "P1DT3.000040S"),
        (timedelta, timedelta(microseconds=-1), "-P0DT0.000001S"),
        (timedelta, timedelta.max, "P999999999DT86399.999999S"),
        (timedelta, timedelta.min, "-P999999999DT0S"),
        (Decimal, Decimal("1.10"), "1.10"),
        (Decimal, Decimal("-0E+5"), "-0E+5"),
        (Decimal, Decimal("NaN"), "NaN"),
        (Decimal, Decimal("sNaN12"), "sNaN12"),
        (Decimal, Decimal("-Infinity"), "-Infinity"),
        (Decimal, Decimal("1" * 60 + ".5"), "1" * 60 + ".5"),
        (UUID, SOME_UUID, "12345678-1234-5678-9234-567812345678"),
        (bytes, b"\x00\xff", "AP8="),
        (bytes, b"", ""),
        (bytearray, bytearray(b"abc"), "YWJj"),
        (Path, Path("a/../b"), "a/../b"),
        (PurePath, PurePath(), "."),
        (PurePosixPath, PurePosixPath("//net/x"), "//net/x"),
        (PureWindowsPath, PureWindowsPath("c:/x"), "c:\\\\x"),
    ],
)
def test_values_come_back_exactly(annotation: Any, value: Any, text: str) -> None:
    assert round_trip(annotation, value) == f'"{text}"'


def test_a_path_that_is_no_unicode_comes_back() -> None:
    assert round_trip(Path, Path("\udc80")) == '"\\udc80"'


def test_the_name_of_a_fixed_offset_is_not_kept() -> None:
    named = datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=1), "CET"))
    decoded = make().value(datetime, WHAT).encode(named)[1]
    assert decoded == named
    assert decoded.tzinfo == named.tzinfo
    assert decoded.tzname() == "UTC+01:00"


@pytest.mark.parametrize(
    ("annotation", "value", "reason"),
    [
        (datetime, datetime(2026, 1, 2, tzinfo=Elsewhere()), "time zone of class"),
        (time, time(1, tzinfo=Elsewhere()), "time zone of class"),
        (
            datetime,
            datetime(2026, 1, 2, tzinfo=timezone(timedelta(microseconds=-1))),
            "fraction of a second",
        ),
        (datetime, date(2026, 1, 2), "a datetime.date where the annotation says datetime"),
        (date, datetime(2026, 1, 2), "a datetime.datetime where the annotation says date"),
        (bytes, bytearray(b"x"), "a bytearray where the annotation says bytes"),
        (bytes, memoryview(b"x"), "a memoryview where the annotation says bytes"),
        (UUID, str(SOME_UUID), "a str where the annotation says UUID"),
        (Decimal, 1, "a int where the annotation says Decimal"),
        (Path, PureWindowsPath("x"), "PureWindowsPath where the annotation says"),
    ],
)
def test_other_values_are_refused(annotation: Any, value: Any, reason: str) -> None:
    assert reason in refused(annotation, value).reason


def test_a_zone_without_a_key_is_refused() -> None:
    counts = struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    data = b"TZif" + bytes(16) + counts + struct.pack(">lbb", 3600, 0, 0) + b"XYZ\0"
    zone = ZoneInfo.from_file(BytesIO(data))
    assert "without a key" in refused(datetime, datetime(2026, 1, 2, tzinfo=zone)).reason


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (datetime, "2026-01-02T03:04:05.678Z", datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)),
        (datetime, "2026-01-02T03:04:05+02:00", datetime(2026, 1, 2, 3, 4, 5, tzinfo=TWO_HOURS)),
        (
            datetime,
            "2026-01-02T03:04:05.123456789Z",
            datetime(2026, 1, 2, 3, 4, 5, 123_456, tzinfo=UTC),
        ),
        (date, "2026-01-02T23:59:59.000Z", date(2026, 1, 2)),
        (timedelta, "PT26H3M4.5S", timedelta(hours=26, minutes=3, seconds=4.5)),
        (timedelta, "P2W", timedelta(weeks=2)),
        (UUID, "12345678123456789234567812345678", SOME_UUID),
    ],
)
def test_what_other_writers_spell_differently_is_read(
    annotation: Any, text: str, value: Any
) -> None:
    assert make().value(annotation, WHAT).decode(f'"{text}"', PORTABLE) == value


def test_an_instant_outlives_a_change_of_its_zones_rules() -> None:
    read = make().value(datetime, WHAT).decode('"2026-07-01T12:00:00+01:00[Europe/Rome]"', PORTABLE)
    assert read == datetime(2026, 7, 1, 11, tzinfo=UTC)
    assert read.tzinfo is ROME


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (datetime, '"yesterday"'),
        (datetime, "5"),
        (datetime, '"2026-01-02T00:00:00[No/Where]"'),
        (datetime, '"2026-01-02T00:00:00[../../etc/passwd]"'),
        (date, '"x"'),
        (time, '"x"'),
        (timedelta, '"P"'),
        (timedelta, '"PT"'),
        (timedelta, '"P1DT"'),
        (timedelta, '"1 day"'),
        (timedelta, '"P9999999999D"'),
        (Decimal, '"x"'),
        (Decimal, "1.5"),
        (UUID, '"x"'),
        (bytes, '"a"'),
        (bytes, '"a-_="'),
        (Path, "[]"),
    ],
)
def test_anything_else_is_unreadable(annotation: Any, text: str) -> None:
    assert f"{WHAT}: cannot read a value stored as 'portable_json'" in unreadable(annotation, text)
