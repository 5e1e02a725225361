"""Classes with named fields: dataclasses, attrs classes, msgspec structs and typed dicts.

An instance is rebuilt without running its `__init__`: it is allocated and its fields are set, so
that it is equal by construction. Only a class that asks for it by `__post_init__` has code of its
own run; what that makes of the fields is checked when a value is stored.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from perdure.serialization.codec import (
    Codec,
    Misfit,
    at_key,
    refuse,
    shown,
    wrong_kind,
    wrong_type,
)
from perdure.serialization.equality import exactly, slots_of
from perdure.serialization.shapes import Default, Shape
from perdure.serialization.text import dump, parse

_OBJECT: frozenset[type] = frozenset({dict})
_ABSENT: Any = object()


class Field(NamedTuple):
    """One field; `default` makes its value where a stored object lacks it."""

    name: str
    codec: Codec
    default: Default


class RecordCodec(Codec):
    """Instances of exactly one class, stored as an object of their fields.

    Names of a stored object that are not fields are ignored, since a newer writer may know more;
    missing ones take their defaults.
    """

    __slots__ = ("_cls", "_fields", "_make", "_other_slots", "_own_code", "label", "types")
    kinds = _OBJECT

    def __init__(self, cls: type, label: str, shape: Shape) -> None:
        self.label = label
        self.types = frozenset({cls})
        self._cls = cls
        self._make = shape.make
        self._own_code = shape.own_code

    def fill(self, fields: list[Field]) -> None:
        """Set the fields; apart from construction, so that a class may contain itself."""
        self._fields = {field.name: field for field in fields}
        self._other_slots = [
            name
            for base in self._cls.__mro__
            for name in slots_of(base)
            if name not in self._fields
        ]

    def lower(self, value: Any) -> Any:
        tree = self._lower(value)
        if self._own_code:
            self._check(tree)
        return tree

    def _lower(self, value: Any) -> dict[str, Any]:
        if type(value) is not self._cls:
            raise wrong_type(value, self.label)
        tree: dict[str, Any] = {}
        name = ""
        try:
            for name, codec, _ in self._fields.values():
                part = getattr(value, name, _ABSENT)
                if type(part) in codec.atoms:
                    tree[name] = part
                elif part is _ABSENT:
                    refuse("the field was never set")
                else:
                    tree[name] = codec.lower(part)
        except Misfit as misfit:
            misfit.steps.append(at_key(name))
            raise
        self._refuse_extras(value)
        return tree

    def _refuse_extras(self, value: Any) -> None:
        """Refuse attributes beside the fields, save what can be computed again."""
        if self._own_code:
            return
        attributes = getattr(value, "__dict__", {})
        if not self._other_slots and attributes.keys() <= self._fields.keys():
            return
        others = [name for name in self._other_slots if hasattr(value, name)]
        others += [name for name in attributes if name not in self._fields]
        for name in others:
            if not isinstance(getattr(self._cls, name, None), cached_property):
                raise Misfit(
                    f"the attribute {name!r} is not a field of {self.label} and would be lost"
                )

    def _check(self, tree: dict[str, Any]) -> None:
        """Prove that the class's own code leaves the stored fields as they are."""
        try:
            again = self._lower(self.lift(tree))
        except Misfit as misfit:
            found = f"{misfit.path(self.label)}: {misfit.reason}"
            raise Misfit(f"it could not be read back: {found}") from misfit
        for name, part in tree.items():
            if not exactly(again[name], part):
                changed = Misfit(f"building a {self.label} again changes this field")
                changed.steps.append(at_key(name))
                raise changed

    def lift(self, tree: Any) -> Any:
        if type(tree) is not dict:
            raise wrong_kind(tree, self.label)
        if not self._own_code:
            return self._make(self._values(tree))
        # The class's code may change its fields in place, and this tree is also the caller's.
        values = self._values(parse(dump(tree).decode()))
        try:
            return self._make(values)
        except Exception as error:
            raise Misfit(
                f"{self.label} refused its fields: {type(error).__name__}: {error}"
            ) from error

    def _values(self, tree: dict[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        name = ""
        try:
            for name, codec, default in self._fields.values():
                part = tree.get(name, _ABSENT)
                if type(part) in codec.atoms:
                    values[name] = part
                elif part is not _ABSENT:
                    values[name] = codec.lift(part)
                elif default is not None:
                    values[name] = default()
                else:
                    refuse("the field is missing and has no default")
        except Misfit as misfit:
            misfit.steps.append(at_key(name))
            raise
        return values


class TypedDictCodec(Codec):
    """Typed dicts. Keys the class does not name are kept, as values without an annotation."""

    __slots__ = ("_fields", "_other", "_required", "label")
    kinds = _OBJECT
    types = frozenset({dict})

    def __init__(self, label: str, other: Codec) -> None:
        self.label = label
        self._other = other

    def fill(self, fields: Mapping[str, Codec], required: frozenset[str]) -> None:
        """Set the keys; apart from construction, so that a type may contain itself."""
        self._fields = fields
        self._required = required

    def lower(self, value: Any) -> Any:
        if type(value) is not dict:
            raise wrong_type(value, self.label)
        return self._each(value, lift=False)

    def lift(self, tree: Any) -> Any:
        if type(tree) is not dict:
            raise wrong_kind(tree, self.label)
        return self._each(tree, lift=True)

    def _each(self, whole: dict[Any, Any], *, lift: bool) -> dict[str, Any]:
        missing = self._required - whole.keys()
        if missing:
            raise Misfit(f"the key {min(missing)!r} of {self.label} is missing")
        changed: dict[str, Any] = {}
        key: Any = None
        try:
            for key, part in whole.items():
                if type(key) is not str:
                    refuse(f"the key {shown(key)} is not a text")
                codec = self._fields.get(key, self._other)
                if type(part) in codec.atoms:
                    changed[key] = part
                else:
                    changed[key] = codec.lift(part) if lift else codec.lower(part)
        except Misfit as misfit:
            misfit.steps.append(at_key(key))
            raise
        return changed
