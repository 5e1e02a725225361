"""Classes whose values are stored as one text."""

import base64
import pathlib
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from perdure.serialization import temporal
from perdure.serialization.codec import TEXT, Codec, Misfit, shown, wrong_kind, wrong_type


class TextCodec(Codec):
    """Values of exactly one class, stored as a text which that class reads back exactly."""

    __slots__ = ("_cls", "_read", "_write", "free_text", "label", "types")
    kinds = TEXT

    def __init__(
        self,
        cls: type,
        write: Callable[[Any], str],
        read: Callable[[str], Any],
        *,
        free_text: bool = False,
    ) -> None:
        self.label = cls.__name__
        self.types = frozenset({cls})
        self.free_text = free_text
        self._cls = cls
        self._write = write
        self._read = read

    def lower(self, value: Any) -> Any:
        if type(value) is not self._cls:
            raise wrong_type(value, self.label)
        try:
            return self._write(value)
        except LookupError as error:
            raise Misfit(f"{error}") from None

    def lift(self, tree: Any) -> Any:
        if type(tree) is not str:
            raise wrong_kind(tree, self.label)
        try:
            return self._read(tree)
        except (ValueError, ArithmeticError, LookupError, OSError) as error:
            raise Misfit(f"{shown(tree)} is not a {self.label}: {error}") from None


def _write_bytes(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode()


def _read_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _read_bytearray(text: str) -> bytearray:
    return bytearray(_read_bytes(text))


def _path_codecs() -> dict[type, Codec]:
    """A codec for each class of path, the abstract ones standing for this system's own."""
    codecs: dict[type, Codec] = {}
    for cls in (pathlib.PurePath, pathlib.Path, pathlib.PurePosixPath, pathlib.PureWindowsPath):
        own = type(cls())
        codecs[cls] = codecs[own] = TextCodec(own, str, own, free_text=True)
    return codecs


TEXT_CODECS: dict[type, Codec] = {
    UUID: TextCodec(UUID, str, UUID),
    Decimal: TextCodec(Decimal, str, Decimal),
    bytes: TextCodec(bytes, _write_bytes, _read_bytes),
    bytearray: TextCodec(bytearray, _write_bytes, _read_bytearray),
    datetime: TextCodec(datetime, temporal.write_datetime, temporal.read_datetime),
    date: TextCodec(date, date.isoformat, temporal.read_date),
    time: TextCodec(time, temporal.write_time, temporal.read_time),
    timedelta: TextCodec(timedelta, temporal.write_timedelta, temporal.read_timedelta),
    **_path_codecs(),
}
