"""What a codec is: the values of one annotation as JSON trees, both ways.

*Lowering* turns a value into a fresh tree of None, bool, int, finite float, str, list and dict with
str keys, all of exactly these types; *lifting* turns such a tree back. For every value that
`lower` accepts, `lift(lower(value))` is equal to it and of equal type at every depth.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

NoneType = type(None)
_SHOWN_LENGTH = 60

TEXT: frozenset[type] = frozenset({str})
NUMBERS: frozenset[type] = frozenset({bool, int, float})
ANY_KIND: frozenset[type] = frozenset({NoneType, bool, int, float, str, list, dict})


class Misfit(Exception):
    """A value that has no stored form, or a tree that is not one of the annotation's.

    It is raised where the trouble is and gathers the way there while it passes outwards.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[str] = []

    def path(self, root: str) -> str:
        """The way from `root` to the offending part."""
        return root + "".join(reversed(self.steps))


class Unavailable(Misfit):
    """A text in a format that is not read here, whatever stands in it."""


class Codec(ABC):
    """Lowers and lifts the values of one annotation.

    `kinds` are the JSON kinds (as the Python types of a tree) a stored form can have. `types` are
    the exact classes of the values taken, None where the class alone does not say. `atoms` are the
    immutable classes whose every value is its own stored form. `identity` says that the stored
    form is an equal value, so that a fresh tree need not be lifted. `free_text` says that any text
    at all may be a stored form.
    """

    __slots__ = ()

    label: str
    kinds: frozenset[type]
    types: frozenset[type] | None = None
    atoms: frozenset[type] = frozenset()
    identity: bool = False
    free_text: bool = False
    rank: int = 0
    """Members of a union are tried by rising rank: what takes fewer texts comes first."""

    @abstractmethod
    def lower(self, value: Any) -> Any:
        """The stored tree of `value`; raises `Misfit`."""

    @abstractmethod
    def lift(self, tree: Any) -> Any:
        """The value of a stored tree; raises `Misfit`."""


def refuse(reason: str) -> NoReturn:
    """Raise the `Misfit` of this reason, for the caller's own frame to say where."""
    raise Misfit(reason)


def at_index(index: int) -> str:
    """The step of a path into an array."""
    return f"[{index}]"


def at_key(key: object) -> str:
    """The step of a path into an object."""
    if type(key) is str and key.isidentifier():
        return f".{key}"
    return f"[{shown(key)}]"


def each(change: Callable[[Any], Any], atoms: frozenset[type], parts: Iterable[Any]) -> list[Any]:
    """Lower or lift every part, leaving atoms as they are."""
    changed: list[Any] = []
    try:
        for part in parts:
            changed.append(  # noqa: PERF401  its length says which part failed
                part if type(part) in atoms else change(part)
            )
    except Misfit as misfit:
        misfit.steps.append(at_index(len(changed)))
        raise
    return changed


def shown(value: object) -> str:
    """A short `repr` for messages; never fails."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  a class may do anything in its own repr
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}…"


def name_of(cls: type) -> str:
    """The name of a class in messages: with its module, unless it is built in."""
    if cls.__module__ == "builtins":
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def wrong_type(value: object, label: str) -> Misfit:
    """The misfit of a value of another class than the annotation names."""
    return Misfit(f"a {name_of(type(value))} where the annotation says {label}")


def wrong_kind(tree: object, label: str) -> Misfit:
    """The misfit of a stored tree of another kind than the annotation's."""
    names = {NoneType: "null", str: "a text", list: "an array", dict: "an object"}
    return Misfit(f"{names.get(type(tree), shown(tree))} where the annotation says {label}")
