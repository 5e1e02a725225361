"""Statements find their rows by an index, and what is claimed first is not sorted out of all."""

import re
import sqlite3
from collections.abc import Iterator

import pytest

from perdure.store.sql import Queries
from perdure.store.sqlite import schema

QUERIES = Queries("perdure.store.sqlite")
IN_FLIGHT = "USING INDEX idx_workflow_status_in_flight_v2 (queue_name=? AND status=?)"
COVERED = IN_FLIGHT.replace("USING", "USING COVERING")
BY_PARTITION = "INDEX idx_workflow_status_partition_dequeue_v3 (queue_name=? AND status=? AND "
IN_PARTITION = f"{BY_PARTITION}queue_partition_key=?)"
BY_DEADLINE = (
    "USING INDEX idx_workflow_status_deadline "
    "(workflow_deadline_epoch_ms>? AND workflow_deadline_epoch_ms<?)"
)
LOGGED = "USING PRIMARY KEY (queue_name=? AND started_at>?)"
LOGGED_IN_PARTITION = (
    "USING COVERING INDEX perdure_rate_log_partitions "
    "(queue_name=? AND partition_key=? AND started_at>?)"
)
RATE_LIMITED = (
    "USING INDEX idx_workflow_status_rate_limited (queue_name=? AND started_at_epoch_ms>?)"
)
BY_DEDUPLICATION_ID = (
    "USING INDEX uq_workflow_status_dedup_id (queue_name=? AND deduplication_id=?)"
)
AFTER_A_STEP = (
    "USING INDEX sqlite_autoindex_operation_outputs_1 (workflow_uuid=? AND function_id>?)"
)
BELOW_A_STEP = AFTER_A_STEP.replace(">", "<")
BY_STEP_END = (
    "USING INDEX idx_operation_outputs_completed_at_function_name_v2 "
    "(completed_at_epoch_ms>? AND completed_at_epoch_ms<?)"
)
BY_MESSAGE_ID = "USING INDEX sqlite_autoindex_notifications_1 (message_uuid=?)"
BY_TOPIC = "USING INDEX idx_workflow_topic (destination_uuid=? AND topic=?)"
BY_DESTINATION = "USING INDEX idx_workflow_topic (destination_uuid=?)"
BY_ORIGIN = "idx_workflow_status_forked_from (forked_from=?)"
BY_PARENT = "USING INDEX idx_workflow_status_parent_workflow_id (parent_workflow_id=?)"
BY_EVENT = "USING INDEX sqlite_autoindex_workflow_events_1 (workflow_uuid=? AND key=?)"
BY_STREAM = "USING INDEX sqlite_autoindex_streams_1 (workflow_uuid=? AND key=?)"
BY_APPEND = "USING PRIMARY KEY (workflow_id=? AND append_id=?)"
FROM_AN_ID = "USING COVERING INDEX sqlite_autoindex_{}_1 (workflow_uuid>?)"
BETWEEN_IDS = "USING INDEX sqlite_autoindex_{}_1 (workflow_uuid>? AND workflow_uuid<?)"
BY_END = "USING INDEX idx_workflow_status_completed_at (completed_at>? AND completed_at<?)"
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
        ("keyless_waiting", f"SEARCH w {IN_FLIGHT}"),
        ("count_steps", f"SEARCH s {BY_STEP_END}"),
        ("messages_of", f"SEARCH n {BY_DESTINATION}"),
        ("ready_queues", f"SEARCH w {IN_FLIGHT}"),
        (
            "due_workflows",
            "SEARCH w USING INDEX idx_workflow_status_delayed (delay_until_epoch_ms<?)",
        ),
        ("overdue_workflows", f"SEARCH w {BY_DEADLINE}"),
        (
            "next_sweep",
            "SEARCH w USING INDEX idx_workflow_status_delayed (delay_until_epoch_ms>?)",
        ),
        ("next_sweep", f"SEARCH w {BY_DEADLINE}"),
        ("enqueue_due", "SEARCH workflow_status USING INTEGER PRIMARY KEY (rowid=?)"),
        ("pending_of_queue", f"SEARCH w {COVERED}"),
        ("pending_of_partitions", f"SEARCH w USING COVERING {IN_PARTITION}"),
        ("partition_keys", f"SEARCH w USING COVERING {BY_PARTITION}queue_partition_key>?)"),
        ("partition_firsts", f"SEARCH w USING {IN_PARTITION}"),
        ("partition_firsts", "SEARCH first USING INTEGER PRIMARY KEY (rowid=?)"),
        ("partition_candidates", f"SEARCH w USING {IN_PARTITION}"),
        ("chosen_candidates", "SEARCH w USING INTEGER PRIMARY KEY (rowid=?)"),
        ("claims_of_queue", f"SEARCH l {LOGGED}"),
        ("claims_of_queue", f"SEARCH w {RATE_LIMITED}"),
        ("claims_of_partitions", f"SEARCH l {LOGGED_IN_PARTITION}"),
        ("claims_of_partitions", f"SEARCH w {RATE_LIMITED}"),
        ("latest_logged_claim", "SEARCH l USING PRIMARY KEY (queue_name=? AND started_at>?)"),
        ("prune_rate_log", "SEARCH l USING PRIMARY KEY (queue_name=? AND started_at<?)"),
        (
            "prune_rate_log",
            "SEARCH perdure_rate_log USING PRIMARY KEY (queue_name=? AND started_at=?)",
        ),
        ("descendants", f"SEARCH w {BY_PARENT}"),
        ("ancestors", f"SEARCH w {BY_ID}"),
        ("steps_page", f"SEARCH s {AFTER_A_STEP}"),
        ("running_by_executor", f"SEARCH w {IN_FLIGHT}"),
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
        (
            "standing_messages",
            f"SEARCH notifications {BY_MESSAGE_ID.replace('INDEX', 'COVERING INDEX')}",
        ),
        ("latest_message", f"SEARCH notifications {BY_TOPIC}"),
        ("oldest_message", f"SEARCH notifications {BY_TOPIC}"),
        ("topics_with_messages", f"SEARCH n {BY_TOPIC}"),
        ("consume_message", f"SEARCH notifications {BY_MESSAGE_ID}"),
        ("return_message", f"SEARCH notifications {BY_DESTINATION}"),
        ("forks", f"SEARCH w USING INDEX {BY_ORIGIN}"),
        ("events", f"SEARCH e {BY_EVENT}"),
        ("events_of", f"SEARCH e {BY_EVENT.replace(' AND key=?', '')}"),
        ("append", f"SEARCH s {BY_STREAM.replace('INDEX', 'COVERING INDEX')}"),
        ("stream_pages", f"SEARCH s {BY_STREAM.replace(')', ' AND offset>?)')}"),
        ("logged_appends", f"SEARCH perdure_stream_log {BY_APPEND}"),
        ("expired_horizon", f"SEARCH workflow_status {BY_END.replace('INDEX', 'COVERING INDEX')}"),
        ("expired_workflows", f"SEARCH w {BY_END}"),
        ("expired_workflows", f"SEARCH parent {BY_ID} LEFT-JOIN"),
        ("count_expired", f"SEARCH w {BY_END}"),
        ("kept_since", f"SEARCH w {BY_END.replace('completed_at>? AND ', '')}"),
        ("standing_runs", f"SEARCH workflow_status {BY_ID}"),
        ("standing_children", f"SEARCH workflow_status {BY_PARENT}"),
        ("resume", f"SEARCH workflow_status {BY_ID}"),
        ("set_delay", f"SEARCH workflow_status {BY_ID}"),
        ("set_attributes", f"SEARCH workflow_status {BY_ID}"),
        ("delete_workflows", f"SEARCH workflow_status {BY_ID}"),
        (
            "delete_steps",
            f"SEARCH operation_outputs {AFTER_A_STEP.replace(' AND function_id>?', '')}",
        ),
        ("delete_stream_log", "SEARCH perdure_stream_log USING PRIMARY KEY (workflow_id=?)"),
        ("fork_points", f"SEARCH named {AFTER_A_STEP.replace(' AND function_id>?', '')}"),
        ("fork_points", f"SEARCH standing {BY_ID} LEFT-JOIN"),
        ("insert_forks", f"SEARCH w {BY_ID}"),
        ("mark_forked", f"SEARCH workflow_status {BY_ID}"),
        ("copy_steps", f"SEARCH s {BELOW_A_STEP}"),
        (
            "copy_event_history",
            f"SEARCH h {BELOW_A_STEP.replace('operation_outputs', 'workflow_events_history')}",
        ),
        ("copy_streams", f"SEARCH s {BY_STREAM.replace(' AND key=?', '')}"),
        ("copy_stream_log", "SEARCH l USING PRIMARY KEY (workflow_id=?)"),
        ("delete_late_events", f"SEARCH workflow_events {BY_EVENT}"),
        ("delete_late_messages", f"SEARCH notifications {BY_DESTINATION}"),
        ("debounce_holder", f"SEARCH w {BY_DEDUPLICATION_ID}"),
        ("bounce", f"SEARCH workflow_status {BY_DEDUPLICATION_ID}"),
        ("workflows_from", f"SEARCH workflow_status {FROM_AN_ID.format('workflow_status')}"),
        ("steps_from", f"SEARCH operation_outputs {FROM_AN_ID.format('operation_outputs')}"),
        ("rename_workflows", f"SEARCH workflow_status {BETWEEN_IDS.format('workflow_status')}"),
        ("rename_steps", f"SEARCH operation_outputs {BETWEEN_IDS.format('operation_outputs')}"),
        ("orphaned_executors", "SCAN w USING INDEX idx_workflow_status_pending"),
        ("requeue_runs", "SCAN w USING INDEX idx_workflow_status_pending"),
        ("executor_has_runs", "SCAN workflow_status USING INDEX idx_workflow_status_pending"),
    ],
)
def test_rows_are_found_by_an_index(connection: sqlite3.Connection, query: str, step: str) -> None:
    # Newer libraries word a left join differently.
    steps = [found.replace(" LEFT-JOIN", "") for found in plan(connection, query)]
    assert step.replace(" LEFT-JOIN", "") in steps
