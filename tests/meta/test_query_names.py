"""Both stores have the same named queries, so that a reader can lay them side by side.

Where one does in a statement what takes the other several, the two sets stand here together with
the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure.store.sql import read_blocks


@dataclass(frozen=True)
class Counterparts:
    """Queries that only one store has, and what the other has in their place."""

    postgres: frozenset[str]
    sqlite: frozenset[str]
    reason: str


def counterparts(postgres: str, sqlite: str, reason: str) -> Counterparts:
    return Counterparts(frozenset(postgres.split()), frozenset(sqlite.split()), reason)


DIFFERENT = [
    counterparts(
        "start start_around start_children",
        "insert_workflow insert_input deduplication_holder held_lease",
        "a round trip is dear on Postgres, so a batch is one statement; SQLite has none, and no "
        "writing CTE either",
    ),
    counterparts(
        "record_around lease_stands",
        "owned_run",
        "Postgres fences each row inside the statement; SQLite checks a run once in a transaction "
        "nobody else can write in",
    ),
    counterparts(
        "finish_alone finish_over",
        "insert_output",
        "on Postgres a part of `finish`; SQLite has no writing CTE",
    ),
    counterparts(
        "claim",
        "claim_candidates claim_run",
        "on Postgres one statement that skips locked rows; in SQLite's transaction no row is "
        "locked by others",
    ),
    counterparts(
        "lock_queues queue_usage partition_heads partition_usage claim_shared",
        "pending_of_queue claims_of_queue partition_keys pending_of_partitions "
        "claims_of_partitions partition_firsts partition_candidates chosen_candidates "
        "latest_logged_claim log_claim prune_rate_log",
        "on Postgres each question is asked of all queues and partitions at once, and what is "
        "claimed, logged and forgotten is one statement; round trips cost nothing on SQLite",
    ),
    counterparts(
        "cancel_overdue",
        "overdue_workflows due_workflows",
        "what SQLite found in a transaction stays so until it is changed by other statements of it",
    ),
    counterparts(
        "lock_expired lock_ended_parents",
        "expired_horizon expired_workflows",
        "on Postgres ended rows and their parents are locked against whoever continues them; in "
        "SQLite's transaction nobody does",
    ),
    counterparts(
        "",
        "replace_inputs",
        "on Postgres a part of `bounce`; SQLite has no writing CTE",
    ),
    counterparts(
        "rename_registrations",
        "rename_queues rename_schedules rename_versions rename_leases workflows_from steps_from",
        "on Postgres one statement changes several tables, and finds how far it goes by itself; "
        "SQLite has no writing CTE",
    ),
    counterparts(
        "lock_queue insert_queue update_queue",
        "upsert_queue",
        "on Postgres a queue is locked as a row, and another process may insert it meanwhile",
    ),
    counterparts("announce", "", "who uses a SQLite file sees by itself who committed"),
    counterparts(
        "beat now",
        "renew_lease leases orphaned_executors ready_queues",
        "a heartbeat must be one round trip on Postgres; SQLite's clock is that of the process",
    ),
    counterparts(
        "lock_judged_lease lock_own_lease",
        "judged_lease",
        "a lease is locked as a row on Postgres; SQLite's transaction locks the whole file",
    ),
    counterparts(
        "take_lock record_lock",
        "recorded_locks",
        "on SQLite a lock on a file shows that the process lives; files of nobody are swept up",
    ),
    counterparts(
        "history",
        "",
        "Postgres reads short histories of many runs at once before it pages the long ones",
    ),
    counterparts(
        "",
        "latest_creation",
        "several calls on a file fit into a millisecond, and queues are served in their order",
    ),
    counterparts(
        "close_scopes",
        "delete_step return_message",
        "what a verdict brings with it is a part of the statement on Postgres",
    ),
    counterparts(
        "send send_alone send_to_forks",
        "standing_workflow forks latest_message insert_message",
        "a batch is one statement on Postgres; in SQLite's transaction each message is looked "
        "after alone, which costs no round trip",
    ),
    counterparts(
        "receive receive_alone",
        "oldest_message consume_message",
        "on Postgres one statement that skips locked messages; in SQLite's transaction none is",
    ),
    counterparts(
        "publish",
        "set_event insert_event_history",
        "a batch is one statement on Postgres; SQLite has no writing CTE",
    ),
    counterparts(
        "",
        "log_append workflow_state",
        "on Postgres parts of `append` and `stream_pages`; SQLite has neither writing CTEs nor "
        "LATERAL",
    ),
    counterparts(
        "merge_attributes",
        "attributes",
        "Postgres merges what it reads; the functions of SQLite drop a null that should stay",
    ),
]


def names(store: str) -> set[str]:
    return {block.name for block in read_blocks(f"perdure.store.{store}") if block.kind == "name"}


def test_each_query_has_its_counterpart_or_a_reason() -> None:
    postgres, sqlite = names("postgres"), names("sqlite")
    assert postgres - sqlite == set().union(*(each.postgres for each in DIFFERENT))
    assert sqlite - postgres == set().union(*(each.sqlite for each in DIFFERENT))
    assert all(each.reason for each in DIFFERENT)


def test_most_queries_are_shared() -> None:
    """Differences are exceptions: a new concern that differs throughout should be thought over."""
    postgres, sqlite = names("postgres"), names("sqlite")
    assert len(postgres & sqlite) >= len(postgres) / 2
