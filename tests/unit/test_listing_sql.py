"""The statements that are put together: values are parameters, whatever they hold."""

from __future__ import annotations

import re
from typing import Any

import pytest

from perdure.model.ids import WorkflowId
from perdure.model.listing import CountKey, CountRequest, Cursor, ListingRequest, Window
from perdure.model.status import WorkflowState
from perdure.store import compose
from perdure.store.postgres.dialect import Dialect as PostgresDialect
from perdure.store.sqlite.dialect import Dialect as SqliteDialect

DIALECTS = [PostgresDialect('{odd} schema"'), SqliteDialect()]
NASTY = "x' OR 1=1; -- {0} {tables} %_\\ $1 ?1"
FIELDS: dict[str, Any] = {
    **dict.fromkeys(
        (
            *("ids", "id_prefixes", "applications", "names", "class_names", "config_names"),
            *("versions", "executors", "users", "queues", "schedules", "dedup_ids", "parents"),
            "forked_from",
        ),
        (NASTY, f"{NASTY}2"),
    ),
    "queued": True,
    "states": (WorkflowState.ERROR, WorkflowState.DELAYED),
    **dict.fromkeys(("is_debounced", "has_parent", "is_fork", "was_forked_from"), True),
    **dict.fromkeys(("created", "started", "completed"), Window(11, 22)),
    "attributes": f'{{"{NASTY.replace(chr(92), "")}": ["{NASTY.replace(chr(92), "")}"]}}',
}
PAGE: dict[str, Any] = {
    "newest_first": True,
    "limit": 77,
    "after": Cursor(33, WorkflowId(NASTY)),
    "with_inputs": True,
    "with_outputs": True,
}


def numbers(text: str) -> list[int]:
    """The numbers of the parameters that a statement names."""
    return [int(number) for number in re.findall(r"[$?](\d+)", text)]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("field", [*FIELDS, *PAGE])
def test_a_value_is_always_a_parameter(dialect: compose.Dialect, field: str) -> None:
    value = (FIELDS | PAGE)[field]
    composed = compose.list_workflows(ListingRequest(**{field: value}), NASTY, dialect)
    assert "OR 1=1" not in composed.text
    assert "{" not in composed.text.replace(dialect.tables, "")
    assert sorted(numbers(composed.text)) == list(range(1, len(composed.parameters) + 1))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_all_conditions_hold_together(dialect: compose.Dialect) -> None:
    listed = compose.list_workflows(ListingRequest(**FIELDS, **PAGE), "app", dialect)
    counted = compose.count_workflows(CountRequest(**FIELDS, by=tuple(CountKey)), "app", dialect)
    assert set(numbers(listed.text)) == set(range(1, len(listed.parameters) + 1))
    assert set(numbers(counted.text)) == set(range(1, len(counted.parameters) + 1))
    alone = [
        compose.list_workflows(ListingRequest(**{field: value}), None, dialect)
        for field, value in FIELDS.items()
    ]
    for composed in (listed, counted):
        kept = [str(parameter) for parameter in composed.parameters]
        for each in alone:
            assert set(map(str, each.parameters)) - {"100"} <= set(kept)


def test_each_kind_of_failure_is_looked_for_by_itself() -> None:
    states = (WorkflowState.ERROR, WorkflowState.CANCELLED, WorkflowState.ERROR)
    text = compose.list_workflows(ListingRequest(states=states), "app", DIALECTS[1]).text
    assert text.count("UNION ALL") == 1
    assert text.count("w.status = 'ERROR' AND w.status IN ('ERROR', 'CANCELLED', 'MAX_") == 1
    mixed = (WorkflowState.ERROR, WorkflowState.SUCCESS)
    assert (
        "UNION" not in compose.list_workflows(ListingRequest(states=mixed), "a", DIALECTS[1]).text
    )


def test_payloads_are_read_only_when_asked_for_and_of_the_page_alone() -> None:
    dialect = DIALECTS[0]
    assert "workflow_input" not in compose.list_workflows(ListingRequest(), "app", dialect).text
    text = compose.list_workflows(ListingRequest(with_outputs=True), "app", dialect).text
    assert "workflow_input" not in text
    assert text.index("LIMIT $2") < text.index("workflow_output")


def test_an_application_without_a_name_is_everybody() -> None:
    text = compose.list_workflows(ListingRequest(), None, DIALECTS[0]).text
    assert "application_name =" not in text
