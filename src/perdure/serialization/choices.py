"""Annotations that name alternatives: enums, literals and unions."""

from enum import Enum, Flag
from math import isfinite
from typing import Any

from perdure.serialization.codec import (
    TEXT,
    Codec,
    Misfit,
    NoneType,
    shown,
    wrong_kind,
    wrong_type,
)
from perdure.serialization.equality import exactly

Choice = tuple[type, Any]
"""A scalar with its class, so that 1, 1.0 and True are three different choices."""


class Unstorable(Exception):
    """An annotation none of whose values, or not all, could ever be stored."""


def _is_scalar(value: object) -> bool:
    return type(value) in (NoneType, bool, int, str) or (type(value) is float and isfinite(value))


class EnumCodec(Codec):
    """Members of an enum, by value where all values are JSON scalars, else by name."""

    __slots__ = ("_cls", "_members", "_stored", "kinds", "label", "types")

    def __init__(self, cls: type[Enum], label: str) -> None:
        by_value = all(_is_scalar(member.value) for member in cls)
        self._cls = cls
        self._stored = {member.name: member.value if by_value else member.name for member in cls}
        self._members: dict[Choice, Enum] = {
            (type(stored), stored): cls[name] for name, stored in self._stored.items()
        }
        self.label = label
        self.types = frozenset({cls})
        self.kinds = frozenset(kind for kind, _ in self._members)

    def lower(self, value: Any) -> Any:
        if type(value) is not self._cls:
            raise wrong_type(value, self.label)
        return self._stored[value.name]

    def lift(self, tree: Any) -> Any:
        member = self._members.get((type(tree), tree)) if _is_scalar(tree) else None
        if member is None:
            raise Misfit(f"{shown(tree)} is not the value of any {self.label}")
        return member


class FlagCodec(Codec):
    """Flags and their combinations, as an integer."""

    __slots__ = ("_cls", "label", "types")
    kinds = frozenset({int})

    def __init__(self, cls: type[Flag], label: str) -> None:
        self._cls = cls
        self.label = label
        self.types = frozenset({cls})

    def lower(self, value: Any) -> Any:
        if type(value) is not self._cls:
            raise wrong_type(value, self.label)
        return int(value.value)

    def lift(self, tree: Any) -> Any:
        if type(tree) is not int:
            raise wrong_kind(tree, self.label)
        try:
            flags = self._cls(tree)
        except ValueError as error:
            raise Misfit(f"{error}") from None
        if type(flags) is not self._cls or flags.value != tree:
            raise Misfit(f"{tree} is not a combination of {self.label}")
        return flags


class LiteralCodec(Codec):
    """`Literal[...]`: exactly the named values, each of exactly its class."""

    __slots__ = ("_options", "_stored", "identity", "kinds", "label", "types")
    types: frozenset[type]

    def __init__(self, options: list[tuple[Any, Any]]) -> None:
        """`options` pairs every value with its stored form."""
        self._stored: dict[Choice, Any] = {(type(own), own): stored for own, stored in options}
        self._options: dict[Choice, Any] = {}
        for own, stored in options:
            known = self._options.setdefault((type(stored), stored), own)
            if not exactly(known, own):
                raise Unstorable(f"{known!r} and {own!r} are stored alike")
        self.label = f"Literal[{', '.join(shown(own) for own, _ in options)}]"
        self.types = frozenset(kind for kind, _ in self._stored)
        self.kinds = frozenset(kind for kind, _ in self._options)
        self.identity = self._stored.keys() == self._options.keys()

    def lower(self, value: Any) -> Any:
        if type(value) not in self.types:
            raise wrong_type(value, self.label)
        try:
            return self._stored[type(value), value]
        except KeyError:
            raise Misfit(f"{shown(value)} where the annotation says {self.label}") from None

    def lift(self, tree: Any) -> Any:
        if type(tree) not in self.kinds:
            raise wrong_kind(tree, self.label)
        try:
            return self._options[type(tree), tree]
        except KeyError:
            raise Misfit(f"{shown(tree)} where the annotation says {self.label}") from None


class UnionCodec(Codec):
    """`A | B`. The order in which the annotation names its members means nothing.

    A stored form that several members could read is read by the first, in a fixed order, that
    would also write it so. A value which that rule would give back as another member's is refused.
    """

    __slots__ = (
        "_readers",
        "_takers",
        "_takers_of_any",
        "atoms",
        "free_text",
        "identity",
        "kinds",
        "label",
        "rank",
        "types",
    )

    def __init__(self, members: list[Codec]) -> None:
        self.label = " | ".join(member.label for member in members)
        members = sorted(members, key=lambda member: (member.rank, member.label))
        _refuse_confusable(members)
        self.kinds = frozenset().union(*(member.kinds for member in members))
        classes = [member.types for member in members]
        known = frozenset[type]().union(*(types for types in classes if types is not None))
        self.types = None if None in classes else known
        self._takers_of_any = [member for member in members if member.types is None]
        self._takers = {
            cls: [one for one in members if one.types is None or cls in one.types] for cls in known
        }
        self._readers = {kind: [one for one in members if kind in one.kinds] for kind in self.kinds}
        self.identity = all(member.identity for member in members)
        self.free_text = any(member.free_text for member in members)
        self.rank = max(member.rank for member in members)
        self.atoms = frozenset(
            atom
            for member in members
            for atom in member.atoms
            if all(atom not in other.kinds or atom in other.atoms for other in members)
        )

    def lower(self, value: Any) -> Any:
        takers = self._takers.get(type(value), self._takers_of_any)
        if len(takers) == 1:
            taker = takers[0]
            tree = taker.lower(value)
        else:
            taker, tree = self._lower_by_trial(value, takers)
        rivals = self._readers[type(tree)]
        if len(rivals) > 1:
            reader, read = self._read(tree, rivals)
            if reader is not taker and not exactly(read, value):
                raise Misfit(
                    f"as {self.label} it would come back as {reader.label}; give the classes a "
                    "field of distinct Literals, or annotate one of them"
                )
        return tree

    def _lower_by_trial(self, value: Any, takers: list[Codec]) -> tuple[Codec, Any]:
        first: Misfit | None = None
        for taker in takers:
            try:
                return taker, taker.lower(value)
            except Misfit as misfit:
                first = first or misfit
        raise first or wrong_type(value, self.label)

    def lift(self, tree: Any) -> Any:
        readers = self._readers.get(type(tree))
        if readers is None:
            raise wrong_kind(tree, self.label)
        if len(readers) == 1:
            return readers[0].lift(tree)
        return self._read(tree, readers)[1]

    def _read(self, tree: Any, readers: list[Codec]) -> tuple[Codec, Any]:
        lenient: tuple[Codec, Any] | None = None
        for reader in readers:
            try:
                value = reader.lift(tree)
                if exactly(reader.lower(value), tree):
                    return reader, value
            except Misfit:
                continue
            lenient = lenient or (reader, value)
        if lenient is None:
            raise Misfit(f"{shown(tree)} is none of {self.label}")
        return lenient


def _refuse_confusable(members: list[Codec]) -> None:
    """Refuse members that would be told apart only by what a text happens to say."""
    for free in members:
        for other in members:
            if free.free_text and other is not free and other.kinds & TEXT and not other.identity:
                raise Unstorable(
                    f"{free.label} and {other.label} are both stored as text and could not be told "
                    "apart; annotate one of them"
                )
