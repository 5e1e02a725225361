"""Statements find their rows by an index at any size of a table, and no backlog is sorted.

Plans of hot statements are made once and kept while tables grow, so they must be right for an
empty table too.
"""

from __future__ import annotations

import asyncpg
import pytest

from perdure.store.postgres.batch import packed, packed_list
from tests.plans.planner import Plan, Planner

KEYS = {
    "workflow_status_pkey",
    "workflow_input_pkey",
    "workflow_output_pkey",
    "operation_outputs_pkey",
}
LARGE = pytest.mark.parametrize("sized_url", [20_000], indirect=True)
"""A small table is best read as a whole, and has no backlog."""

DEDUPLICATION = "uq_workflow_status_dedup_id"
IN_FLIGHT = "idx_workflow_status_in_flight_v2"
DELAYED = "idx_workflow_status_delayed"
CREATION = "workflow_status_created_at_index"
PENDING = "idx_workflow_status_pending"


def indexes(plan: Plan) -> set[str | None]:
    return {scan.index for scan in plan.scans()}


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("start", "start"),
        ("start_around", "start"),
        ("start_children", "start"),
        ("record", "record"),
        ("record_around", "record"),
        ("standing_steps", "record"),
        ("finish", "finish"),
        ("finish_over", "finish"),
    ],
)
async def test_the_fence_and_what_it_guards_go_through_primary_keys(
    planner: Planner, query: str, kind: str
) -> None:
    plan = await planner.kept(query, kind)
    assert indexes(plan) - KEYS <= ({CREATION} if kind == "start" else set())
    assert plan.unconditional() == []


async def test_what_stands_against_a_start_is_found_by_keys(planner: Planner) -> None:
    plan = await planner.kept("standing_workflows", "start")
    assert indexes(plan) == {
        "workflow_status_pkey",
        "operation_outputs_pkey",
        DEDUPLICATION,
    }
    assert plan.unconditional() == []


async def test_a_claim_takes_the_order_of_its_index(planner: Planner) -> None:
    plan = await planner.kept("claim", "claim")
    assert indexes(plan) == {
        "workflow_status_pkey",
        "workflow_input_pkey",
        IN_FLIGHT,
        DELAYED,
    }
    assert plan.unconditional() == []
    sorts = [(node["Node Type"], node.get("Presorted Key")) for node in plan.parents_of(IN_FLIGHT)]
    assert [kind for kind, _ in sorts] == ["Incremental Sort"] * 2
    assert all(keys is not None and len(keys) == 2 for _, keys in sorts)


async def test_a_heartbeat_looks_at_the_beginnings_of_indexes(planner: Planner) -> None:
    plan = await planner.kept("beat", "record")
    assert indexes(plan) == {PENDING, IN_FLIGHT, DELAYED}


@LARGE
async def test_reads_of_a_large_table_go_through_keys(planner: Planner) -> None:
    ids = [f"wf-{number}" for number in range(1, 11)]
    fences = packed([(workflow_id, "token") for workflow_id in ids])
    plans = {
        "settled": await planner.made("settled", packed_list(ids)),
        "lost_runs": await planner.made("lost_runs", fences),
        "standing_outcomes": await planner.made("standing_outcomes", packed_list(ids)),
        "cancel": await planner.made("cancel", [*packed_list(ids), 0]),
        "history": await planner.made("history", [*packed_list(ids), 100]),
        "history_page": await planner.made("history_page", ["wf-1", 0, 100]),
    }
    for query, plan in plans.items():
        assert indexes(plan) <= KEYS, query


@LARGE
async def test_runs_of_an_executor_are_found_among_those_under_way(planner: Planner) -> None:
    executor = "worker/boot-1"
    for query, arguments in {
        "owned_runs": [executor],
        "executor_has_runs": [executor],
        "requeue_runs": [executor, "app", 100, "internal", 0],
    }.items():
        plan = await planner.made(query, arguments)
        assert PENDING in indexes(plan), query
        assert indexes(plan) <= {PENDING, "workflow_status_pkey"}, query


@LARGE
async def test_a_claim_reads_no_more_of_a_backlog_than_it_takes(
    planner: Planner, sized_url: str
) -> None:
    await lease(sized_url, "boot-claims")
    arguments = ["boot-claims", "worker/boot-claims", ["line", "other"]]
    arguments += [["job"], [""], [""], "v1", "app", 0, "token", 10, True]
    plan = await planner.executed("claim", "claim", arguments)
    # Twice: once to share the limit among the queues, once to take. A sort looks a little ahead.
    assert 20 <= plan.rows_read(IN_FLIGHT) <= 200


async def lease(url: str, boot: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "INSERT INTO perdure.leases (boot_id, executor_id, application_name, renewed_at,"
            " expires_at, period_ms, created_at) VALUES ($1, $1, 'app', 0, 0, 0, 0)",
            boot,
        )
    finally:
        await connection.close()
