"""Statements find their rows by an index at any size of a table, and no backlog is sorted.

Plans of hot statements are made once and kept while tables grow, so they must be right for an
empty table too.
"""

from __future__ import annotations

import asyncpg
import pytest

from perdure.store.commands import DELETIONS
from perdure.store.forks import COPIES, CUTS
from perdure.store.postgres.batch import packed, packed_list, packed_numbers
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
DEADLINE = "idx_workflow_status_deadline"
COMPLETED = "idx_workflow_status_completed_at"
PARENT = "idx_workflow_status_parent_workflow_id"
PARTITIONS = "idx_workflow_status_partition_dequeue_v3"
RATE_LIMITED = "idx_workflow_status_rate_limited"
LOG = {"rate_log_pkey", "rate_log_partitions"}
TAKEN = {"workflow_status_pkey", "workflow_input_pkey", "operation_outputs_pkey"}


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
        ("finish_alone", "finish"),
        ("finish_over", "finish"),
    ],
)
async def test_the_fence_and_what_it_guards_go_through_primary_keys(
    planner: Planner, query: str, kind: str
) -> None:
    plan = await planner.kept(query, kind)
    assert indexes(plan) - KEYS <= ({CREATION} if kind == "start" else set())
    assert plan.unconditional() == []


MESSAGES = {"idx_workflow_topic", "notifications_pkey"}
FORKS = "idx_workflow_status_forked_from"
EVENTS = {"workflow_events_pkey", "workflow_events_history_pkey"}
STREAMS = {"streams_pkey", "stream_log_pkey"}


@pytest.mark.parametrize(
    ("query", "kind", "keys"),
    [
        ("send", "send", MESSAGES),
        ("send_alone", "send", MESSAGES),
        ("send_to_forks", "send", {*MESSAGES, FORKS}),
        ("standing_messages", "send", MESSAGES),
        ("receive", "receive", MESSAGES),
        # What is consumed is changed where it stands.
        ("receive_alone", "receive", MESSAGES),
        ("publish", "publish", EVENTS),
        ("append", "append", STREAMS),
        ("logged_appends", "append", STREAMS),
        # What is deleted or changed is named by where it stands.
        ("close_scopes", "record", {*MESSAGES, None}),
    ],
)
async def test_what_workflows_say_goes_through_keys(
    planner: Planner, query: str, kind: str, keys: set[str | None]
) -> None:
    plan = await planner.kept(query, kind)
    assert indexes(plan) <= KEYS | keys
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
    assert indexes(plan) == {*TAKEN, IN_FLIGHT}
    assert plan.unconditional() == []
    assert presorted(plan) == [2]


async def test_a_claim_under_a_lock_takes_the_order_of_its_indexes(planner: Planner) -> None:
    plan = await planner.kept("claim_shared", "claim_shared")
    # What is forgotten of the log is deleted where it stands.
    assert indexes(plan) == {*TAKEN, IN_FLIGHT, PARTITIONS, "rate_log_pkey", None}
    assert plan.unconditional() == []
    # Once to choose, once to take. The index of partitions has all of the order.
    assert presorted(plan) == [2, 2]
    above = {node["Node Type"] for node in plan.parents_of(PARTITIONS)}
    assert above == {"Limit", "LockRows"}


async def test_what_uses_limits_up_is_counted_in_indexes(planner: Planner) -> None:
    plan = await planner.kept("queue_usage", "claim_shared")
    assert indexes(plan) == {IN_FLIGHT, RATE_LIMITED, "rate_log_pkey"}
    assert plan.unconditional() == []
    for query in ("partition_heads", "partition_usage"):
        plan = await planner.kept(query, "claim_shared")
        assert indexes(plan) == {PARTITIONS, RATE_LIMITED, *LOG}, query
        assert plan.unconditional() == []


async def test_a_heartbeat_looks_at_the_beginnings_of_indexes(planner: Planner) -> None:
    plan = await planner.kept("beat", "record")
    assert indexes(plan) == {PENDING, IN_FLIGHT, DELAYED, DEADLINE}


def presorted(plan: Plan) -> list[int]:
    """How many keys the index of a queue's order gives to each sort of its rows."""
    above = plan.parents_of(IN_FLIGHT)
    assert {node["Node Type"] for node in above} == {"Incremental Sort"}
    return [len(node["Presorted Key"]) for node in above]


@LARGE
async def test_reads_of_a_large_table_go_through_keys(planner: Planner) -> None:
    ids = [f"wf-{number}" for number in range(1, 11)]
    plans = {
        "standing_outcomes": await planner.made("standing_outcomes", packed_list(ids)),
        "cancel": await planner.made("cancel", [*packed_list(ids), 0]),
    }
    for query, plan in plans.items():
        assert indexes(plan) <= KEYS, query


@pytest.mark.parametrize(
    "query",
    [
        "settled",
        "lost_runs",
        "history",
        "history_page",
        "topics_with_messages",
        "events",
        "stream_pages",
    ],
)
async def test_whoever_waits_or_goes_on_looks_at_keys(planner: Planner, query: str) -> None:
    plan = await planner.kept(query)
    assert indexes(plan) <= KEYS | MESSAGES | EVENTS | STREAMS
    assert plan.unconditional() == []


@LARGE
async def test_all_events_of_a_workflow_are_found_by_keys(planner: Planner) -> None:
    plan = await planner.made("events_of", ["wf-1"])
    assert indexes(plan) <= EVENTS
    assert plan.unconditional() == []


@LARGE
async def test_what_a_command_is_about_is_found_by_keys(planner: Planner) -> None:
    ids = packed_list([f"wf-{number}" for number in range(1, 11)])
    plans = {
        "standing_runs": await planner.made("standing_runs", ids),
        "standing_children": await planner.made("standing_children", ids),
        "resume": await planner.made("resume", [*ids, 0, "queue"]),
        "set_delay": await planner.made("set_delay", [*ids, 0, 1, None]),
        "set_attributes": await planner.made("set_attributes", ["wf-1", "{}", 0]),
        "merge_attributes": await planner.made("merge_attributes", ["wf-1", "{}", 0]),
        **{query: await planner.made(query, ids) for query in DELETIONS},
    }
    for query, plan in plans.items():
        assert indexes(plan) <= KEYS | {PARENT, "stream_log_pkey"}, query
        assert plan.unconditional() == [], query


@LARGE
async def test_what_is_copied_or_cut_is_found_by_keys(planner: Planner) -> None:
    forks = packed([(f"wf-{number}", f"fork-{number}", 1) for number in range(1, 11)], {2})
    points = packed([(f"wf-{number}", f"fork-{number}", None, None, "failed") for number in (1, 2)])
    run = ["wf-1", 1]
    plans = {
        "fork_points": await planner.made("fork_points", [*points, "sleep", ["recv"]]),
        "insert_forks": await planner.made(
            "insert_forks", [*forks, "queue", None, None, None, "app", 0]
        ),
        "insert_fork_inputs": await planner.made("insert_fork_inputs", [*forks, 0]),
        "mark_forked": await planner.made("mark_forked", packed_list(["wf-1", "wf-2"])),
        "copy_steps": await planner.made("copy_steps", [*forks, "a", "b", "c", 0]),
        "reopen_streams": await planner.made("reopen_streams", [*run, "closed", "json"]),
        "rewind": await planner.made("rewind", ["wf-1", "queue", None, None, "token", 0]),
        **{query: await planner.made(query, forks) for query in COPIES},
        **{query: await planner.made(query, run) for query in CUTS},
    }
    for query, plan in plans.items():
        assert indexes(plan) <= KEYS | MESSAGES | EVENTS | STREAMS | {CREATION}, query
        assert [scan for scan in plan.unconditional() if scan.index != CREATION] == [], query


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
async def test_a_sweep_looks_at_the_beginnings_of_indexes(planner: Planner) -> None:
    now = 4102444800000
    plans = {
        DEADLINE: await planner.made("cancel_overdue", ["app", now, 10]),
        DELAYED: await planner.made("enqueue_due", ["app", now, 10]),
    }
    for index, plan in plans.items():
        assert indexes(plan) == {index, "workflow_status_pkey"}
        assert plan.unconditional() == []
    plan = await planner.made("next_sweep", ["app", now])
    assert indexes(plan) == {DEADLINE, DELAYED}


@LARGE
async def test_what_stands_around_a_workflow_is_found_in_indexes(planner: Planner) -> None:
    place = [0, 100, "wf-100", 1000]
    plans = {
        "workflow": (["wf-1"], {"workflow_status_pkey"}),
        "ahead_in_queue": (["app", "line", *place], {IN_FLIGHT}),
        "running_by_executor": (["app", "line", None], {IN_FLIGHT, PENDING}),
        "queue_depths": (
            [["line", "narrow"], "app", 60_000, 0],
            {IN_FLIGHT, DELAYED, COMPLETED, PENDING},
        ),
    }
    for query, (arguments, allowed) in plans.items():
        plan = await planner.made(query, arguments)
        assert indexes(plan) <= allowed, query


def claiming(queues: list[str]) -> list[object]:
    """The first parameters of a claim."""
    who: list[object] = ["boot-claims", "worker/boot-claims", queues]
    return [*who, ["job"], [""], [""], "v1", "app", 0, "token"]


@LARGE
async def test_a_claim_reads_no_more_of_a_backlog_than_it_takes(
    planner: Planner, sized_url: str
) -> None:
    await lease(sized_url, "boot-claims")
    plan = await planner.executed("claim", "claim", [*claiming(["line", "other"]), "{10,10}", []])
    # A sort looks a little ahead.
    assert 10 <= plan.rows_read(IN_FLIGHT) <= 100


@LARGE
async def test_a_claim_under_a_lock_reads_no_more_than_it_may_take(
    planner: Planner, sized_url: str
) -> None:
    await lease(sized_url, "boot-claims")
    asked = claiming(["narrow"])
    plan = await planner.executed(
        "claim_shared", "claim_shared", [*asked, "{10}", ["narrow"], [None], "{10}", 10, 1000]
    )
    # Twice: once to choose, once to take.
    assert 20 <= plan.rows_read(IN_FLIGHT) <= 200
    keys = [f"key-{number}" for number in range(100, 110)]
    asked = claiming(["narrow"] * len(keys))
    each, totals = packed_numbers([3] * len(keys)), packed_numbers([5] * len(keys))
    plan = await planner.executed(
        "claim_shared",
        "claim_shared",
        [*asked, each, ["narrow"], keys, totals, 5, 1000],
    )
    # The first of each, of which five are enough.
    assert plan.rows_read(PARTITIONS) == len(keys) + 5


@LARGE
async def test_only_what_runs_is_counted(planner: Planner) -> None:
    arguments = [["narrow"], "app", 0]
    plan = await planner.executed("queue_usage", "claim_shared", arguments)
    # One in a hundred.
    assert plan.rows_read(IN_FLIGHT) == 200
    keys = ["key-110", "key-111"]
    arguments = [["narrow"] * 2, "app", 0, keys]
    plan = await planner.executed("partition_usage", "claim_shared", arguments)
    assert plan.rows_read(PARTITIONS) == 40


@LARGE
@pytest.mark.parametrize("after_key", ["", "key-500", "key-999"])
async def test_partitions_are_visited_without_reading_their_rows(
    planner: Planner, after_key: str
) -> None:
    visited = 20
    plan = await planner.executed(
        "partition_heads", "claim_shared", [["narrow"], "app", 0, [after_key], visited]
    )
    # One row for each partition visited, and none of the rows that nobody runs; each has one or
    # none PENDING.
    assert visited <= plan.rows_read(PARTITIONS) <= 3 * visited


async def lease(url: str, boot: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "INSERT INTO perdure.leases (boot_id, executor_id, application_name, renewed_at,"
            " expires_at, period_ms, created_at) VALUES ($1, $1, 'app', 0, 0, 0, 0)"
            " ON CONFLICT DO NOTHING",
            boot,
        )
    finally:
        await connection.close()
