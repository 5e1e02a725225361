"""The index that the documentation names for a condition of a listing is the one that serves it.

The questions are those of the benchmark, which says how long they take with a million workflows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from benchmarks.listing_questions import Asked, fill_postgres, questions
from perdure.api.filters import listing_of
from perdure.store import compose
from perdure.store.postgres.dialect import Dialect as PostgresDialect
from perdure.store.sqlite import schema
from perdure.store.sqlite.dialect import Dialect as SqliteDialect
from tests.plans.planner import Planner
from tests.support.database import apart, migrate
from tests.support.postgres import Databases

WORKFLOWS = 50_000
INDEXES = {
    "key": {"workflow_status_pkey"},
    "creation": {"workflow_status_created_at_index"},
    "start": {"idx_workflow_status_started_at"},
    "completion": {"idx_workflow_status_completed_at"},
    "parent": {"idx_workflow_status_parent_workflow_id"},
    "fork": {"idx_workflow_status_forked_from"},
    "schedule": {"idx_workflow_status_schedule_name"},
    "deduplication": {"uq_workflow_status_dedup_id"},
    "failures": {"idx_workflow_status_failed"},
    "pending": {"idx_workflow_status_pending"},
    "in flight": {
        "idx_workflow_status_in_flight_v2",
        "idx_workflow_status_pending",
        "idx_workflow_status_delayed",
    },
    "delayed": {"idx_workflow_status_delayed"},
    "attributes": {"idx_workflow_status_attributes"},
}
"""By the name that the documentation gives it."""

SQLITE_KEY = "sqlite_autoindex_workflow_status_1"


def served(place: int) -> list[Asked]:
    """The questions that an index of that store serves."""
    return [asked for asked in questions(WORKFLOWS) if asked.by[place] != "—"]


@pytest.fixture(scope="module")
def listing_url(postgres_databases: Databases) -> Iterator[str]:
    """A database of many workflows of every kind."""
    url = apart(postgres_databases.create())
    try:
        apart(migrate(url))
        apart(fill_postgres(url, WORKFLOWS))
        yield url
    finally:
        apart(postgres_databases.drop(url))


@pytest.fixture
async def planner(listing_url: str) -> AsyncIterator[Planner]:
    connection = await asyncpg.connect(listing_url, statement_cache_size=0)
    try:
        yield Planner(connection)
    finally:
        await connection.close()


async def test_postgres_goes_through_the_index_that_is_named(planner: Planner) -> None:
    dialect = PostgresDialect("dbos")
    for asked in served(0):
        composed = compose.list_workflows(listing_of(asked.options), "app", dialect)
        plan = await planner.composed(composed.text, composed.parameters)
        assert {scan.index for scan in plan.scans()} <= INDEXES[asked.by[0]], asked.words


async def test_payloads_are_looked_up_for_a_page_alone(planner: Planner) -> None:
    wanted = listing_of({"states": "ERROR", "with_inputs": True, "with_outputs": True})
    composed = compose.list_workflows(wanted, "app", PostgresDialect("dbos"))
    plan = await planner.composed(composed.text, composed.parameters)
    assert {scan.index for scan in plan.scans() if scan.table != "workflow_status"} <= {
        "workflow_input_pkey",
        "workflow_output_pkey",
        None,
    }
    assert INDEXES["failures"] <= {scan.index for scan in plan.scans()}


async def test_a_family_is_found_by_parents_and_keys(planner: Planner) -> None:
    for query, asked in {"descendants": ["wf-25001", 1001], "ancestors": ["wf-25010", 100]}.items():
        plan = await planner.made(query, asked)
        found = {scan.index for scan in plan.scans()}
        assert found <= INDEXES["key"] | INDEXES["parent"], query
        assert plan.unconditional() == [], query


def test_sqlite_goes_through_the_index_that_is_named() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrate(connection)
    for asked in served(1):
        composed = compose.list_workflows(listing_of(asked.options), "app", SqliteDialect())
        rows = connection.execute(f"EXPLAIN QUERY PLAN {composed.text}", composed.parameters)
        names = {SQLITE_KEY} if asked.by[1] == "key" else INDEXES[asked.by[1]]
        plan = "\n".join(row[3] for row in rows)
        assert any(name in plan for name in names), f"{asked.words}: {plan}"
        assert "SCAN w\n" not in f"{plan}\n", asked.words
    connection.close()
