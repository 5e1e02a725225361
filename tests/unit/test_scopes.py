"""What scopes record about themselves: written as text, read back, and when it is void."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.logic.scopes import BY_TIME, NOBODY, Opening, Verdict, decoded, encoded
from perdure.model.ids import StepId, WorkflowId
from perdure.model.workflow import StepRow

IDS = st.integers(1, 2**31 - 1)


def row(output: str | None) -> StepRow:
    """A step row with that output."""
    return StepRow(
        workflow_id=WorkflowId("w"),
        step_id=StepId(1),
        name="Perdure.select",
        output=output,
        error=None,
        child_workflow_id=None,
        started_at_ms=1,
        completed_at_ms=1,
        serialization="portable_json",
    )


@given(st.integers(0, 10**6), st.none() | st.integers(0, 2**53))
def test_an_open_row_reads_as_it_was_written(branches: int, until_ms: int | None) -> None:
    opening = Opening(branches, until_ms)
    assert decoded(row(encoded(opening)), Opening) == opening


@given(st.integers(NOBODY, 10**6), st.none() | IDS, IDS)
def test_a_verdict_reads_as_it_was_written(branch: int, highest: int | None, next_id: int) -> None:
    verdict = Verdict(branch, highest, next_id)
    assert decoded(row(encoded(verdict)), Verdict) == verdict


def test_the_texts_are_plain_json() -> None:
    """Anybody can read them; what is not there is left out of an open row."""
    assert json.loads(encoded(Opening(2))) == {"branches": 2}
    assert json.loads(encoded(Opening(0, 7))) == {"branches": 0, "until_ms": 7}
    assert json.loads(encoded(Verdict(BY_TIME, None, 4))) == {
        "branch": -1,
        "highest": None,
        "next_id": 4,
    }


@pytest.mark.parametrize("output", [None, "", "null", "{", '"text"', '{"branches": "two"}'])
def test_what_is_no_row_of_a_scope_reads_as_none(output: str | None) -> None:
    assert decoded(row(output), Opening) is None
    assert decoded(row(output), Verdict) is None


def test_a_verdict_is_void_where_its_ground_is_missing() -> None:
    """It rests on the highest record of the branch that decided; on nothing if there was none."""
    assert not Verdict(0, 5, 6).is_void({StepId(5)})
    assert Verdict(0, 5, 6).is_void({StepId(4)})
    assert not Verdict(BY_TIME, None, 6).is_void(())
    assert Verdict(NOBODY, None, 0).is_void({StepId(5)})
