"""Who owned which workflow when: a log that triggers of the database itself keep.

An entry is written in the transaction that changes the row, of an ending as its last act: a claim
that makes use of a freed slot therefore stands after the ending that freed it, and entries in their
order show how many were PENDING at each moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.support.backdoor import Backdoor

POSTGRES = (
    "CREATE SCHEMA watch",
    """
    CREATE TABLE watch.ownership (
        place bigserial PRIMARY KEY, begins boolean, workflow_id text, queue text,
        partition_key text, executor_id text, started_at_ms bigint, state text,
        at_ms bigint DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    )
    """,
    *(
        f"""
        CREATE FUNCTION watch.note_{word}() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO watch.ownership
                (begins, workflow_id, queue, partition_key, executor_id, started_at_ms, state)
            VALUES ({begins}, {row}.workflow_uuid, {row}.queue_name, {row}.queue_partition_key,
                {row}.executor_id, {row}.started_at_epoch_ms, NEW.status);
            RETURN NULL;
        END $$;
        CREATE {kind} TRIGGER watch_{word} AFTER UPDATE ON workflow_status {when} FOR EACH ROW
        WHEN ({row}.status = 'PENDING'
            AND (OLD.status, OLD.owner_xid) IS DISTINCT FROM (NEW.status, NEW.owner_xid))
        EXECUTE FUNCTION watch.note_{word}()
        """
        # Until it is committed an ending frees nothing.
        for word, row, begins, kind, when in (
            ("end", "OLD", "false", "CONSTRAINT", "DEFERRABLE INITIALLY DEFERRED"),
            ("begin", "NEW", "true", "", ""),
        )
    ),
)
SQLITE = (
    """
    CREATE TABLE ownership (
        place integer PRIMARY KEY AUTOINCREMENT, begins integer, workflow_id text, queue text,
        partition_key text, executor_id text, started_at_ms integer, state text,
        at_ms integer DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS integer))
    )
    """,
    *(
        f"""
        CREATE TRIGGER watch_{word} AFTER UPDATE ON workflow_status
        WHEN {row}.status = 'PENDING'
            AND (OLD.status <> NEW.status OR OLD.owner_xid IS NOT NEW.owner_xid)
        BEGIN
            INSERT INTO ownership
                (begins, workflow_id, queue, partition_key, executor_id, started_at_ms, state)
            VALUES ({begins}, {row}.workflow_uuid, {row}.queue_name, {row}.queue_partition_key,
                {row}.executor_id, {row}.started_at_epoch_ms, NEW.status);
        END
        """
        # What SQLite fires first is not defined; a claim of a row that is owned never happens.
        for word, row, begins in (("end", "OLD", 0), ("begin", "NEW", 1))
    ),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A workflow that began, or ceased, to be owned; `state` is the one it has from then on."""

    begins: bool
    workflow_id: str
    queue: str | None
    partition_key: str | None
    executor_id: str
    started_at_ms: int | None
    state: str
    at_ms: int


class Ownership:
    """The log of one database."""

    def __init__(self, backdoor: Backdoor, table: str) -> None:
        self._backdoor = backdoor
        self._table = table

    async def entries(self, queue: str | None = None) -> list[Entry]:
        """What happened so far in that queue, or anywhere."""
        rows = await self._backdoor.rows(
            "SELECT begins, workflow_id, queue, partition_key, executor_id, started_at_ms, state,"
            f" at_ms FROM {self._table} WHERE queue = ? OR CAST(? AS text) IS NULL ORDER BY place",
            queue,
            queue,
        )
        return [Entry(**{**row, "begins": bool(row["begins"])}) for row in rows]

    async def starts_ms(self, queue: str) -> list[int]:
        """When each claim from the queue was made, in order."""
        entries = await self.entries(queue)
        return sorted(each.started_at_ms or 0 for each in entries if each.begins)

    async def claims(self, queue: str) -> Counter[str]:
        """How often each workflow was claimed from the queue."""
        return Counter(each.workflow_id for each in await self.entries(queue) if each.begins)


@asynccontextmanager
async def watched_ownership(backdoor: Backdoor, kind: str) -> AsyncIterator[Ownership]:
    """The log of a database from now on; its triggers are gone afterwards."""
    for statement in POSTGRES if kind == "postgres" else SQLITE:
        await backdoor.run(statement)
    try:
        yield Ownership(backdoor, "watch.ownership" if kind == "postgres" else "ownership")
    finally:
        if kind == "postgres":
            # One lock at a time: who still writes holds the shared table's and wants the log's.
            for word in ("begin", "end"):
                await backdoor.run(f"DROP TRIGGER watch_{word} ON workflow_status")
            await backdoor.run("DROP SCHEMA watch CASCADE")


def peak(
    entries: list[Entry], group: Callable[[Entry], Hashable] = lambda each: each.queue
) -> dict[Hashable, int]:
    """The most that were owned at one moment, in each group."""
    owned: Counter[Hashable] = Counter()
    most: Counter[Hashable] = Counter()
    for each in entries:
        key = group(each)
        owned[key] += 1 if each.begins else -1
        most[key] = max(most[key], owned[key])
    return dict(most)


def most_in_window(starts_ms: list[int], window_ms: int) -> int:
    """The most claims in any window of that length, wherever it begins."""
    return max(
        sum(start <= other < start + window_ms for other in starts_ms) for start in starts_ms
    )
