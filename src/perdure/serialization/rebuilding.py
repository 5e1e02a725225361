"""What an exception is made of, and how one is made again from it.

Neither runs code of the exception's class: its state is read from where Python keeps it, and an
instance is made by the built-in exception it derives from, its attributes set afterwards. So a
row can choose what an error of a known class holds, never what is executed.
"""

from typing import Any, NamedTuple

from perdure.serialization.equality import slots_of

_MEMBERS: dict[type[BaseException], tuple[str, ...]] = {
    AttributeError: ("name",),
    ImportError: ("name", "path"),
    NameError: ("name",),
}
"""What the built-in classes keep beside their arguments. The object of an `AttributeError` is left
out: it may be anything, and is of use only where the error was raised."""


class ErrorState(NamedTuple):
    """The arguments of an exception and its attributes."""

    args: tuple[Any, ...]
    attributes: dict[str, Any]


def built_in_part(cls: type[BaseException]) -> type[BaseException]:
    """The built-in exception class that lays out instances of `cls`."""
    part: Any = cls
    while part.__module__ != "builtins":
        part = part.__base__
    found: type[BaseException] = part
    return found


def state_of(error: BaseException) -> ErrorState:
    """What makes this instance differ from others of its class."""
    cls = type(error)
    reduced: Any = built_in_part(cls).__reduce__(error)
    attributes = dict(vars(error))
    for name in _kept_members(cls):
        value = getattr(error, name)
        if value is not None:
            attributes[name] = value
    for name in _own_slots(cls):
        if hasattr(error, name):
            attributes[name] = getattr(error, name)
    return ErrorState(tuple(reduced[1]), attributes)


def rebuild(cls: type[BaseException], state: ErrorState) -> BaseException:
    """An instance of `cls` in this state. Raises what the built-in class raises if it refuses."""
    part = built_in_part(cls)
    made: BaseException = part.__new__(cls, *state.args)
    part.__init__(made, *state.args)
    placed = (*_kept_members(cls), *_own_slots(cls))
    for name, value in state.attributes.items():
        if name in placed:
            object.__setattr__(made, name, value)
        else:
            vars(made)[name] = value
    return made


def _kept_members(cls: type[BaseException]) -> tuple[str, ...]:
    return tuple(
        name for base, names in _MEMBERS.items() if issubclass(cls, base) for name in names
    )


def _own_slots(cls: type[BaseException]) -> tuple[str, ...]:
    return tuple(
        name for base in cls.__mro__ if base.__module__ != "builtins" for name in slots_of(base)
    )
