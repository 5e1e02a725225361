"""From an annotation to its codec."""

import collections.abc as abstract
import inspect
import typing
from enum import Enum, Flag
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, Literal, NotRequired, Required, TypeVar, Union

from perdure.serialization.choices import (
    EnumCodec,
    FlagCodec,
    LiteralCodec,
    UnionCodec,
    Unstorable,
)
from perdure.serialization.codec import ANY_KIND, Codec, name_of
from perdure.serialization.containers import (
    ArrayCodec,
    DictCodec,
    FixedTupleCodec,
    Place,
    SetCodec,
    UniformTupleCodec,
    key_codec,
)
from perdure.serialization.hints import class_hints, substitute
from perdure.serialization.models import ModelCodec, is_model
from perdure.serialization.plain import ANY, NONE, SCALARS, STR
from perdure.serialization.records import Field, RecordCodec, TypedDictCodec
from perdure.serialization.shapes import shape_of
from perdure.serialization.texts import TEXT_CODECS

_UNSAID: tuple[Any, ...] = (Any, object, inspect.Parameter.empty, typing.NoReturn, typing.Never)
_TRANSPARENT = {Annotated, Required, NotRequired, Final, ClassVar, getattr(typing, "ReadOnly", 0)}
_SEQUENCES = (abstract.Sequence, abstract.MutableSequence, abstract.Collection, abstract.Iterable)
_SETS = {
    set: set,
    abstract.Set: set,
    abstract.MutableSet: set,
    frozenset: frozenset,
}
_MAPPINGS = (dict, abstract.Mapping, abstract.MutableMapping)


class Builder:
    """Makes the codecs of annotations, and keeps them."""

    def __init__(self) -> None:
        self._known: dict[Any, Codec] = {**SCALARS, **TEXT_CODECS}

    def build(self, annotation: object) -> Codec:
        """The codec of a resolved annotation. Raises `Unstorable`, saying why there is none."""
        draft = _Draft(self._known)
        codec = draft.codec(annotation)
        self._known.update(draft.made)
        return codec


class _Recursion(Codec):
    """Stands inside a recursive type alias for the whole of it."""

    __slots__ = ("label", "target")
    kinds = ANY_KIND
    target: Codec

    def __init__(self, label: str) -> None:
        self.label = label

    def lower(self, value: Any) -> Any:
        return self.target.lower(value)

    def lift(self, tree: Any) -> Any:
        return self.target.lift(tree)


class _Draft:
    """One building, whose codecs are known only once all of it succeeded."""

    def __init__(self, known: dict[Any, Codec]) -> None:
        self._known = known
        self.made: dict[Any, Codec] = {}

    def codec(self, annotation: object) -> Codec:
        if any(annotation is unsaid for unsaid in _UNSAID) or isinstance(annotation, TypeVar):
            return ANY
        if annotation is None:
            return NONE
        try:
            found = self._known.get(annotation) or self.made.get(annotation)
        except TypeError as error:
            raise Unstorable(f"{annotation} is not an annotation") from error
        if found is None:
            found = self.made[annotation] = self._make(annotation)
        return found

    def _make(self, annotation: Any) -> Codec:
        origin = typing.get_origin(annotation) or annotation
        arguments = typing.get_args(annotation)
        if origin in _TRANSPARENT:
            return self.codec(arguments[0] if arguments else Any)
        if isinstance(annotation, typing.NewType):
            return self.codec(annotation.__supertype__)
        if type(origin).__name__ == "TypeAliasType":
            return self._alias(annotation, origin, arguments)
        if origin is Union or origin is UnionType:
            return UnionCodec([self.codec(member) for member in arguments])
        if origin is Literal:
            return LiteralCodec([(one, self.codec(type(one)).lower(one)) for one in arguments])
        if not isinstance(origin, type) or getattr(annotation, "__unpacked__", False):
            raise Unstorable(f"{annotation} has no stored form")
        return self._container(origin, arguments, annotation) or self._class(
            origin, arguments, annotation
        )

    def _alias(self, annotation: Any, origin: Any, arguments: tuple[Any, ...]) -> Codec:
        recursion = self.made[annotation] = _Recursion(str(annotation))
        filling = dict(zip(origin.__type_params__, arguments, strict=False))
        recursion.target = self.codec(substitute(origin.__value__, filling))
        if recursion.target is recursion:
            raise Unstorable(f"{annotation} names only itself")
        return recursion.target

    def _container(self, cls: type, arguments: tuple[Any, ...], annotation: object) -> Codec | None:
        if cls is list or cls in _SEQUENCES:
            return ArrayCodec(self._part(arguments, 0), abstract=cls is not list)
        if cls in _SETS:
            return SetCodec(_SETS[cls], self._part(arguments, 0))
        if cls in _MAPPINGS:
            return self._dict(self._part(arguments, 0), self._part(arguments, 1))
        if cls is tuple:
            return self._tuple(arguments, annotation)
        return None

    def _part(self, arguments: tuple[Any, ...], index: int) -> Codec:
        return self.codec(arguments[index]) if arguments else ANY

    def _dict(self, key: Codec, value: Codec) -> Codec:
        key = STR if key is ANY else key
        keys = key_codec(key)
        if keys is None:
            raise Unstorable(
                f"keys of {key.label} could not be told apart as text; use texts, or numbers, "
                "or a list of pairs"
            )
        return DictCodec(key, keys, value)

    def _tuple(self, arguments: tuple[Any, ...], annotation: object) -> Codec:
        if annotation in (tuple, typing.Tuple):  # noqa: UP006  the old spelling is to be told apart
            return UniformTupleCodec(ANY)
        if Ellipsis in arguments:
            return UniformTupleCodec(self.codec(arguments[0]))
        parts = [self.codec(part) for part in arguments]
        codec = FixedTupleCodec(tuple, f"tuple[{', '.join(part.label for part in parts)}]")
        codec.fill([Place(part) for part in parts])
        return codec

    def _class(self, cls: type, arguments: tuple[Any, ...], annotation: object) -> Codec:
        label = name_of(cls)
        if arguments:
            shown = (name_of(one) if isinstance(one, type) else str(one) for one in arguments)
            label = f"{label}[{', '.join(shown)}]"
        if issubclass(cls, Enum):
            return FlagCodec(cls, label) if issubclass(cls, Flag) else EnumCodec(cls, label)
        if typing.is_typeddict(cls):
            return self._typed_dict(cls, arguments, annotation, label)
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return self._named_tuple(cls, arguments, annotation, label)
        if is_model(cls):
            return ModelCodec(cls, label)
        return self._record(cls, arguments, annotation, label)

    def _record(
        self, cls: type, arguments: tuple[Any, ...], annotation: object, label: str
    ) -> Codec:
        try:
            shape = shape_of(cls)
        except TypeError as error:
            raise Unstorable(f"{label} cannot be built again: {error}") from error
        if shape is None:
            raise Unstorable(f"{label} has no stored form; {_advice(cls)}")
        codec = self.made[annotation] = RecordCodec(cls, label, shape)
        parts = self._fields(cls, arguments, label, list(shape.defaults))
        codec.fill([Field(name, parts[name], shape.defaults[name]) for name in parts])
        return codec

    def _named_tuple(
        self, cls: Any, arguments: tuple[Any, ...], annotation: object, label: str
    ) -> Codec:
        codec = self.made[annotation] = FixedTupleCodec(cls, label)
        parts = self._fields(cls, arguments, label, cls._fields)
        defaults = cls._field_defaults
        codec.fill(
            [
                Place(part, (defaults[name],) if name in defaults else ())
                for name, part in parts.items()
            ]
        )
        return codec

    def _typed_dict(
        self, cls: Any, arguments: tuple[Any, ...], annotation: object, label: str
    ) -> Codec:
        codec = self.made[annotation] = TypedDictCodec(label, ANY)
        hints = _hints(cls, arguments, label)
        origins = {name: typing.get_origin(hint) for name, hint in hints.items()}
        required = {
            name
            for name in hints
            if origins[name] is Required
            or (name in cls.__required_keys__ and origins[name] is not NotRequired)
        }
        codec.fill(self._fields(cls, arguments, label, list(hints)), frozenset(required))
        return codec

    def _fields(
        self, cls: type, arguments: tuple[Any, ...], label: str, names: abstract.Sequence[str]
    ) -> dict[str, Codec]:
        hints = _hints(cls, arguments, label)
        parts: dict[str, Codec] = {}
        for name in names:
            try:
                parts[name] = self.codec(hints.get(name, Any))
            except Unstorable as error:
                raise Unstorable(f"its field {label}.{name}: {error}") from error
        return parts


def _hints(cls: type, arguments: tuple[Any, ...], label: str) -> dict[str, object]:
    try:
        return class_hints(cls, arguments)
    except Exception as error:
        raise Unstorable(
            f"the annotations of {label} cannot be resolved: {error}; the names must exist at run "
            "time, in its module (not only under TYPE_CHECKING)"
        ) from error


def _advice(cls: type) -> str:
    if issubclass(cls, BaseException):
        return "an exception is stored when it is raised; return its data"
    if issubclass(cls, str | bytes | int | float | list | tuple | dict | set | frozenset):
        return "convert its values to the built-in class it derives from"
    return "pass the data it is made from, as a dataclass or as JSON's kinds"
