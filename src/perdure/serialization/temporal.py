"""Instants, clock times, dates and durations as ISO 8601 texts that read back exactly.

A zone of `zoneinfo` and a set `fold` are kept in the bracket suffixes of RFC 9557.
"""

import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

from perdure.serialization.codec import Misfit

_STAMP = re.compile(r"(?P<stamp>[^\[]+)(?:\[(?P<zone>[^\]=]+)\])?(?P<fold>\[fold=1\])?")
_DURATION = re.compile(
    r"(?P<sign>-?)P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+)(?:\.(?P<fraction>\d{1,9}))?S)?)?"
)


def write_datetime(value: datetime) -> str:
    """ISO text with microseconds and offset; UTC as `Z`, as the other SDKs write it."""
    stamp = value.isoformat(timespec="microseconds")
    suffix = _suffix(value)
    if not suffix and stamp.endswith("+00:00"):
        return f"{stamp[:-6]}Z"
    return stamp + suffix


def write_time(value: time) -> str:
    """ISO text with microseconds and, for a fixed zone, offset."""
    return value.isoformat(timespec="microseconds") + _suffix(value)


def _suffix(value: datetime | time) -> str:
    """What the ISO text alone would lose."""
    zone = value.tzinfo
    if zone is UTC and not value.fold:
        return ""
    if type(zone) is ZoneInfo:
        named = f"[{_key(zone)}]"
        implied = value.utcoffset() != value.replace(fold=0).utcoffset()
        return named if implied or not value.fold else f"{named}[fold=1]"
    offset = None if zone is None else zone.utcoffset(None)
    if offset and offset.microseconds:
        raise Misfit("an offset with a fraction of a second cannot be kept")
    if zone is not None and (offset is None or zone != timezone(offset)):
        raise Misfit(
            f"a time zone of class {type(zone).__qualname__} cannot be kept; use "
            "datetime.timezone or zoneinfo.ZoneInfo"
        )
    return "[fold=1]" if value.fold else ""


def _key(zone: ZoneInfo) -> str:
    if zone.key is None:
        raise Misfit("a ZoneInfo without a key cannot be kept; use ZoneInfo(key)")
    ZoneInfo(zone.key)
    return zone.key


def _split(text: str) -> tuple[str, ZoneInfo | None, int]:
    found = _STAMP.fullmatch(text)
    if found is None:
        raise ValueError("an ISO 8601 text is expected")
    zone = ZoneInfo(found["zone"]) if found["zone"] else None
    return found["stamp"], zone, 1 if found["fold"] else 0


def read_datetime(text: str) -> datetime:
    """The instant of an ISO text; in a named zone whose rules changed since, the same instant."""
    if not text.endswith("]"):
        return datetime.fromisoformat(text)
    stamp, zone, fold = _split(text)
    value = datetime.fromisoformat(stamp)
    if zone is None:
        return value.replace(fold=fold)
    for side in (fold, 1):
        local = value.replace(tzinfo=zone, fold=side)
        if local.utcoffset() == value.utcoffset():
            return local
    return value.astimezone(zone)


def read_time(text: str) -> time:
    """The clock time of an ISO text."""
    stamp, zone, fold = _split(text)
    value = time.fromisoformat(stamp)
    return value.replace(tzinfo=zone or value.tzinfo, fold=fold)


def read_date(text: str) -> date:
    """A date; of an instant, as which other languages may write dates, the day in its offset."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return datetime.fromisoformat(text).date()


def write_timedelta(value: timedelta) -> str:
    """An ISO 8601 duration in days and seconds."""
    sign, size = ("-", -value) if value < timedelta(0) else ("", value)
    fraction = f".{size.microseconds:06d}" if size.microseconds else ""
    return f"{sign}P{size.days}DT{size.seconds}{fraction}S"


def read_timedelta(text: str) -> timedelta:
    """The duration of an ISO 8601 text without years and months; nanoseconds are cut off."""
    found = _DURATION.fullmatch(text)
    if found is None or text[-1] in "PT":
        raise ValueError("an ISO 8601 duration such as P1DT3600S is expected")
    size = timedelta(
        weeks=int(found["weeks"] or 0),
        days=int(found["days"] or 0),
        hours=int(found["hours"] or 0),
        minutes=int(found["minutes"] or 0),
        seconds=int(found["seconds"] or 0),
        microseconds=int((found["fraction"] or "").ljust(6, "0")[:6]),
    )
    return -size if found["sign"] else size
