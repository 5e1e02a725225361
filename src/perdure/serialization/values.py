"""One value, both ways."""

from typing import Any, Generic, TypeVar

import msgspec

from perdure.errors import UndecodableValue, UnserializableValue, ValueTooLarge
from perdure.model.wire import PORTABLE_JSON

T = TypeVar("T")


class ValueCodec(Generic[T]):
    """Stores values of one annotation; `what` names them in errors."""

    __slots__ = ("_limit", "_what")

    def __init__(self, what: str, limit: int) -> None:
        self._what = what
        self._limit = limit

    def encode(self, value: T) -> tuple[str, T]:
        """The stored text, and the value a replay will read from it."""
        try:
            raw = msgspec.json.encode(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise UnserializableValue(self._what, "$", str(error)) from error
        if len(raw) > self._limit:
            raise ValueTooLarge(self._what, len(raw), self._limit)
        return raw.decode(), msgspec.json.decode(raw)

    def decode(self, text: str | None, serialization: str | None) -> T:
        """The value of a row's text under the row's label; SQL NULL is None in every format."""
        if text is None:
            none: Any = None
            return none  # type: ignore[no-any-return]
        if serialization not in (PORTABLE_JSON, None):
            raise UndecodableValue(self._what, serialization, "the format is not known here")
        value: T = msgspec.json.decode(text)
        return value

    def encode_as(self, serialization: str | None, value: T) -> tuple[str, T]:
        """As `encode`, in the format of a row that already has a label."""
        return self.encode(value)
