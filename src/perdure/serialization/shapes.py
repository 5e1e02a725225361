"""How the classes with named fields of each library are read and rebuilt."""

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

Default = Callable[[], Any] | None


class Shape(NamedTuple):
    """The fields of a class with the makers of their defaults, and how an instance is rebuilt.

    `own_code` says that code of the class runs while it is rebuilt or read.
    """

    defaults: dict[str, Default]
    make: Callable[[dict[str, Any]], Any]
    own_code: bool


def shape_of(cls: type) -> Shape | None:
    """The shape of a dataclass, an attrs class or a msgspec struct; None for other classes.

    Raises `TypeError` for one whose instances cannot be rebuilt.
    """
    if dataclasses.is_dataclass(cls):
        return _dataclass_shape(cls)
    if issubclass(cls, msgspec.Struct):
        return _struct_shape(cls)
    if hasattr(cls, "__attrs_attrs__"):
        return _attrs_shape(cls)
    return None


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _defaults(fields: Iterable[Any], nothing: object) -> dict[str, Default]:
    """The makers of defaults of fields that use `nothing` to say that there is none."""
    defaults: dict[str, Default] = {}
    for field in fields:
        if field.default_factory is not nothing:
            defaults[field.name] = field.default_factory
        else:
            defaults[field.name] = None if field.default is nothing else _constant(field.default)
    return defaults


def _allocating_shape(
    cls: type, defaults: dict[str, Default], finish: Callable[[Any], None] | None
) -> Shape:
    """Rebuilds by setting the fields of an empty instance, which frozen and slotted ones allow.

    A field set by `finish`, which is the class's own code, is set back to what was stored.
    """
    allocate, assign = object.__new__, object.__setattr__
    allocate(cls)

    def fill(values: dict[str, Any]) -> Any:
        made: Any = allocate(cls)
        for name, value in values.items():
            assign(made, name, value)
        return made

    def fill_and_finish(values: dict[str, Any]) -> Any:
        made = fill(values)
        if finish is not None:
            finish(made)
        for name, value in values.items():
            assign(made, name, value)
        return made

    if finish is None and not _has_descriptors(cls, defaults):
        return Shape(defaults, fill, own_code=False)
    return Shape(defaults, fill_and_finish, own_code=True)


def _has_descriptors(cls: type, names: Iterable[str]) -> bool:
    """Whether a property or the like stands in the place of a field."""
    found = (inspect.getattr_static(cls, name, None) for name in names)
    return any(
        hasattr(type(one), "__set__") and not isinstance(one, types.MemberDescriptorType)
        for one in found
    )


def _dataclass_shape(cls: Any) -> Shape:
    defaults = _defaults(dataclasses.fields(cls), dataclasses.MISSING)
    return _allocating_shape(cls, defaults, _dataclass_finish(cls))


def _dataclass_finish(cls: Any) -> Callable[[Any], None] | None:
    post_init = getattr(cls, "__post_init__", None)
    if post_init is None:
        return None
    parameters = list(inspect.signature(post_init).parameters.values())[1:]
    names = [one.name for one in parameters if one.default is inspect.Parameter.empty]
    lost = [name for name in names if not hasattr(cls, name)]
    if lost:
        raise TypeError(f"its InitVar {lost[0]!r} is not kept, so it could not be built again")

    def finish(made: Any) -> None:
        made.__post_init__(*(getattr(cls, name) for name in names))

    return finish


def _struct_shape(cls: type[msgspec.Struct]) -> Shape:
    defaults = _defaults(msgspec.structs.fields(cls), msgspec.NODEFAULT)

    def make(values: dict[str, Any]) -> Any:
        return cls(**values)

    return Shape(defaults, make, own_code=hasattr(cls, "__post_init__"))


def _attrs_shape(cls: Any) -> Shape:
    defaults: dict[str, Default] = {}
    for attribute in cls.__attrs_attrs__:
        default = attribute.default
        if repr(default) == "NOTHING" or getattr(default, "takes_self", False):
            defaults[attribute.name] = None
        else:
            factory = getattr(default, "factory", None)
            defaults[attribute.name] = factory if callable(factory) else _constant(default)
    return _allocating_shape(cls, defaults, getattr(cls, "__attrs_post_init__", None))
