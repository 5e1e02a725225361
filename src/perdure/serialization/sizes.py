"""What a value takes at least when it is stored, told by its length alone.

Encoding what is far too large takes seconds in which nothing else runs.
"""

from collections.abc import Callable
from typing import Any, Final

_LEAST: Final[dict[type, Callable[[int], int]]] = {
    str: lambda length: length + 2,
    bytes: lambda length: 4 * ((length + 2) // 3) + 2,
    bytearray: lambda length: 4 * ((length + 2) // 3) + 2,
    # A digit and a comma each, or a bracket in its place.
    list: lambda length: 2 * length + 1,
    tuple: lambda length: 2 * length + 1,
    set: lambda length: 2 * length + 1,
    frozenset: lambda length: 2 * length + 1,
    dict: lambda length: 5 * length + 1,
}
"""By the exact class of the value: from its length, the bytes of the shortest text it can have."""


def least_bytes(value: Any) -> int:
    """The bytes of JSON that storing `value` takes at least; its parts are not looked at."""
    least = _LEAST.get(type(value))
    return 0 if least is None else least(len(value))
