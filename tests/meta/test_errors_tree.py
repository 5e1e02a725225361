"""The tree drawn in the docstring of `perdure.errors` is the tree of its classes."""

from __future__ import annotations

import inspect
import re

from perdure import errors

# A line of the drawing: bars and blanks, a branch, a class name, and perhaps what it stands for.
_LINE = re.compile(r"^(?P<bars>[ │]*)(?P<branch>[├└]── )?(?P<name>[A-Z]\w+)(?: {2,}| \(|$)")


def drawn() -> list[tuple[str, str | None]]:
    """Each class of the drawing with the class it hangs under, in the drawn order."""
    assert errors.__doc__ is not None
    tree: list[tuple[str, str | None]] = []
    above: dict[int, str] = {}
    for line in inspect.cleandoc(errors.__doc__).splitlines()[1:]:
        found = _LINE.match(line)
        if not found:
            continue
        column = len(found["bars"]) + len(found["branch"] or "")
        parents = [c for c in above if c < column]
        above = {c: above[c] for c in parents} | {column: found["name"]}
        tree.append((found["name"], above[max(parents)] if parents else None))
    return tree


def defined() -> list[tuple[str, str | None]]:
    """Each class of the module with its base, in the order of the code."""
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    return [
        (cls.__name__, base.__name__ if (base := cls.__bases__[0]) in classes else None)
        for cls in classes
    ]


def test_the_drawing_is_the_class_tree() -> None:
    assert sorted(drawn(), key=str) == sorted(defined(), key=str)


def test_every_error_is_one_of_ours_or_a_control_signal() -> None:
    roots = {name for name, parent in defined() if parent is None}
    assert roots == {"PerdureError", "ControlSignal"}
    assert not issubclass(errors.ControlSignal, Exception)
