"""JSON's own kinds: values without an annotation, and the scalar annotations."""

from math import isfinite
from typing import Any

from perdure.serialization.codec import (
    ANY_KIND,
    NUMBERS,
    Codec,
    Misfit,
    NoneType,
    at_key,
    each,
    name_of,
    refuse,
    shown,
    wrong_kind,
    wrong_type,
)

_ATOMS: frozenset[type] = frozenset({NoneType, bool, int, str})
_NOT_FINITE = "JSON has no NaN and no infinity; store None, or a Decimal under its annotation"
_BUILT_IN = (bool, int, float, str, bytes, list, tuple, dict, set, frozenset)


def copy_plain(value: Any) -> Any:
    """A fresh tree equal to a value made of JSON's kinds, tuples as lists; raises `Misfit`."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict:
        return _copy_dict(value)
    if kind is list or kind is tuple:
        return _copy_items(value)
    if kind is float and isfinite(value):
        return value
    raise Misfit(_NOT_FINITE if kind is float else _advice(value))


def _copy_dict(value: dict[Any, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = {}
    key: Any = None
    try:
        for key, part in value.items():
            if type(key) is not str:
                refuse(
                    f"the key {shown(key)} is a {name_of(type(key))}, and JSON has text keys only; "
                    "annotate the type, such as dict[int, str]"
                )
            copy[key] = part if type(part) in _ATOMS else copy_plain(part)
    except Misfit as misfit:
        misfit.steps.append(at_key(key))
        raise
    return copy


def _copy_items(value: list[Any] | tuple[Any, ...]) -> list[Any]:
    if _ATOMS.issuperset(map(type, value)):
        return list(value)
    return each(copy_plain, _ATOMS, value)


def _advice(value: object) -> str:
    cls = type(value)
    name = name_of(cls)
    for built_in in _BUILT_IN:
        if isinstance(value, built_in) and cls is not built_in:
            return (
                f"a {name} would come back as a plain {built_in.__name__}; annotate the type, or "
                "convert the value"
            )
    is_live = callable(value) or hasattr(value, "__next__") or hasattr(value, "__enter__")
    # Before Python 3.13 a path is a context manager, too.
    if is_live and not hasattr(value, "__fspath__"):
        return (
            f"a {name} is bound to this process and has no stored form; pass the data it is made "
            "from and make it again where it is used"
        )
    return f"a {name} has no JSON form of its own; annotate the type"


class AnyCodec(Codec):
    """Values without an annotation: JSON's kinds only; a tuple arrives as a list."""

    __slots__ = ()
    label = "Any"
    kinds = ANY_KIND
    atoms = _ATOMS
    identity = True
    free_text = True
    rank = 2

    lower = staticmethod(copy_plain)

    def lift(self, tree: Any) -> Any:
        return tree


class ScalarCodec(Codec):
    """One of str, bool and None: the value is its own stored form."""

    __slots__ = ("atoms", "free_text", "kinds", "label", "rank", "types")
    identity = True

    def __init__(self, cls: type) -> None:
        self.label = "None" if cls is NoneType else cls.__name__
        self.kinds = self.types = self.atoms = frozenset({cls})
        self.free_text = cls is str
        self.rank = 1

    def lower(self, value: Any) -> Any:
        if type(value) in self.atoms:
            return value
        raise wrong_type(value, self.label)

    def lift(self, tree: Any) -> Any:
        if type(tree) in self.atoms:
            return tree
        raise wrong_kind(tree, self.label)


class IntCodec(ScalarCodec):
    """`int`; a bool is one to type checkers, and is kept as a bool."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(int)
        self.kinds = self.types = self.atoms = frozenset({int, bool})


class FloatCodec(ScalarCodec):
    """`float`; an int is one to type checkers, and is kept as an int."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(float)
        self.kinds = self.types = NUMBERS
        self.atoms = frozenset({int, bool})

    def lower(self, value: Any) -> Any:
        if type(value) is float:
            if isfinite(value):
                return value
            raise Misfit(_NOT_FINITE)
        return super().lower(value)

    def lift(self, tree: Any) -> Any:
        return tree if type(tree) is float else super().lift(tree)


ANY = AnyCodec()
STR = ScalarCodec(str)
NONE = ScalarCodec(NoneType)
SCALARS: dict[type, Codec] = {
    str: STR,
    bool: ScalarCodec(bool),
    int: IntCodec(),
    float: FloatCodec(),
    NoneType: NONE,
}
