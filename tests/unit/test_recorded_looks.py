"""What a body saw of workflows is recorded: records of this and of a later version stay readable.

The texts are those of the first version. A field that is added needs a default, and none is removed
or called anything else.
"""

from __future__ import annotations

import builtins
import json
from typing import Any

import msgspec
import pytest

from perdure.api.questions import Shape, page_shape, plain_shape
from perdure.engine.registry import DECORATED
from perdure.model.ids import StepId, WorkflowId
from perdure.model.listing import Branch, StreamSummary, WorkflowCount
from perdure.model.status import WorkflowState
from perdure.model.talk import EventRow, StreamRow
from perdure.model.wire import PORTABLE_JSON
from perdure.model.workflow import StepRow, WorkflowKey, WorkflowRow
from perdure.serialization import Serialization

W = WorkflowId("w")
ROW_TEXT = (
    '{"workflow_id":"w","state":"ERROR","key":["n","c","i"],"attempts":3,"queue_name":"q",'
    '"priority":5,"partition_key":null,"deduplication_id":null,"executor_id":"e",'
    '"application_name":"app","application_version":"v","application_id":null,"created_at_ms":1,'
    '"updated_at_ms":2,"started_at_ms":3,"completed_at_ms":4,"delay_until_ms":null,'
    '"timeout_ms":null,"deadline_ms":null,"parent_workflow_id":null,"forked_from":null,'
    '"was_forked_from":true,"schedule_name":null,"authenticated_user":"u",'
    '"authenticated_roles":null,"assumed_role":null,"attributes":"{\\"a\\":1}",'
    '"serialization":"portable_json","owner":null,"inputs":null,"output":null,"error":"err"}'
)
ROW = WorkflowRow(
    workflow_id=W,
    state=WorkflowState.ERROR,
    key=WorkflowKey("n", "c", "i"),
    attempts=3,
    queue_name="q",
    priority=5,
    partition_key=None,
    deduplication_id=None,
    executor_id="e",
    application_name="app",
    application_version="v",
    application_id=None,
    created_at_ms=1,
    updated_at_ms=2,
    started_at_ms=3,
    completed_at_ms=4,
    delay_until_ms=None,
    timeout_ms=None,
    deadline_ms=None,
    parent_workflow_id=None,
    forked_from=None,
    was_forked_from=True,
    schedule_name=None,
    authenticated_user="u",
    authenticated_roles=None,
    assumed_role=None,
    attributes='{"a":1}',
    serialization="portable_json",
    owner=None,
    error="err",
)
STEP_TEXT = (
    '{"workflow_id":"w","step_id":1,"name":"n","output":"o","error":null,'
    '"child_workflow_id":null,"started_at_ms":1,"completed_at_ms":2,"serialization":null}'
)
STEP = StepRow(W, StepId(1), "n", "o", None, None, 1, 2, None)
LOOKS: list[tuple[Shape[Any], str, Any]] = [
    (page_shape(WorkflowRow, str), f'[[{ROW_TEXT}],"1.w"]', ([ROW], "1.w")),
    (page_shape(StepRow, int), f"[[{STEP_TEXT}],null]", ([STEP], None)),
    (
        page_shape(StreamRow, int),
        '[[[0,"v","portable_json",2]],1]',
        ([StreamRow(0, "v", PORTABLE_JSON, StepId(2))], 1),
    ),
    (plain_shape(WorkflowRow), ROW_TEXT, ROW),
    (
        plain_shape(builtins.list[Branch]),
        f'[{{"depth":0,"workflow":{ROW_TEXT}}}]',
        [Branch(0, ROW)],
    ),
    (
        plain_shape(builtins.list[WorkflowCount]),
        '[{"number":3,"state":"ERROR","queue_name":"q","name":null}]',
        [WorkflowCount(3, state=WorkflowState.ERROR, queue_name="q")],
    ),
    (
        plain_shape(builtins.list[EventRow]),
        '[["w","k","v","portable_json"]]',
        [EventRow(W, "k", "v", PORTABLE_JSON)],
    ),
    (
        plain_shape(builtins.list[StreamSummary]),
        '[{"key":"s","values":2,"is_closed":true}]',
        [StreamSummary("s", 2, is_closed=True)],
    ),
]
BY_KIND = pytest.mark.parametrize(("shape", "text", "seen"), LOOKS)


def read(shape: Shape[Any], text: str) -> Any:
    """What a replay makes of the record; a page as its rows and its cursor."""
    serialization = Serialization(
        10_000, unpickle=False, errors=(), known_error=DECORATED.error_class
    )
    record = serialization.value(shape.annotation, "what was seen").decode(text, PORTABLE_JSON)
    return shape.pack(shape.unpack(record))


@BY_KIND
def test_what_the_first_version_recorded_is_read(shape: Shape[Any], text: str, seen: Any) -> None:
    assert read(shape, text) == seen


@BY_KIND
def test_what_a_later_version_records_besides_is_passed_over(
    shape: Shape[Any], text: str, seen: Any
) -> None:
    def grown(part: Any) -> Any:
        if isinstance(part, dict):
            return {**{key: grown(value) for key, value in part.items()}, "newer": [1]}
        return [grown(each) for each in part] if isinstance(part, list) else part

    later = json.dumps(grown(msgspec.json.decode(text)))
    assert read(shape, later) == seen
