"""Values nested too deeply, or containing themselves."""

from collections.abc import Iterable, Iterator
from typing import Any

from perdure.serialization.codec import Misfit, at_index, at_key

MAX_DEPTH = 200
"""Levels of arrays and objects in a stored text: few enough to be read back on any stack."""

SHALLOW_BYTES = 2 * MAX_DEPTH
"""A text of this length cannot be nested too deeply."""

_SHOWN_STEPS = 8


def check_depth(raw: bytes, tree: Any) -> None:
    """Raise `Misfit` if the text is nested more than `MAX_DEPTH` levels deep."""
    if len(raw) <= SHALLOW_BYTES or raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return
    level = [tree]
    for _ in range(MAX_DEPTH):
        level = [part for whole in level for part in _tree_parts(whole)]
        if not level:
            return
    if any(type(part) in (list, dict) for part in level):
        raise explain_nesting(tree)


def _tree_parts(tree: Any) -> Iterable[Any]:
    if type(tree) is dict:
        return tree.values()
    return tree if type(tree) is list else ()


def explain_nesting(value: Any) -> Misfit:
    """Why walking `value` ran out of stack: a cycle, or sheer depth; with the way there."""
    open_ids = {id(value)}
    open_parts = [(value, _parts(value))]
    steps: list[str] = []
    while open_parts:
        whole, parts = open_parts[-1]
        step, part = next(parts, (None, None))
        if step is None:
            open_parts.pop()
            open_ids.discard(id(whole))
            del steps[-1:]
        elif id(part) in open_ids:
            return _located([*steps, step], "it contains itself")
        elif len(open_parts) >= MAX_DEPTH and _is_container(part):
            return _located([*steps, step], f"nested more than {MAX_DEPTH} levels deep")
        else:
            steps.append(step)
            open_ids.add(id(part))
            open_parts.append((part, _parts(part)))
    return Misfit("nested too deeply for what is left of the stack")


def _located(steps: list[str], reason: str) -> Misfit:
    misfit = Misfit(reason)
    shortened = [*steps[:_SHOWN_STEPS], "…"] if len(steps) > _SHOWN_STEPS else steps
    misfit.steps.extend(reversed(shortened))
    return misfit


def _is_container(value: Any) -> bool:
    if isinstance(value, dict | list | tuple | set | frozenset):
        return True
    return hasattr(value, "__dict__") and not isinstance(value, type)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        return ((at_key(key), part) for key, part in list(value.items()))
    if isinstance(value, list | tuple | set | frozenset):
        return ((at_index(index), part) for index, part in enumerate(list(value)))
    if not _is_container(value):
        return iter(())
    return ((f".{name}", part) for name, part in list(vars(value).items()))
