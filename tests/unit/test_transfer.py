"""What a document must be to become a workflow, and what it becomes."""

from typing import Any

import msgspec
import pytest

from perdure.errors import InvalidDocument
from perdure.logic.transfer import archives_of, arrived
from perdure.model.ids import WorkflowId
from perdure.model.status import ACTIVE, WorkflowState
from perdure.model.transfer import WorkflowRecord
from perdure.model.wire import FOREIGN_INTERNAL_QUEUE, INTERNAL_QUEUE


def document(workflow_id: str = "w", **parts: Any) -> dict[str, Any]:
    """The smallest document of a workflow, with these parts."""
    workflow = {
        "workflow_id": workflow_id,
        "state": "SUCCESS",
        "created_at_ms": 1,
        "updated_at_ms": 2,
        **parts.pop("workflow", {}),
    }
    return {"format": "perdure.workflow", "version": 1, "workflow": workflow, **parts}


def record(state: str, **fields: Any) -> WorkflowRecord:
    return WorkflowRecord(WorkflowId("w"), state, 1, 2, **fields)


STEP = {"step_id": 1, "name": "s"}
EVENT = {"key": "k", "value": "1"}
VALUE = {"key": "k", "value": "1", "offset": 0}
MESSAGE = {"message_id": "m", "message": "1", "created_at_ms": 1}


def test_a_small_document_is_one() -> None:
    (archive,) = archives_of([document(steps=[STEP], messages=[MESSAGE])])
    assert archive.workflow == record("SUCCESS")
    assert (archive.steps[0].name, archive.messages[0].consumed) == ("s", False)
    assert archives_of([]) == []


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("text", "$[0]"),
        ({}, "$[0].format"),
        ({**document(), "format": "other"}, "$[0].format"),
        ({**document(), "version": 2}, "$[0].version"),
        ({**document(), "version": True}, "$[0].version"),
        ({"format": "perdure.workflow", "version": 1}, "$[0]"),
        ({**document(), "more": 1}, "$[0]"),
        (document(workflow={"workflow_id": ""}), "$[0].workflow.workflow_id"),
        (document(workflow={"workflow_id": 1}), "$[0].workflow.workflow_id"),
        (document(workflow={"state": "DONE"}), "$[0].workflow.state"),
        (document(workflow={"created_at_ms": None}), "$[0].workflow.created_at_ms"),
        (document(workflow={"created_at_ms": 1.5}), "$[0].workflow.created_at_ms"),
        (document(workflow={"created_at_ms": 2**63}), "$[0].workflow.created_at_ms"),
        (document(workflow={"priority": 2**31}), "$[0].workflow.priority"),
        (document(workflow={"class_name": "c" * 256}), "$[0].workflow.class_name"),
        (document(workflow={"was_forked_from": 1}), "$[0].workflow.was_forked_from"),
        (document(workflow={"owner": "me"}), "$[0].workflow"),
        (document(workflow={"attributes": {}}), "$[0].workflow.attributes"),
        (document(workflow={"attributes": "{"}), "$[0].workflow.attributes"),
        (document(workflow={"attributes": '{"a": NaN}'}), "$[0].workflow.attributes"),
        (document(workflow={"attributes": '{"a": "\\u0000"}'}), "$[0].workflow.attributes"),
        (document(workflow={"attributes": "[" * 100_000}), "$[0].workflow.attributes"),
        (document(workflow={"inputs": "a\0b"}), "$[0].workflow.inputs"),
        (document(workflow={"inputs": "\ud800"}), "$[0].workflow.inputs"),
        (document(steps=[STEP, {"step_id": 2}]), "$[0].steps[1]"),
        (document(steps=[STEP, STEP]), "$[0].steps[1]"),
        (document(steps=[{**STEP, "step_id": 2**31}]), "$[0].steps[0].step_id"),
        (document(steps=[{**STEP, "output": "\0"}]), "$[0].steps[0].output"),
        (document(events=[EVENT, EVENT]), "$[0].events[1]"),
        (document(event_history=[{**EVENT, "step_id": 1}] * 2), "$[0].event_history[1]"),
        (document(stream_values=[VALUE, VALUE]), "$[0].stream_values[1]"),
        (document(stream_values=[{**VALUE, "offset": "0"}]), "$[0].stream_values[0].offset"),
        (document(messages=[MESSAGE, MESSAGE]), "$[0].messages[1]"),
        (document(messages=[{**MESSAGE, "message": None}]), "$[0].messages[0].message"),
        (document(appends=["a", "a"]), "$[0].appends[1]"),
        (document(appends=[""]), "$[0].appends[0]"),
    ],
)
def test_what_is_wrong_is_named_with_the_way_to_it(given: Any, path: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        archives_of([given])
    assert caught.value.path == path
    assert path in str(caught.value)
    with pytest.raises(InvalidDocument) as caught:
        archives_of([document("other"), given])
    assert caught.value.path == path.replace("$[0]", "$[1]")


@pytest.mark.parametrize(
    ("second", "path"),
    [
        (document(), "$[1].workflow.workflow_id"),
        (
            document("b", workflow={"deduplication_id": "d", "queue_name": "q"}),
            "$[1].workflow.deduplication_id",
        ),
        (document("b", messages=[MESSAGE]), "$[1].messages"),
    ],
)
def test_documents_must_not_stand_in_each_others_way(second: Any, path: str) -> None:
    first = document(workflow={"deduplication_id": "d", "queue_name": "q"}, messages=[MESSAGE])
    with pytest.raises(InvalidDocument, match="stands twice") as caught:
        archives_of([first, second])
    assert caught.value.path.startswith(path.removesuffix(".messages"))


def test_a_document_of_another_version_says_so() -> None:
    with pytest.raises(InvalidDocument, match="another version of the library"):
        archives_of([{**document(), "version": 2}])


@pytest.mark.parametrize("state", sorted(set(WorkflowState) - ACTIVE))
def test_what_has_ended_arrives_as_it_is(state: WorkflowState) -> None:
    ended = record(state, queue_name=None, started_at_ms=3, attempts=4)
    assert arrived(ended) == ended


@pytest.mark.parametrize(
    ("queue", "expected"),
    [("q", "q"), (None, INTERNAL_QUEUE), ("", INTERNAL_QUEUE), (FOREIGN_INTERNAL_QUEUE,) * 2],
)
def test_who_was_running_waits_again(queue: str | None, expected: str) -> None:
    expected = INTERNAL_QUEUE if expected == FOREIGN_INTERNAL_QUEUE else expected
    running = record("PENDING", queue_name=queue, started_at_ms=3, attempts=4)
    waiting = arrived(running)
    assert (waiting.state, waiting.queue_name) == ("ENQUEUED", expected)
    assert (waiting.started_at_ms, waiting.attempts) == (None, 4)
    delayed = msgspec.structs.replace(running, state="DELAYED", delay_until_ms=9)
    assert (arrived(delayed).state, arrived(delayed).delay_until_ms) == ("DELAYED", 9)
