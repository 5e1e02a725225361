"""Stored payloads as a person or a program wants to see them: decoded if possible, else raw."""

import json
from dataclasses import dataclass
from typing import Any

from perdure.model.wire import PORTABLE_JSON

_ARGUMENTS = frozenset({"positionalArgs", "namedArgs"})


@dataclass(frozen=True, slots=True)
class Payload:
    """A stored value; `is_raw` says that `value` is the stored text, in the format `label`."""

    value: Any
    is_raw: bool = False
    label: str | None = None

    def as_text(self) -> str:
        """On one line, as JSON where it is decoded."""
        if self.is_raw:
            return f"not read here ({self.label or 'no format named'}): {self.value}"
        return _json(self.value)

    def as_arguments(self) -> str:
        """As a call would write them, if these are arguments: `"intro", limit=3`."""
        value = self.value
        if not (isinstance(value, dict) and value and value.keys() <= _ARGUMENTS):
            return self.as_text()
        parts = [_json(each) for each in value.get("positionalArgs") or ()]
        named = value.get("namedArgs") or {}
        return ", ".join(parts + [f"{name}={_json(each)}" for name, each in named.items()])

    def as_error(self) -> str:
        """As `Name: message`, if this is a recorded error."""
        value = self.value
        if isinstance(value, dict) and value.keys() >= {"name", "message"}:
            return f"{value['name']}: {value['message']}"
        return self.as_text()


def payload(text: str | None, serialization: str | None) -> Payload:
    """The payload of a row's text under the row's label.

    Only JSON is read here, so that looking at a row can run no code.
    """
    if text is None:
        return Payload(None)
    if serialization not in (PORTABLE_JSON, None):
        return Payload(text, is_raw=True, label=serialization)
    try:
        return Payload(json.loads(text))
    except ValueError:
        return Payload(text, is_raw=True, label=serialization)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
