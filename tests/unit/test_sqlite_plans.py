"""Statements find their rows by an index, and what is claimed first is not sorted out of all."""

import re
import sqlite3
from collections.abc import Iterator

import pytest

from perdure.store.sql import Queries
from perdure.store.sqlite import schema

QUERIES = Queries("perdure.store.sqlite")
IN_FLIGHT = "USING INDEX idx_workflow_status_in_flight_v2 (queue_name=? AND status=?)"
BY_DEDUPLICATION_ID = (
    "USING INDEX uq_workflow_status_dedup_id (queue_name=? AND deduplication_id=?)"
)
AFTER_A_STEP = (
    "USING INDEX sqlite_autoindex_operation_outputs_1 (workflow_uuid=? AND function_id>?)"
)
BY_ID = "USING INDEX sqlite_autoindex_workflow_status_1 (workflow_uuid=?)"


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrate(made)
    yield made
    made.close()


def plan(connection: sqlite3.Connection, query: str) -> list[str]:
    """What SQLite says it would do."""
    text = QUERIES[query]
    parameters: dict[str, object] | list[object] = dict.fromkeys(re.findall(r":(\w+)", text), "[]")
    if not parameters:
        parameters = [None] * max(int(number) for number in re.findall(r"\?(\d+)", f"{text} ?0"))
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", parameters)]


@pytest.mark.parametrize("query", sorted(QUERIES))
def test_every_statement_is_one_that_sqlite_understands(
    connection: sqlite3.Connection, query: str
) -> None:
    assert isinstance(plan(connection, query), list)


@pytest.mark.parametrize(
    ("query", "step"),
    [
        ("claim_candidates", f"SEARCH w {IN_FLIGHT}"),
        ("claim_candidates", "USE TEMP B-TREE FOR RIGHT PART OF ORDER BY"),
        ("queues_at_a_glance", f"SEARCH w {IN_FLIGHT}"),
        ("queues_at_a_glance", "SCAN w USING INDEX idx_workflow_status_delayed"),
        (
            "enqueue_due",
            "SEARCH w USING INDEX idx_workflow_status_delayed (delay_until_epoch_ms<?)",
        ),
        ("claim_run", f"SEARCH workflow_status {BY_ID}"),
        ("record", f"SEARCH workflow_status {BY_ID}"),
        ("finish", f"SEARCH workflow_status {BY_ID}"),
        ("release", f"SEARCH workflow_status {BY_ID}"),
        ("cancel", f"SEARCH workflow_status {BY_ID}"),
        ("lost_runs", f"SEARCH w {BY_ID}"),
        ("settled", f"SEARCH w {BY_ID} LEFT-JOIN"),
        (
            "deduplication_holder",
            f"SEARCH workflow_status {BY_DEDUPLICATION_ID}",
        ),
        (
            "history_page",
            f"SEARCH operation_outputs {AFTER_A_STEP}",
        ),
        ("orphaned_executors", "SCAN w USING INDEX idx_workflow_status_pending"),
        ("requeue_runs", "SCAN w USING INDEX idx_workflow_status_pending"),
        ("executor_has_runs", "SCAN workflow_status USING INDEX idx_workflow_status_pending"),
    ],
)
def test_rows_are_found_by_an_index(connection: sqlite3.Connection, query: str, step: str) -> None:
    # Newer libraries word a left join differently.
    steps = [found.replace(" LEFT-JOIN", "") for found in plan(connection, query)]
    assert step.replace(" LEFT-JOIN", "") in steps
