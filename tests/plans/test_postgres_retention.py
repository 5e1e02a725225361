"""Removing what ended long ago goes along the index of ends, and scans nothing else."""

import pytest

from tests.plans.planner import Planner
from tests.plans.test_postgres_plans import COMPLETED, LARGE, indexes

ENDED = ["SUCCESS", "ERROR"]
BY_KEY = {"workflow_status_pkey"}


@LARGE
@pytest.mark.parametrize("names", [[], ["job"], ["another"]])
@pytest.mark.parametrize("before", [5_000, 1 << 50])
async def test_ended_rows_are_looked_at_in_the_order_of_their_ends(
    planner: Planner, names: list[str], before: int
) -> None:
    asked = ["app", before, ENDED, names]
    plans = {
        "lock_expired": await planner.made("lock_expired", [*asked, 0, 1000, 100]),
        "count_expired": await planner.made("count_expired", [*asked, 0, 1000]),
    }
    if not names:
        plans["kept_since"] = await planner.made("kept_since", [*asked, 100])
    for query, plan in plans.items():
        assert COMPLETED in indexes(plan), query
        assert indexes(plan) <= {COMPLETED, *BY_KEY}, query
        assert plan.unconditional() == [], query


@LARGE
async def test_parents_are_found_by_keys(planner: Planner) -> None:
    ids = [f"wf-{number}" for number in range(1, 101)]
    plan = await planner.made("lock_ended_parents", [ids, 5_000])
    assert indexes(plan) == BY_KEY
    assert plan.unconditional() == []
