"""Values that say themselves what they are, for the arguments and attributes of errors.

No annotation tells how these come back, so a value beyond JSON's kinds is an object with one key
that begins with `$`. The set of kinds is closed: reading one calls nothing but these classes.
"""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from perdure.serialization.codec import Codec, Misfit, NoneType, name_of
from perdure.serialization.texts import TEXT_CODECS

_AS_THEY_ARE = (NoneType, bool, int, str)
_TEXTS: dict[str, Codec] = {
    f"${cls.__name__}": TEXT_CODECS[cls]
    for cls in (UUID, Decimal, bytes, bytearray, datetime, date, time, timedelta)
}
_TAGS: dict[type, str] = {cls: tag for tag, codec in _TEXTS.items() for cls in codec.types or ()}
_ARRAYS: dict[str, type] = {"$tuple": tuple, "$set": set, "$frozenset": frozenset}
_FLOAT = "$float"
_DICT = "$dict"
_ERROR = "$error"


def wrap(value: Any, error: Callable[[BaseException], Any]) -> Any:
    """The tree of a value; `error` makes that of an exception in it. Raises `Misfit`."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is float:
        return value if value - value == 0 else {_FLOAT: repr(value)}
    if kind is list:
        return [wrap(part, error) for part in value]
    if kind is dict:
        return _wrap_dict(value, error)
    if kind in _TAGS:
        return {_TAGS[kind]: TEXT_CODECS[kind].lower(value)}
    if isinstance(value, BaseException):
        return {_ERROR: error(value)}
    for tag, cls in _ARRAYS.items():
        if kind is cls:
            return {tag: [wrap(part, error) for part in value]}
    raise Misfit(f"a {name_of(kind)} has no stored form in an error")


def _wrap_dict(value: dict[Any, Any], error: Callable[[BaseException], Any]) -> Any:
    if all(type(key) is str and not key.startswith("$") for key in value):
        return {key: wrap(part, error) for key, part in value.items()}
    return {_DICT: [[wrap(key, error), wrap(part, error)] for key, part in value.items()]}


def unwrap(tree: Any, error: Callable[[Any], BaseException]) -> Any:
    """The value of a tree; `error` makes an exception of its envelope. Raises `Misfit`."""
    if type(tree) is list:
        return [unwrap(part, error) for part in tree]
    if type(tree) is not dict:
        return tree
    if len(tree) != 1 or not next(iter(tree)).startswith("$"):
        return {key: unwrap(part, error) for key, part in tree.items()}
    tag, part = next(iter(tree.items()))
    if tag in _TEXTS:
        return _TEXTS[tag].lift(part)
    if tag == _FLOAT:
        return float(part)
    if tag == _ERROR:
        return error(part)
    if tag in _ARRAYS:
        return _ARRAYS[tag](unwrap(one, error) for one in part)
    if tag == _DICT:
        return {unwrap(key, error): unwrap(one, error) for key, one in part}
    raise Misfit(f"the kind {tag!r} is not known here")
