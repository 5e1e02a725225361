"""One value, both ways."""

from typing import Any, Generic, TypeVar

from perdure.errors import FormatUnavailable, UndecodableValue, UnserializableValue, ValueTooLarge
from perdure.model.wire import PORTABLE_JSON
from perdure.serialization.codec import Codec, Misfit, Unavailable
from perdure.serialization.custom import Format
from perdure.serialization.nesting import SHALLOW_BYTES, check_depth, explain_nesting
from perdure.serialization.pickled import Labels, dump_pickle, load_pickle
from perdure.serialization.sizes import least_bytes
from perdure.serialization.text import dump

T = TypeVar("T")


class ValueCodec(Generic[T]):
    """Stores values of one annotation; `what` names them in errors."""

    __slots__ = ("_atoms", "_identity", "_labels", "_lift", "_limit", "_lower", "_what")

    def __init__(self, codec: Codec, what: str, limit: int, labels: Labels) -> None:
        self._atoms = codec.atoms
        self._identity = codec.identity
        self._lift = codec.lift
        self._lower = codec.lower
        self._what = what
        self._limit = limit
        self._labels = labels

    def encode(self, value: T) -> tuple[str, T]:
        """The stored text, and the value a replay will read from it.

        Raises `UnserializableValue` with the path of what cannot be stored, or `ValueTooLarge`.
        """
        if (least := least_bytes(value)) > self._limit:
            raise ValueTooLarge(self._what, least, self._limit)
        try:
            if type(value) in self._atoms:
                raw = dump(value)
                if len(raw) <= self._limit:
                    return raw.decode(), value
            else:
                tree = self._lower(value)
                raw = dump(tree)
                if len(raw) <= self._limit:
                    if len(raw) > SHALLOW_BYTES:
                        check_depth(raw, tree)
                    return raw.decode(), tree if self._identity else self._lift(tree)
        except Exception as error:
            raise refusal(self._what, "$", value, error) from error
        raise ValueTooLarge(self._what, len(raw), self._limit)

    def encode_as(self, serialization: str | None, value: T) -> tuple[str, T]:
        """As `encode`, in the format of a row that has a label already."""
        if serialization == PORTABLE_JSON:
            return self.encode(value)
        custom = self._labels.custom(serialization)
        if custom is not None:
            return self._encode_by(custom, value)
        try:
            if not self._labels.writes_pickle(serialization):
                return self.encode(value)
            text = dump_pickle(value)
            if len(text) <= self._limit:
                decoded: T = load_pickle(text)
                return text, decoded
        except Misfit as misfit:
            raise refusal(self._what, "$", value, misfit) from misfit
        raise ValueTooLarge(self._what, len(text), self._limit)

    def _encode_by(self, custom: Format, value: T) -> tuple[str, T]:
        try:
            is_atom = type(value) in self._atoms
            tree = value if is_atom else self._lower(value)
            text = custom.write(tree)
            read: T = tree if is_atom or self._identity else self._lift(tree)
        except Exception as error:
            raise refusal(self._what, "$", value, error) from error
        if len(text.encode()) > self._limit:
            raise ValueTooLarge(self._what, len(text.encode()), self._limit)
        return text, read

    def decode(self, text: str | None, serialization: str | None) -> T:
        """The value of a row's text under the row's label; SQL NULL is None in every format.

        A pickle gives the value it holds, whatever the annotation. Raises `UndecodableValue`.
        """
        value: Any = None
        if text is None:
            none: T = value
            return none
        try:
            if self._labels.is_pickled(text, serialization):
                value = load_pickle(text)
            else:
                value = self._labels.tree(text, serialization)
                if type(value) not in self._atoms:
                    value = self._lift(value)
        except Exception as error:
            raise undecodable(self._what, serialization, "$", error) from error
        decoded: T = value
        return decoded


def refusal(what: str, root: str, value: object, error: Exception) -> UnserializableValue:
    """What to raise when storing `value`, found at `root`, failed with `error`."""
    if isinstance(error, RecursionError):
        error = explain_nesting(value)
    if isinstance(error, Misfit):
        return UnserializableValue(what, error.path(root), error.reason)
    return UnserializableValue(what, root, f"reading it raised {type(error).__name__}: {error}")


def undecodable(
    what: str, serialization: str | None, root: str, error: Exception
) -> UndecodableValue:
    """What to raise when a stored text, or the part of it at `root`, could not be read."""
    if isinstance(error, Misfit):
        path = error.path(root)
        reason = error.reason if path == "$" else f"{path}: {error.reason}"
    elif isinstance(error, RecursionError):
        reason = "it is nested too deeply"
    else:
        reason = f"{type(error).__name__}: {error}"
    kind = FormatUnavailable if isinstance(error, Unavailable) else UndecodableValue
    return kind(what, serialization, reason)
