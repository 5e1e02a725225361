"""Lists, tuples, sets and dicts with annotated parts."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from perdure.serialization.codec import (
    NUMBERS,
    TEXT,
    Codec,
    Misfit,
    NoneType,
    at_index,
    at_key,
    each,
    wrong_kind,
    wrong_type,
)
from perdure.serialization.text import dump, parse

_ARRAY: frozenset[type] = frozenset({list})
_OBJECT: frozenset[type] = frozenset({dict})


class ArrayCodec(Codec):
    """`list[T]`, and the abstract `Sequence[T]`, under which a tuple arrives as a list."""

    __slots__ = ("_part", "identity", "label", "types")
    kinds = _ARRAY
    rank = 1
    types: frozenset[type]

    def __init__(self, part: Codec, *, abstract: bool) -> None:
        self.label = f"{'Sequence' if abstract else 'list'}[{part.label}]"
        self.types = frozenset({list, tuple} if abstract else {list})
        self.identity = part.identity
        self._part = part

    def lower(self, value: Any) -> Any:
        if type(value) not in self.types:
            raise wrong_type(value, self.label)
        part = self._part
        if part.atoms.issuperset(map(type, value)):
            return list(value)
        return each(part.lower, part.atoms, value)

    def lift(self, tree: Any) -> Any:
        if type(tree) is not list:
            raise wrong_kind(tree, self.label)
        part = self._part
        if part.atoms.issuperset(map(type, tree)):
            return tree
        return each(part.lift, part.atoms, tree)


class UniformTupleCodec(Codec):
    """`tuple[T, ...]`."""

    __slots__ = ("_part", "label")
    kinds = _ARRAY
    types = frozenset({tuple})
    rank = 1

    def __init__(self, part: Codec) -> None:
        self.label = f"tuple[{part.label}, ...]"
        self._part = part

    def lower(self, value: Any) -> Any:
        if type(value) is not tuple:
            raise wrong_type(value, self.label)
        return each(self._part.lower, self._part.atoms, value)

    def lift(self, tree: Any) -> Any:
        if type(tree) is not list:
            raise wrong_kind(tree, self.label)
        return tuple(each(self._part.lift, self._part.atoms, tree))


class SetCodec(Codec):
    """`set[T]` and `frozenset[T]`, stored as an array in a stable order."""

    __slots__ = ("_cls", "_part", "label", "types")
    kinds = _ARRAY
    rank = 1

    def __init__(self, cls: type, part: Codec) -> None:
        self.label = f"{cls.__name__}[{part.label}]"
        self.types = frozenset({cls})
        self._cls: Any = cls
        self._part = part

    def lower(self, value: Any) -> Any:
        if type(value) is not self._cls:
            raise wrong_type(value, self.label)
        parts = each(self._part.lower, self._part.atoms, value)
        try:
            parts.sort()
        except TypeError:
            parts.sort(key=dump)
        return parts

    def lift(self, tree: Any) -> Any:
        if type(tree) is not list:
            raise wrong_kind(tree, self.label)
        return self._cls(each(self._part.lift, self._part.atoms, tree))


class Place(NamedTuple):
    """One position of a fixed tuple; `default` is its default, if it has one."""

    codec: Codec
    default: tuple[Any, ...] = ()


class FixedTupleCodec(Codec):
    """`tuple[A, B]` and named tuples, stored as an array.

    Positions at the end that have defaults may be missing from a stored array: an older writer
    did not know them.
    """

    __slots__ = ("_cls", "_places", "_required", "label", "rank", "types")
    kinds = _ARRAY

    def __init__(self, cls: type, label: str) -> None:
        self.label = label
        self.types = frozenset({cls})
        self.rank = 1 if cls is tuple else 0
        self._cls: Any = cls

    def fill(self, places: list[Place]) -> None:
        """Set the positions; apart from construction, so that a type may contain itself."""
        self._places = places
        self._required = sum(not place.default for place in places)

    def lower(self, value: Any) -> Any:
        if type(value) is not self._cls:
            raise wrong_type(value, self.label)
        if len(value) != len(self._places):
            raise Misfit(f"{len(value)} items where the annotation says {self.label}")
        if getattr(value, "__dict__", None):
            raise Misfit("attributes beside its fields would be lost")
        return self._each(value, lift=False)

    def lift(self, tree: Any) -> Any:
        if type(tree) is not list:
            raise wrong_kind(tree, self.label)
        if not self._required <= len(tree) <= len(self._places):
            raise Misfit(f"{len(tree)} items where the annotation says {self.label}")
        parts = self._each(tree, lift=True)
        parts.extend(place.default[0] for place in self._places[len(tree) :])
        return tuple.__new__(self._cls, parts)

    def _each(self, parts: Iterable[Any], *, lift: bool) -> list[Any]:
        changed: list[Any] = []
        try:
            for part, (codec, _) in zip(parts, self._places, strict=False):
                if type(part) in codec.atoms:
                    changed.append(part)
                else:
                    changed.append(codec.lift(part) if lift else codec.lower(part))
        except Misfit as misfit:
            misfit.steps.append(at_index(len(changed)))
            raise
        return changed


class TextKeys:
    """Keys whose stored form is a text already."""

    def __init__(self, key: Codec) -> None:
        self._key = key

    def lower(self, key: Any) -> str:
        text: str = self._key.lower(key)
        return text

    def lift(self, text: str) -> Any:
        return self._key.lift(text)


class ScalarKeys(TextKeys):
    """Numbers, bools and None as keys, written as their JSON text."""

    def lower(self, key: Any) -> str:
        return dump(self._key.lower(key)).decode()

    def lift(self, text: str) -> Any:
        return self._key.lift(parse(text))


def key_codec(key: Codec) -> TextKeys | None:
    """How keys of this annotation become text; None if they cannot without ambiguity."""
    if key.kinds == TEXT:
        return TextKeys(key)
    if key.kinds <= NUMBERS | {NoneType}:
        return ScalarKeys(key)
    return None


class DictCodec(Codec):
    """`dict[K, V]` and the abstract `Mapping[K, V]`, which arrives as a dict."""

    __slots__ = ("_keys", "_plain_keys", "_value", "identity", "label")
    kinds = _OBJECT
    types = frozenset({dict})
    rank = 1

    def __init__(self, key: Codec, keys: TextKeys, value: Codec) -> None:
        self.label = f"dict[{key.label}, {value.label}]"
        self._keys = keys
        self._plain_keys = key.atoms == TEXT
        self._value = value
        self.identity = self._plain_keys and value.identity

    def lower(self, value: Any) -> Any:
        if type(value) is not dict:
            raise wrong_type(value, self.label)
        return self._each(value, self._keys.lower, self._value.lower)

    def lift(self, tree: Any) -> Any:
        if type(tree) is not dict:
            raise wrong_kind(tree, self.label)
        lifted = self._each(tree, self._keys.lift, self._value.lift)
        if len(lifted) != len(tree):
            raise Misfit(f"several keys that are one as {self.label}")
        return lifted

    def _each(
        self,
        whole: dict[Any, Any],
        change_key: Callable[[Any], Any],
        change: Callable[[Any], Any],
    ) -> dict[Any, Any]:
        atoms = self._value.atoms
        plain_keys = self._plain_keys
        changed: dict[Any, Any] = {}
        key: Any = None
        try:
            for key, part in whole.items():
                new_key = key if plain_keys and type(key) is str else change_key(key)
                changed[new_key] = part if type(part) in atoms else change(part)
        except Misfit as misfit:
            misfit.steps.append(at_key(key))
            raise
        return changed
