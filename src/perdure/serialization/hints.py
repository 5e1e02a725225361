"""Annotations of functions and classes, resolved."""

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any


def annotations_of(fn: Callable[..., Any]) -> Mapping[str, object]:
    """Every parameter of `fn` and `return` with its resolved type; `Any` where none is given."""
    found = typing.get_type_hints(fn, include_extras=True)
    names = [*inspect.signature(fn).parameters, "return"]
    return {name: found.get(name, Any) for name in names}
