"""Whatever is given as a document is a workflow, or is refused with the way to what is wrong."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidDocument
from perdure.logic.transfer import archives_of
from perdure.model.transfer import Archive

TEXTS = st.text(max_size=3)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
VALUES = st.recursive(
    SCALARS, lambda each: st.lists(each, max_size=2) | st.dictionaries(TEXTS, each, max_size=2)
)
WHOLE: dict[str, Any] = {
    "format": "perdure.workflow",
    "version": 1,
    "workflow": {
        "workflow_id": "w",
        "state": "PENDING",
        "created_at_ms": 1,
        "updated_at_ms": 2,
        "inputs": "[1]",
        "attributes": '{"a": 1}',
        "queue_name": "q",
    },
    "steps": [{"step_id": number, "name": "s", "output": "1"} for number in (1, 2)],
    "events": [{"key": "k", "value": "1"}],
    "event_history": [{"step_id": 1, "key": "k", "value": "1"}],
    "stream_values": [{"key": "s", "offset": 0, "value": "1"}],
    "messages": [{"message_id": "m", "message": "1", "created_at_ms": 1, "consumed": True}],
    "appends": ["1:1:a"],
}


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a document with each of its keys."""
    found: list[tuple[Any, Any]] = []
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], dict | list):
            found += places(value[key])
    return found


@given(st.data())
def test_a_damaged_document_is_refused_or_is_a_workflow(data: st.DataObject) -> None:
    document = copy.deepcopy(WHOLE)
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = data.draw(st.sampled_from(places(document)))
        if isinstance(holder, dict) and data.draw(st.booleans()):
            holder[data.draw(TEXTS)] = data.draw(VALUES)
        else:
            holder[key] = data.draw(VALUES)
    read = attempted(document)
    if isinstance(read, str):
        assert read.startswith("$[0]")
    else:
        assert archives_of(json.loads(json.dumps([msgspec.to_builtins(read)]))) == [read]


@given(VALUES)
def test_anything_else_is_refused(value: Any) -> None:
    read = attempted(value)
    assert isinstance(read, str)
    assert read.startswith("$[0]")


def attempted(document: Any) -> Archive | str:
    """What the document is, or the way to what is wrong with it."""
    try:
        (archive,) = archives_of([document])
    except InvalidDocument as refusal:
        return refusal.path
    return archive
