"""What is said, and under which name: checked and encoded before a call takes its step id."""

import re
from collections.abc import Mapping
from typing import Any, Final

from perdure.engine.talk import Speaker
from perdure.errors import InvalidArgument, RegistrationError, UnserializableValue
from perdure.model.wire import NULL_TOPIC
from perdure.serialization import Serialization, ValueCodec

LONGEST_BYTES: Final = 512
"""Of a key: with a workflow's id it has to fit into an index and into what a server announces."""

_PLAIN: Final = frozenset({type(None), bool, int, float, str, list, tuple, dict})


def encoded(speaker: Speaker, value: Any, what: str) -> str:
    """The text of a value: a plain one as JSON, another by its own class, as `into=` reads it."""
    kind = Any if type(value) in _PLAIN else type(value)
    try:
        codec: ValueCodec[Any] = speaker.serialization.value(kind, what)
    except RegistrationError as error:
        raise UnserializableValue(what, "$", str(error)) from error
    text, _ = codec.encode(value)
    return text


def attributes_text(serialization: Serialization, attributes: Mapping[str, Any]) -> str:
    """Attributes as every database can keep them, an object of JSON's kinds."""
    codec = serialization.value(dict[str, Any], "attributes")
    text, _ = codec.encode(dict(attributes))
    if _UNSTORABLE.search(text):
        reason = "no text in them may hold a NUL character or half of a surrogate pair"
        raise UnserializableValue("attributes", "$", reason)
    return text


_UNSTORABLE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])")
"""An escaped NUL or half of a pair, and not what follows an escaped backslash."""


def checked_key(key: str, what: str = "key") -> str:
    """A key that every database can store and announce; raises `InvalidArgument` otherwise."""
    if not isinstance(key, str) or not key.strip():
        raise InvalidArgument(f"{what}={key!r}: it must be a text that is not blank")
    return _storable(key, what)


def checked_topic(topic: str | None) -> str:
    """A topic as it is stored; the default one has a name of its own."""
    if topic is None:
        return NULL_TOPIC
    if not isinstance(topic, str):
        raise InvalidArgument(f"topic={topic!r}: it must be a text, or None for the default one")
    return _storable(topic, "topic")


def _storable(text: str, what: str) -> str:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{what}={text[:40]!r}: {error}") from error
    if size > LONGEST_BYTES or "\x00" in text:
        raise InvalidArgument(
            f"{what}={text[:40]!r}: {size:,} bytes; at most {LONGEST_BYTES}, and no NUL"
        )
    return text
