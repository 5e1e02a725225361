"""What Postgres would do for a query of the store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from perdure.store.postgres.database import BY_KEY, HOT, Database
from perdure.store.postgres.settings import PostgresSettings
from tests.support.database import MovableClock

QUERIES = Database(
    PostgresSettings(url="postgresql://", application_name="app"), MovableClock()
).queries

LARGE_TABLES = frozenset(
    {
        "workflow_status",
        "workflow_input",
        "workflow_output",
        "operation_outputs",
        "notifications",
        "workflow_events",
        "workflow_events_history",
        "streams",
        "rate_log",
        "stream_log",
    }
)


async def fill(url: str, workflows: int) -> None:
    """That many workflows with a step each; in a hundred, ten wait, two run, one is delayed.

    Half of them are in a queue with every limit, and there in fifty partitions with work.
    """
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            """
            INSERT INTO dbos.workflow_status (workflow_uuid, status, name, queue_name, owner_xid,
                executor_id, application_name, application_version, created_at,
                queue_partition_key, rate_limited, started_at_epoch_ms, completed_at,
                workflow_deadline_epoch_ms, delay_until_epoch_ms)
            SELECT 'wf-' || i, CASE WHEN i % 100 < 10 THEN 'ENQUEUED' WHEN i % 100 < 12 THEN
                'PENDING' WHEN i % 100 < 13 THEN 'DELAYED' ELSE 'SUCCESS' END, 'job',
                CASE WHEN i % 200 < 100 THEN 'line' ELSE 'narrow' END,
                'token', 'worker/boot-' || i % 7, 'app', 'v1', i,
                'key-' || lpad((i % 1000)::text, 3, '0'), i % 3 = 0, i, i,
                CASE WHEN i % 10 = 0 THEN 4102444800000 + i END,
                4102444800000 + i
            FROM generate_series(1, $1::int) i
            """,
            workflows,
        )
        await connection.execute(
            "INSERT INTO dbos.operation_outputs (workflow_uuid, function_id)"
            " SELECT workflow_uuid, 1 FROM dbos.workflow_status"
        )
        await connection.execute(
            "INSERT INTO dbos.queues (name, concurrency, rate_limit_max, rate_limit_period_sec,"
            " partition_concurrency, partition_rate_limit_max, partition_rate_limit_period_sec)"
            " VALUES ('narrow', 1000, 1000, 60, 10, 10, 60)"
        )
        await connection.execute("INSERT INTO dbos.queues (name) VALUES ('line')")
        await connection.execute(
            "INSERT INTO perdure.rate_log (queue_name, started_at, workflow_id, partition_key)"
            " SELECT queue_name, started_at_epoch_ms, workflow_uuid, queue_partition_key"
            " FROM dbos.workflow_status WHERE rate_limited"
        )
        await _fill_talk(connection)
        for table in ("workflow_input", "workflow_output"):
            await connection.execute(
                f"INSERT INTO dbos.{table} (workflow_uuid)"
                " SELECT workflow_uuid FROM dbos.workflow_status"
            )
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


async def _fill_talk(connection: asyncpg.Connection[Any]) -> None:
    """A message, an event and a stream value of each workflow."""
    await connection.execute(
        "INSERT INTO dbos.notifications (destination_uuid, topic, message, consumed)"
        " SELECT workflow_uuid, 'topic', 'm', created_at % 2 = 0 FROM dbos.workflow_status"
    )
    for table in ("workflow_events", "workflow_events_history", "streams"):
        columns = {"workflow_events_history": ", function_id", "streams": ', "offset"'}
        await connection.execute(
            f"INSERT INTO dbos.{table} (workflow_uuid, key, value{columns.get(table, '')})"
            f" SELECT workflow_uuid, 'key', 'v'{', 1' if table in columns else ''}"
            " FROM dbos.workflow_status"
        )
    await connection.execute(
        "INSERT INTO perdure.stream_log (workflow_id, append_id)"
        " SELECT workflow_uuid, 'a' FROM dbos.workflow_status"
    )


_CONDITIONS = {"Index Cond", "Recheck Cond", "TID Cond"}


@dataclass(frozen=True)
class Scan:
    """How one node reads a table: the kind of scan and the index, if there is one."""

    table: str
    kind: str
    index: str | None


class Plan:
    """One plan as the server shows it."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.nodes = list(_walk(root))

    def scans(self) -> list[Scan]:
        """Every reading of the tables that grow."""
        return [_scan(node) for node in self.nodes if _is_scan(node)]

    def unconditional(self) -> list[Scan]:
        """Those that are given nothing to look for: they read all there is."""
        return [
            _scan(node) for node in self.nodes if _is_scan(node) and not _CONDITIONS & node.keys()
        ]

    def parents_of(self, index: str) -> list[dict[str, Any]]:
        """The nodes right above the scans of an index."""
        return [
            node
            for node in self.nodes
            if any(child.get("Index Name") == index for child in node.get("Plans", []))
        ]

    def rows_read(self, index: str) -> float:
        """How many rows an executed plan took from the scans of an index."""
        return sum(
            node["Actual Rows"] * node["Actual Loops"]
            for node in self.nodes
            if node.get("Index Name") == index
        )


class Planner:
    """Plans queries as the store's sessions do."""

    def __init__(self, connection: asyncpg.Connection[Any]) -> None:
        self._connection = connection

    async def kept(self, query: str, kind: str | None = None) -> Plan:
        """The plan that a connection of a hot kind, or a reader, makes once for any parameters."""
        for parameter, value in (HOT[kind] if kind else BY_KEY).items():
            await self._connection.execute(f"SET {parameter} TO {value}")
        count = parameters(QUERIES[query])
        await self._connection.execute(f"PREPARE planned AS {QUERIES[query]}")
        shown = await self._connection.fetchval(
            f"EXPLAIN (FORMAT JSON) EXECUTE planned ({', '.join(['NULL'] * count)})"
        )
        await self._connection.execute("DEALLOCATE planned")
        return Plan(json.loads(shown)[0]["Plan"])

    async def made(self, query: str, arguments: Sequence[object]) -> Plan:
        """The plan for these parameters, as it is made each time."""
        return await self.composed(QUERIES[query], arguments)

    async def composed(self, text: str, arguments: Sequence[object]) -> Plan:
        """The same of a statement that is no named query."""
        await self._connection.execute("SET plan_cache_mode TO force_custom_plan")
        shown = await self._connection.fetchval(f"EXPLAIN (FORMAT JSON) {text}", *arguments)
        return Plan(json.loads(shown)[0]["Plan"])

    async def executed(self, query: str, kind: str, arguments: Sequence[object]) -> Plan:
        """The plan with what it did, undone."""
        await self._connection.execute("SET jit TO off")
        for parameter, value in HOT[kind].items():
            await self._connection.execute(f"SET {parameter} TO {value}")
        transaction = self._connection.transaction()
        await transaction.start()
        try:
            shown = await self._connection.fetchval(
                f"EXPLAIN (ANALYZE, FORMAT JSON) {QUERIES[query]}", *arguments
            )
        finally:
            await transaction.rollback()
        return Plan(json.loads(shown)[0]["Plan"])


def parameters(text: str) -> int:
    """How many parameters a statement has."""
    return max((int(number) for number in re.findall(r"\$(\d+)", text)), default=0)


def _is_scan(node: dict[str, Any]) -> bool:
    return node.get("Relation Name") in LARGE_TABLES and node["Node Type"] != "ModifyTable"


def _scan(node: dict[str, Any]) -> Scan:
    below = node.get("Plans", [{}])[0]
    index = node.get("Index Name") or below.get("Index Name")
    return Scan(node["Relation Name"], node["Node Type"], index)


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _walk(child)
