"""JSON trees as compact standard JSON text, and back."""

import json
import re
from typing import Any

import msgspec

from perdure.serialization.codec import Misfit, at_index, at_key

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def dump(tree: Any) -> bytes:
    """The text of a lowered tree in UTF-8, non-ASCII kept. Raises `Misfit`."""
    try:
        return _encode(tree)
    except (UnicodeEncodeError, OverflowError, ValueError):
        return _dump_unusual(tree)


def _dump_unusual(tree: Any) -> bytes:
    """As `dump`, for lone surrogates (kept as JSON escapes) and very large integers."""
    try:
        text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        _find_unwritable(tree)
        raise
    if _SURROGATE_PAIR.search(text):
        _find_unwritable(tree)
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def _find_unwritable(tree: Any) -> None:
    """Raise `Misfit` at the first part of a tree that standard JSON cannot give back."""
    if type(tree) is str and _SURROGATE_PAIR.search(tree):
        raise Misfit("two separate surrogate code points would come back as one character")
    if type(tree) is int:
        try:
            repr(tree)
        except ValueError:
            raise Misfit("an integer of more digits than Python writes as text") from None
    parts = tree.items() if type(tree) is dict else enumerate(tree) if type(tree) is list else ()
    for key, part in parts:
        try:
            _find_unwritable(key)
            _find_unwritable(part)
        except Misfit as misfit:
            misfit.steps.append(at_key(key) if type(tree) is dict else at_index(key))
            raise


def parse(text: str) -> Any:
    """The tree of a text. Raises `Misfit` if it is not JSON.

    Beyond the standard it reads what other writers produce: lone surrogates as escapes, and NaN
    and Infinity, which the Python SDK writes.
    """
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, OverflowError, ValueError):
        pass
    try:
        return json.loads(text)
    except ValueError as error:
        raise Misfit(f"not JSON: {error}") from None
