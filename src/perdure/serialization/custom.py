"""Formats of the user's own, each under the name that rows have as their label."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from perdure.errors import ConfigurationError
from perdure.model.wire import PORTABLE_JSON, PY_PICKLE
from perdure.serialization.codec import Misfit
from perdure.serialization.equality import exactly

BUILT_IN: Final = (PORTABLE_JSON, PY_PICKLE)


class Serializer(Protocol):
    """A format: what is stored as text, and back; it may encrypt, compress, or spell differently.

    It is given trees of JSON's kinds: None, bool, int, float, str, list, and dict with str keys.
    Values become such trees by their annotations before, and are made of them afterwards. What it
    writes has to come back equal, which is checked each time. It is called in the event loop.
    """

    def encode(self, tree: Any, /) -> str:
        """The text of a tree."""
        ...

    def decode(self, text: str, /) -> Any:
        """The tree of a text."""
        ...


class Format:
    """A serializer under its name, held to what it promises."""

    __slots__ = ("_name", "_serializer")

    def __init__(self, name: str, serializer: Serializer) -> None:
        self._name = name
        self._serializer = serializer

    def write(self, tree: Any) -> str:
        """The text of a tree, which was read back; raises `Misfit`."""
        try:
            text = self._serializer.encode(tree)
        except Exception as error:
            raise Misfit(self._said("encode", error)) from error
        if type(text) is not str or "\x00" in text or not _is_storable(text):
            raise Misfit(
                f"the serializer {self._name!r} made no text of it that a database can store"
            )
        if not exactly(self.read(text), tree):
            raise Misfit(f"the serializer {self._name!r} reads it back as another value")
        return text

    def read(self, text: str) -> Any:
        """The tree of a text; raises `Misfit`."""
        try:
            return self._serializer.decode(text)
        except Exception as error:
            raise Misfit(self._said("decode", error)) from error

    def _said(self, what: str, error: Exception) -> str:
        return f"{what} of the serializer {self._name!r} raised {type(error).__name__}: {error}"


def formats_of(serializers: Mapping[str, Serializer]) -> dict[str, Format]:
    """The formats of an engine; raises `ConfigurationError` for what cannot be one."""
    for name, serializer in serializers.items():
        if not isinstance(name, str) or not name.strip() or name in BUILT_IN:
            raise ConfigurationError(
                f"serializers: {name!r} cannot be the name of one; those that are built in are "
                f"{' and '.join(BUILT_IN)}"
            )
        for method in ("encode", "decode"):
            if isinstance(serializer, type) or not callable(getattr(serializer, method, None)):
                raise ConfigurationError(
                    f"serializers[{name!r}]={serializer!r:.40}: it must be an object with encode "
                    "and decode"
                )
    return {name: Format(name, serializer) for name, serializer in serializers.items()}


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
