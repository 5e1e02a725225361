"""Annotations of functions and classes, resolved."""

import contextlib
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from perdure.errors import RegistrationError


class Annotations(Mapping[str, object]):
    """What a function annotates, each resolved when it is asked for.

    So an annotation that nobody needs, such as a step's parameter, need not be resolvable.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._plain = plain = inspect.unwrap(fn)
        self._names = [*_parameter_names(fn), "return"]
        self._written = inspect.get_annotations(plain)
        self._globals = getattr(plain, "__globals__", {})

    def __getitem__(self, name: str) -> object:
        if name not in self._names:
            raise KeyError(name)
        written = self._written.get(name, Any)
        try:
            local = {**_closure(self._plain), **_type_parameters(self._plain)}
            return _resolve(written, self._globals, local)
        except Exception as error:
            raise RegistrationError(
                f"{self._plain.__qualname__}: the annotation of {name!r}, {written!r}, cannot be "
                f"resolved: {error}; the name must exist at run time, in the module (not only "
                "under TYPE_CHECKING)"
            ) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _parameter_names(fn: Callable[..., Any]) -> list[str]:
    """None for a built-in function that does not tell."""
    try:
        return list(inspect.signature(fn).parameters)
    except ValueError:
        return []


def annotations_of(fn: Callable[..., Any]) -> Mapping[str, object]:
    """Every parameter of `fn` and `return` with its resolved type; `Any` where none is given.

    Looking one up raises `RegistrationError` naming it if it cannot be resolved.
    """
    return Annotations(fn)


def _closure(fn: Callable[..., Any]) -> dict[str, Any]:
    """The variables around `fn` that have a value by now: one may get it after the decoration."""
    code, cells = getattr(fn, "__code__", None), getattr(fn, "__closure__", None)
    if code is None or not cells:
        return {}
    found: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars, cells, strict=True):
        with contextlib.suppress(ValueError):
            found[name] = cell.cell_contents
    return found


def _type_parameters(owner: object) -> dict[str, Any]:
    return {parameter.__name__: parameter for parameter in getattr(owner, "__type_params__", ())}


def _resolve(annotation: object, names: Mapping[str, Any], local: Mapping[str, Any]) -> object:
    scope = type("Scope", (), {"__annotations__": {"it": annotation}})
    hints = typing.get_type_hints(scope, dict(names), dict(local), include_extras=True)
    resolved: object = hints["it"]
    return resolved


def class_hints(cls: type, arguments: tuple[object, ...]) -> dict[str, object]:
    """The annotations of a class and its bases, with the type variables filled in.

    `arguments` are those of the generic alias, if the class was named by one. Variables that
    nothing fills are `Any`.
    """
    hints: dict[str, object] = {}
    filled = dict(_fillings(cls, dict(zip(_parameters(cls), arguments, strict=False))))
    for owner in reversed(cls.__mro__):
        names = vars(sys.modules.get(owner.__module__, typing))
        local = {**vars(owner), owner.__name__: owner, cls.__name__: cls}
        local.update(_type_parameters(owner))
        for name, annotation in inspect.get_annotations(owner).items():
            resolved = _resolve(annotation, names, local)
            hints[name] = substitute(resolved, filled.get(owner, {}))
    return hints


def _parameters(cls: type) -> tuple[TypeVar, ...]:
    parameters: tuple[TypeVar, ...] = getattr(cls, "__parameters__", ())
    return parameters


def _fillings(
    cls: type, filling: dict[TypeVar, object]
) -> Iterator[tuple[type, dict[TypeVar, object]]]:
    """For a class and each of its generic bases, what its own type variables stand for."""
    yield cls, filling
    for base in cls.__dict__.get("__orig_bases__", ()):
        origin = typing.get_origin(base)
        if isinstance(origin, type) and origin not in (typing.Generic, typing.Protocol):
            arguments = (substitute(part, filling) for part in typing.get_args(base))
            yield from _fillings(origin, dict(zip(_parameters(origin), arguments, strict=False)))


def substitute(annotation: object, filling: Mapping[TypeVar, object]) -> object:
    """The annotation with its type variables replaced, by `Any` where nothing is known."""
    if isinstance(annotation, TypeVar):
        return filling.get(annotation, Any)
    generic: Any = annotation
    parameters = getattr(generic, "__parameters__", ())
    if isinstance(annotation, type) or not parameters:
        return annotation
    return generic[tuple(filling.get(parameter, Any) for parameter in parameters)]
