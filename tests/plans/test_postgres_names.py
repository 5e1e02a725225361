"""Debounced workflows, steps that ended and messages are found by their keys, and a rename walks
along primary keys.
"""

from tests.plans.planner import Planner
from tests.plans.test_postgres_plans import DEDUPLICATION, DELAYED, IN_FLIGHT, LARGE, indexes

STATUS_KEY = "workflow_status_pkey"


@LARGE
async def test_a_bounce_finds_who_holds_the_key(planner: Planner) -> None:
    change = [10, "[]", "portable_json", 0, None, None, None, None]
    plan = await planner.made("bounce", ["line", "job-k", "job", "", "", "app", *change])
    assert indexes(plan) == {DEDUPLICATION}
    plan = await planner.made("debounce_holder", ["line", "job-k"])
    assert indexes(plan) == {DEDUPLICATION}


@LARGE
async def test_a_rename_walks_along_the_keys(planner: Planner) -> None:
    asked = ["old", "new", True, "wf-5", 100]
    plan = await planner.made("rename_workflows", asked)
    assert indexes(plan) == {STATUS_KEY}
    assert plan.unconditional() == []
    plan = await planner.made("rename_steps", asked)
    assert indexes(plan) == {"operation_outputs_pkey"}
    assert plan.unconditional() == []


@LARGE
async def test_what_waits_without_a_key_is_found_in_the_queue(planner: Planner) -> None:
    plan = await planner.made("keyless_waiting", ["line", "app"])
    assert indexes(plan) == {IN_FLIGHT, DELAYED}


@LARGE
async def test_steps_and_messages_are_found_where_they_are_counted_or_listed(
    planner: Planner,
) -> None:
    plan = await planner.made("count_steps", [5, 10, ["job"], "app", True, 60_000, 100])
    assert indexes(plan) == {"idx_operation_outputs_completed_at_function_name_v2"}
    plan = await planner.made("messages_of", ["wf-1", 100, True, "__null__topic__"])
    assert indexes(plan) == {"idx_workflow_topic"}
    assert plan.unconditional() == []
