"""The shared envelope of an error: `name`, `message`, `code` and `data`, as every SDK reads it."""

import traceback
from typing import Any

from perdure.errors import RemoteError
from perdure.serialization.codec import Misfit
from perdure.serialization.plain import copy_plain
from perdure.serialization.text import dump

_CODES = ("code", "error_code", "errno", "status", "status_code")
_DATA = ("data", "details", "payload", "extra", "meta", "metadata")
_SHOWN_FRAMES = 30
_UNNAMED = "Error"


def describe(error: BaseException) -> dict[str, Any]:
    """The envelope of an error; never fails. `data` is present only where the error has any."""
    if isinstance(error, RemoteError):
        envelope = {
            "name": message_of(error.name),
            "message": message_of(error.message),
            "code": _plain_code(error.code),
        }
        return envelope if error.data is None else {**envelope, "data": _storable(error.data)}
    described = {
        "name": type(error).__name__,
        "message": message_of(error),
        "code": _code_of(error),
    }
    for name in _DATA:
        found, value = _attribute(error, name)
        if found and not callable(value):
            return {**described, "data": _storable(value)}
    return described


def message_of(error: object) -> str:
    """What an error says of itself, even if its class fails to."""
    for say in (str, repr):
        try:
            return storable_text(say(error))
        except Exception:  # noqa: BLE001, S112  a class may do anything in its own str
            continue
    return "<unprintable>"


def storable_text(text: str) -> str:
    """The text with separate surrogates that make one character joined, as a reader would."""
    if text.isascii():
        return f"{text}"
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _attribute(error: BaseException, name: str) -> tuple[bool, Any]:
    try:
        return True, getattr(error, name)
    except Exception:  # noqa: BLE001  a class may do anything in a property
        return False, None


def _code_of(error: BaseException) -> int | str | None:
    for name in _CODES:
        found, value = _attribute(error, name)
        if found and isinstance(value, int | str | None):
            return _plain_code(value)
    return None


def _plain_code(value: object) -> int | str | None:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, int):
        return value if isinstance(value, bool) else int(value)
    return None


def _storable(value: Any) -> Any:
    try:
        tree = copy_plain(value)
        dump(tree)
    except (Misfit, RecursionError):
        return message_of(value)
    return tree


def traceback_of(error: BaseException, limit: int) -> str:
    """The traceback of an error as text, at most `limit` characters, the innermost ones."""
    if isinstance(error, RemoteError) and error.traceback_text:
        return storable_text(error.traceback_text)[-limit:]
    if error.__traceback__ is None:
        return ""
    try:
        lines = traceback.format_exception(error, limit=-_SHOWN_FRAMES)
    except Exception:  # noqa: BLE001  formatting asks the classes of the whole chain
        return ""
    return storable_text("".join(lines))[-limit:]


def read_envelope(tree: Any, text: str) -> RemoteError:
    """The error of an envelope as any SDK writes it; what is no envelope becomes the message."""
    if type(tree) is dict and type(tree.get("json")) is dict:
        tree = tree["json"]
    if type(tree) is not dict or type(tree.get("name")) is not str or "message" not in tree:
        return RemoteError(_UNNAMED, text if type(tree) is not str else tree)
    code = tree.get("code")
    message, stack = tree["message"], tree.get("stack")
    return RemoteError(
        tree["name"],
        message if type(message) is str else message_of(message),
        code if type(code) in (int, str) else None,
        tree.get("data"),
        stack if type(stack) is str else None,
    )
