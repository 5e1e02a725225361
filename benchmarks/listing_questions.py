"""How long a page of a listing takes where there are many workflows.

`python -m benchmarks.listing_questions [--workflows N] [--store postgres|sqlite] [--keep]`

The workflows are made by one statement: mostly ended ones, a backlog among the newest, families,
forks, failures and attributes; one of a million is of a function of its own. Each question is asked
several times through a client; the shortest time is what a machine of its own comes to, the median
what this one did.
"""

import argparse
import asyncio
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg

from perdure import Client, Engine
from tests.support.postgres import PostgresServer, disk

RESULTS = Path(__file__).parent / "results" / "listing.md"
ROUNDS = 15
BEGIN_MS = 1_750_000_000_000
APART_MS = 100
TARGET_MS = 50

COLUMNS = (
    "workflow_uuid, status, name, class_name, queue_name, priority, deduplication_id, executor_id,"
    " application_name, application_version, created_at, updated_at, started_at_epoch_ms,"
    " completed_at, parent_workflow_id, forked_from, schedule_name, authenticated_user, attributes,"
    " recovery_attempts, serialization"
)

ROW = """
    'wf-' || i,
    CASE
        WHEN i > {n} - {n} / 100 THEN CASE i % 10
            WHEN 0 THEN 'PENDING' WHEN 1 THEN 'DELAYED' WHEN 2 THEN 'SUCCESS' ELSE 'ENQUEUED' END
        WHEN i % 100 = 7 THEN 'ERROR'
        WHEN i % 500 = 9 THEN 'CANCELLED'
        WHEN i % 5000 = 11 THEN 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'
        ELSE 'SUCCESS'
    END,
    CASE WHEN i = {n} / 2 THEN 'rare' ELSE 'job-' || (i % 50) END,
    'Shop',
    CASE WHEN i % 3 > 0 THEN 'queue-' || (i % 5) END,
    i % 4,
    CASE WHEN i > {n} - {n} / 1000 AND i % 3 > 0 THEN 'key-' || i END,
    'worker-' || (i % 7) || '/boot-' || (i / 10000),
    CASE WHEN i % 5 = 4 THEN 'other' ELSE 'app' END,
    'v' || (i * 5 / {n}),
    {begin} + i * {apart}, {begin} + i * {apart} + 1000,
    CASE WHEN i <= {n} - {n} / 100 OR i % 10 IN (0, 2) THEN {begin} + i * {apart} + 50 END,
    CASE WHEN i <= {n} - {n} / 100 OR i % 10 = 2 THEN {begin} + i * {apart} + 1000 END,
    CASE WHEN i % 10 = 0 THEN 'wf-' || (i / 1000 * 1000 + 1) END,
    CASE WHEN i % 1000 = 3 THEN 'wf-' || (i / 2) END,
    CASE WHEN i % 2000 = 5 THEN 'nightly' END,
    'user-' || (i % 1000),
    CASE WHEN i % 2 = 0 THEN '{{"customer": "c-' || (i % 10000) || '", "plan": "gold"}}' END{cast},
    1,
    'portable_json'
"""


class Asked(NamedTuple):
    """A question: its words, whether an index serves it on Postgres and on SQLite, and itself."""

    words: str
    by: tuple[str, str]
    options: dict[str, Any]


def instant(part: float, n: int) -> datetime:
    """That part of the way through the workflows."""
    return datetime.fromtimestamp((BEGIN_MS + part * n * APART_MS) / 1000, UTC)


def questions(n: int) -> list[Asked]:
    """What is asked of a database of that many workflows."""
    newest = {"newest_first": True}
    minutes = timedelta(minutes=10)
    middle = instant(0.5, n)
    after = f"{BEGIN_MS + n * APART_MS // 2}.wf-{n // 2}"
    key, created, none = ("key", "key"), ("creation", "creation"), ("—", "—")
    failed, waiting = ("failures", "failures"), ("in flight", "in flight")
    done, begun = ("completion", "completion"), ("start", "start")
    return [
        Asked("nothing, the newest", created, newest),
        Asked("nothing, from the middle on (`after`)", created, {"after": after}),
        Asked("`created_from`, ten minutes", created, _within("created", middle, minutes)),
        Asked("`started_from`, ten minutes", begun, _within("started", middle, minutes)),
        Asked("`completed_from`, ten minutes", done, _within("completed", middle, minutes)),
        Asked("`completed_from`, the last 1 %", done, {"completed_from": instant(0.99, n)}),
        Asked("`completed_from`, a fifth of all", none, {"completed_from": instant(0.8, n)}),
        Asked("`ids`, 100", key, {"ids": [f"wf-{i * (n // 101) + 1}" for i in range(100)]}),
        Asked("`id_prefixes`", ("—", "key"), {"id_prefixes": f"wf-{n // 2}"}),
        Asked("`parents`", ("parent", "parent"), {"parents": f"wf-{n // 2000 * 1000 + 1}"}),
        Asked("`has_parent`, the newest", created, {"has_parent": True, **newest}),
        Asked("`forked_from`", ("fork", "fork"), {"forked_from": f"wf-{n // 4 // 1000 * 500 + 1}"}),
        Asked("`is_fork`, the newest", ("fork", "fork"), {"is_fork": True, **newest}),
        Asked("`schedules`", ("schedule", "schedule"), {"schedules": "nightly", **newest}),
        Asked(
            "`dedup_ids`", ("deduplication",) * 2, {"dedup_ids": f"key-{n - n // 2000 // 3 * 3}"}
        ),
        Asked("`states=ERROR`, the newest", failed, {"states": "ERROR", **newest}),
        Asked("`states=ERROR`, the oldest", failed, {"states": "ERROR"}),
        Asked(
            "`states` of all failures",
            failed,
            {"states": ["ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"], **newest},
        ),
        Asked("`states=PENDING`, the oldest", ("pending", "pending"), {"states": "PENDING"}),
        Asked("`states=ENQUEUED`, the oldest", waiting, {"states": "ENQUEUED"}),
        Asked("`states=DELAYED`, the oldest", ("delayed", "delayed"), {"states": "DELAYED"}),
        Asked("`queues`, `states=ENQUEUED`", waiting, {"queues": "queue-1", "states": "ENQUEUED"}),
        Asked("`queued`, the oldest", waiting, {"queued": True}),
        Asked(
            "`attributes`, one in 5,000", ("attributes", "—"), {"attributes": {"customer": "c-42"}}
        ),
        Asked("`names`, frequent", created, {"names": "job-7", **newest}),
        Asked(
            "`names` in ten minutes",
            created,
            {"names": "job-7", **_within("created", middle, minutes)},
        ),
        Asked("`names`, one row of all", none, {"names": "rare"}),
        Asked("`executors`, ended long ago", none, {"executors": "worker-3", "versions": "v1"}),
        Asked("`users`", none, {"users": "user-77"}),
    ]


def _within(what: str, begin: datetime, span: timedelta) -> dict[str, Any]:
    return {f"{what}_from": begin, f"{what}_to": begin + span}


async def fill_postgres(url: str, n: int) -> None:
    """Make the workflows, as a database that has been running for long has them."""
    connection = await asyncpg.connect(url)
    try:
        row = ROW.format(n=n, begin=BEGIN_MS, apart=APART_MS, cast="::jsonb")
        await connection.execute(
            f"INSERT INTO dbos.workflow_status ({COLUMNS}) SELECT {row}"
            f" FROM generate_series(1::bigint, {n}) i"
        )
        await connection.execute("VACUUM ANALYZE dbos.workflow_status")
    finally:
        await connection.close()


async def fill_sqlite(url: str, n: int) -> None:
    """The same in a file."""
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        row = ROW.format(n=n, begin=BEGIN_MS, apart=APART_MS, cast="")
        connection.execute(
            f"WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers"
            f" WHERE i < {n}) INSERT INTO workflow_status ({COLUMNS}) SELECT {row} FROM numbers"
        )
    connection.close()


async def times(question: Callable[[], Awaitable[Any]]) -> list[float]:
    """How long the question takes, in milliseconds, each time; the first time does not count."""
    await question()
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await question()
        found.append((time.perf_counter() - began) * 1000)
        if found[-1] > 10 * TARGET_MS and len(found) > 2:  # noqa: PLR2004
            break
    return found


async def answer(url: str, n: int, store: str) -> list[str]:
    """Every question on one database, as lines of the table."""
    place = 0 if store == "postgres" else 1
    lines = []
    async with Client(url) as client:

        async def note(words: str, index: str, ask: Callable[[], Awaitable[Any]]) -> None:
            took = await times(ask)
            size = await ask()
            number = len(size) if isinstance(size, list) else size
            shortest, median = min(took), statistics.median(took)
            verdict = "" if index == "—" else "met" if shortest <= TARGET_MS else "MISSED"
            line = f"| {words} | {index} | {number:,} | {shortest:.1f} | {median:.1f} | {verdict} |"
            lines.append(line)
            print(line, flush=True)

        workflows = client.workflows
        for asked in questions(n):
            await note(
                asked.words, asked.by[place], lambda asked=asked: workflows.list(**asked.options)
            )
        root = f"wf-{n // 2000 * 1000 + 1}"
        await note("`tree` of 100", "parent", lambda: workflows.tree(root))
        await note("`count` of all", "—", workflows.count)
        await note("`count` by state", "—", lambda: workflows.count(by="state"))
        await note("`count(states=ERROR)`", "—", lambda: workflows.count(states="ERROR"))
    return lines


def measure(store: str, n: int) -> list[str]:
    """The table of one store."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=disk())))
        if store == "postgres":
            settings = {"shared_buffers": "1GB", "max_wal_size": "4GB"}
            server = stack.enter_context(PostgresServer(settings, directory=disk()))
            url = asyncio.run(server.databases.create())
            fill = fill_postgres
        else:
            url, fill = f"sqlite:///{folder}/listing.db", fill_sqlite

        async def run() -> list[str]:
            async with Engine(url):
                pass
            await fill(url, n)
            return await answer(url, n, store)

        return asyncio.run(run())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workflows", type=int, default=1_000_000)
    parser.add_argument("--store", choices=["postgres", "sqlite"])
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/listing.md")
    chosen = parser.parse_args()
    text = (
        f"# Pages of a listing\n\n{datetime.now(UTC).date()}, Python {platform.python_version()},"
        f" {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f};"
        f" {chosen.workflows:,} workflows, pages of 100, milliseconds; what an index serves is to"
        f" take {TARGET_MS} at most where nothing else runs.\n"
    )
    for store in [chosen.store] if chosen.store else ["postgres", "sqlite"]:
        lines = measure(store, chosen.workflows)
        text += f"\n## {store}\n\n| filter | index | rows | shortest | median | target |\n"
        text += "| --- | --- | --: | --: | --: | --- |\n" + "\n".join(lines) + "\n"
    if chosen.keep:
        RESULTS.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
