"""Options that are given by name."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TypeVar

from perdure.errors import InvalidArgument, PerdureError

LONGEST_TEXT = 512
"""Characters of an id or a key: an index of every database takes as many."""

E = TypeVar("E", bound=Enum)
T = TypeVar("T")


def refuse_unknown(given: Mapping[str, object], known: type, error: type[PerdureError]) -> None:
    """Raise `error` naming every option that the typed dict `known` does not have."""
    unknown = sorted(given.keys() - known.__annotations__.keys())
    if unknown:
        names = ", ".join(known.__annotations__)
        raise error(f"unknown options: {', '.join(unknown)}; there are {names}")


def checked_text(option: str, value: str) -> str:
    """A text that every database can store and find again; raises `InvalidArgument` otherwise."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgument(f"{option}={value!r}: it must be a text that is not blank")
    if "\x00" in value or len(value) > LONGEST_TEXT:
        raise InvalidArgument(
            f"{option}={value[:40]!r}…: at most {LONGEST_TEXT} characters, no NUL"
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{option}={value[:40]!r}: {error}") from error
    return value


def checked_roles(
    option: str, roles: object, refused: type[PerdureError] = InvalidArgument
) -> tuple[str, ...]:
    """Names of roles, of which a text is not one by itself; raises `refused` otherwise."""
    if isinstance(roles, str) or not isinstance(roles, Sequence):
        raise refused(f"{option}={roles!r:.40}: it must be a list of texts; write [...]")
    try:
        return tuple(checked_text(option, role) for role in roles)
    except InvalidArgument as error:
        raise refused(str(error)) from error


def checked_several(option: str, values: Iterable[T], what: str) -> list[T]:
    """Several of what that says, of which a text is none; raises `InvalidArgument` otherwise."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidArgument(f"{option}={values!r:.40}: it must be several {what}; write [...]")
    return list(values)


def checked_choice(option: str, kind: type[E], value: object) -> E:
    """A member of an enumeration; raises `InvalidArgument` naming them all."""
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(str(member) for member in kind)
        raise InvalidArgument(f"{option}={value!r}: it must be one of {names}") from None


def checked_flag(option: str, value: bool) -> bool:  # noqa: FBT001 - it is the option's value
    """True or False; raises `InvalidArgument` for what only counts as one of them."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{option}={value!r}: it must be True or False")
    return value
