"""The one statement that is put together: values are parameters, whatever they hold."""

from __future__ import annotations

import pytest

from perdure.model.ids import WorkflowId
from perdure.model.status import WorkflowState
from perdure.model.workflow import WorkflowFilter
from perdure.store.compose import Dialect, list_workflows

DIALECT = Dialect(
    tables='"{odd} schema".',
    mark=lambda number: f"${number}",
    member="{column} = ANY({mark})",
    pack=list,
)
NASTY = "x' OR 1=1; -- {0} {tables} %_\\"


def wid(text: str) -> WorkflowId:
    return WorkflowId(text)


def test_nobody_elses_workflows_are_listed_without_being_named() -> None:
    composed = list_workflows(WorkflowFilter(), "app", DIALECT)
    assert "(w.application_name = $1 OR w.application_name IS NULL)" in composed.text
    assert composed.text.endswith("ORDER BY w.created_at ASC, w.workflow_uuid ASC LIMIT $3")
    assert composed.parameters == ("app", list(WorkflowState), 100)
    named = list_workflows(WorkflowFilter(ids=(wid("a"),)), "app", DIALECT)
    assert "application_name =" not in named.text
    assert named.parameters == (["a"], list(WorkflowState), 100)


@pytest.mark.parametrize(
    "wanted",
    [
        WorkflowFilter(ids=(wid(NASTY),)),
        WorkflowFilter(names=(NASTY,)),
        WorkflowFilter(queues=(NASTY,)),
        WorkflowFilter(parent=wid(NASTY)),
        WorkflowFilter(id_prefix=NASTY),
        WorkflowFilter(after=(5, wid(NASTY))),
    ],
)
def test_a_value_is_always_a_parameter(wanted: WorkflowFilter) -> None:
    composed = list_workflows(wanted, NASTY, DIALECT)
    assert NASTY not in composed.text
    assert '"{odd} schema".workflow_status w' in composed.text
    marks = [f"${number}" for number in range(1, len(composed.parameters) + 1)]
    assert all(composed.text.count(mark) == 1 for mark in marks)


def test_all_conditions_hold_together() -> None:
    composed = list_workflows(
        WorkflowFilter(
            states=(WorkflowState.ERROR, WorkflowState.PENDING),
            names=("job",),
            queues=("line",),
            parent=wid("p"),
            id_prefix="ab",
            newest_first=True,
            limit=7,
            after=(5, wid("z")),
        ),
        "app",
        DIALECT,
    )
    assert composed.text.count(" AND ") == 6
    assert "(w.created_at, w.workflow_uuid) < ($8, $9)" in composed.text
    assert composed.text.endswith("ORDER BY w.created_at DESC, w.workflow_uuid DESC LIMIT $10")
    assert composed.parameters == (
        "app",
        ["ERROR", "PENDING"],
        ["job"],
        ["line"],
        "p",
        2,
        "ab",
        5,
        "z",
        7,
    )


def test_payloads_are_read_only_when_asked_for() -> None:
    assert "workflow_input" not in list_workflows(WorkflowFilter(), "app", DIALECT).text
    composed = list_workflows(WorkflowFilter(with_payloads=True), "app", DIALECT)
    assert "COALESCE(o.error, w.error) AS error" in composed.text
    assert composed.text.count('"{odd} schema".') == 3
