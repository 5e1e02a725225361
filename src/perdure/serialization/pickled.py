"""Pickled payloads, as the Python SDK writes them by default: base64 of a pickle.

Reading one runs what it says. Nothing here is reached unless the engine was told to unpickle; the
modules for it are imported only then.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from perdure.model.wire import PORTABLE_JSON, PY_PICKLE
from perdure.serialization.codec import Misfit, Unavailable
from perdure.serialization.custom import Format
from perdure.serialization.text import parse

_PROTOCOL = 4
"""The one the other SDK writes on every Python it supports, so that each can read it."""

_FIRST_BYTES = "gA"
"""How the base64 text of a binary pickle begins; no JSON text does."""


class Labels:
    """What the labels of rows mean in one engine.

    A row without a label was written with its application's own format, which it does not name: it
    is a pickle if it looks like one, else JSON; what is written for it is a pickle where pickles
    may be read. Any other label is the name of a format of the user's own.
    """

    __slots__ = ("_formats", "_unpickle")

    def __init__(self, *, unpickle: bool, formats: Mapping[str, Format] | None = None) -> None:
        self._unpickle = unpickle
        self._formats = formats or {}

    @property
    def names(self) -> Sequence[str]:
        """The formats of the user's own."""
        return tuple(self._formats)

    def custom(self, serialization: str | None) -> Format | None:
        """The user's own format of that name, if it is one."""
        return self._formats.get(serialization) if serialization else None

    def tree(self, text: str, serialization: str | None) -> Any:
        """The tree of a text that is no pickle; raises `Misfit`."""
        custom = self.custom(serialization)
        return parse(text) if custom is None else custom.read(text)

    def is_pickled(self, text: str, serialization: str | None) -> bool:
        """Whether a text is a pickle, else JSON; raises `Unavailable` if it is not read here."""
        if serialization == PORTABLE_JSON or self.custom(serialization) is not None:
            return False
        pickled = serialization == PY_PICKLE or (
            not serialization and text.startswith(_FIRST_BYTES)
        )
        if pickled and not self._unpickle:
            raise Unavailable(
                "it is a pickle, and reading one can run code that it carries; if you trust who "
                "writes to the database, start the engine with Engine(..., unpickle=True)"
            )
        if serialization and not pickled:
            raise Unavailable(
                f"this engine knows no format {serialization!r}; give it the one of that name with "
                f"serializers={{{serialization!r}: ...}}. What several languages share is written "
                f"as {PORTABLE_JSON!r}"
            )
        return pickled

    def writes_pickle(self, serialization: str | None) -> bool:
        """Whether what is added to a row of this label must be a pickle."""
        if serialization == PY_PICKLE and not self._unpickle:
            raise Misfit("its row is written in pickles; start the engine with unpickle=True")
        return serialization == PY_PICKLE or (not serialization and self._unpickle)


def dump_pickle(value: Any) -> str:
    """The text of a value; raises `Misfit`."""
    import pickle  # noqa: PLC0415 - only who uses it pays for it

    try:
        return base64.b64encode(pickle.dumps(value, _PROTOCOL)).decode()
    except Exception as error:
        raise Misfit(f"it cannot be pickled: {type(error).__name__}: {error}") from error


def load_pickle(text: str) -> Any:
    """The value of a text; raises `Misfit`. Imports and runs whatever the pickle names."""
    import pickle  # noqa: PLC0415 - only who uses it pays for it

    try:
        return pickle.loads(base64.b64decode(text, validate=True))  # noqa: S301  opted into
    except binascii.Error as error:
        raise Misfit(f"it is not the base64 text of a pickle: {error}") from None
    except Exception as error:
        raise Misfit(f"it cannot be unpickled: {type(error).__name__}: {error}") from error


def peek_pickle(text: str) -> tuple[str, str]:
    """The class name and the first text of a pickled error, read without running anything."""
    import pickletools  # noqa: PLC0415 - only who uses it pays for it

    texts: list[str] = []
    name = ""
    try:
        for opcode, argument, _ in pickletools.genops(base64.b64decode(text)):
            if opcode.name == "STACK_GLOBAL" and not name:
                name = texts[-1]
                texts.clear()
            elif isinstance(argument, str):
                texts.append(argument)
                if name:
                    break
    except (ValueError, IndexError):
        pass
    return name or "Error", texts[0] if name and texts else ""
