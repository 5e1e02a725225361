"""What is exported of a workflow, or stands against an import, is found by keys."""

from __future__ import annotations

import json

from perdure.store.archives import PARTS
from perdure.store.postgres.batch import packed_list
from tests.plans.planner import Planner
from tests.plans.test_postgres_plans import (
    DEDUPLICATION,
    EVENTS,
    KEYS,
    LARGE,
    MESSAGES,
    STREAMS,
    indexes,
)

PARENT = "idx_workflow_status_parent_workflow_id"


@LARGE
async def test_what_is_exported_and_what_stands_in_the_way_is_found_by_keys(
    planner: Planner,
) -> None:
    ids = packed_list([f"wf-{number}" for number in range(1, 11)])
    given = json.dumps([{"workflow_id": "w", "queue_name": "q", "deduplication_id": "d"}])
    exports = ["exported_workflows", "exported_appends", "creators", "child_ids"]
    exports += [f"exported_{part}" for part in PARTS]
    plans = {query: await planner.made(query, ids) for query in exports}
    for query in ("deduplication_obstacle", "message_obstacle"):
        plans[query] = await planner.made(query, [given])
    for query, plan in plans.items():
        known = KEYS | MESSAGES | EVENTS | STREAMS | {PARENT, DEDUPLICATION}
        assert indexes(plan) <= known, query
        assert plan.unconditional() == [], query
