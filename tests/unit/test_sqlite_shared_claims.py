"""Claims under shared limits on a file: the rate log, and visits to many partitions."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.model.queue import QueueTurn, Rate
from perdure.model.workflow import Fence, SharedClaim, Start
from perdure.store.sqlite import SqliteStore, partitions, shared_claims, writer
from tests.support import rows
from tests.support.database import MovableClock

LEASE = rows.lease()
PERIOD_MS = 1000


class Site:
    """A store on a file with a lease, and another connection to the file."""

    def __init__(self, path: Path) -> None:
        self.clock = MovableClock()
        self.store = SqliteStore(f"sqlite:///{path}", application_name="app", clock=self.clock)
        self.other = sqlite3.connect(path, isolation_level=None)

    async def queue(self, **fields: Any) -> None:
        settings = rows.queue(**fields)
        await self.store.register_queue(rows.QUEUE, rows.VERSION, lambda *_: settings)

    async def enqueue(self, count: int = 1, **fields: Any) -> None:
        batch = [Start(rows.enqueued(**fields)) for _ in range(count)]
        await self.store.start(batch, LEASE.executor_id)

    async def enqueue_in(self, keys: int, **fields: Any) -> None:
        batch = [Start(rows.enqueued(partition_key=f"k{key:04}", **fields)) for key in range(keys)]
        await self.store.start(batch, LEASE.executor_id)

    async def claim(self, limit: int = 1000, after_key: str = "") -> SharedClaim:
        load = rows.load(after_key=after_key)
        return await self.store.claim_shared(
            rows.shared_claim(LEASE.executor_id, (load,), limit=limit)
        )

    async def turn(self, **fields: Any) -> QueueTurn:
        (turn,) = (await self.claim(**fields)).turns
        return turn

    def logged(self) -> list[int]:
        found = self.other.execute("SELECT started_at FROM perdure_rate_log ORDER BY started_at")
        return [started_at for (started_at,) in found.fetchall()]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made = Site(tmp_path / "app.db")
    await made.store.migrate()
    await made.store.open()
    link = made.store.heartbeat_link()
    await link.open(LEASE)
    yield made
    await link.close()
    await made.store.close()
    made.other.close()


async def test_a_workflow_claimed_twice_in_a_millisecond_counts_twice(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = await site.store.now_ms()
    monkeypatch.setattr(writer, "wall_clock_ms", lambda _clock: now_ms)
    await site.queue(rate=Rate(3, PERIOD_MS / 1000))
    await site.enqueue()
    for _ in range(3):
        (run,) = (await site.claim()).runs
        await site.store.release([rows.release(Fence(run.workflow_id, run.owner))])
    assert site.logged() == [now_ms, now_ms + 1, now_ms + 2]
    assert await site.turn() == QueueTurn(rows.QUEUE, is_full=True, frees_at_ms=now_ms + PERIOD_MS)


async def test_the_log_keeps_what_a_window_needs_and_not_much_more(site: Site) -> None:
    await site.queue(
        rate=Rate(1000, PERIOD_MS / 1000), partition_rate=Rate(1000, 10_000.0), partitioned=True
    )
    await site.enqueue(3, partition_key="k")
    before = [(await site.claim(limit=1)) and site.logged()[-1] for _ in range(2)]
    # Twice the longer period; a shorter while keeps it all.
    site.clock.advance(19_000_000)
    await site.claim(limit=1)
    assert site.logged()[:2] == before
    site.clock.advance(2_000_000)
    await site.enqueue(partition_key="k")
    await site.claim(limit=1)
    assert len(site.logged()) == 2


async def test_what_is_forgotten_at_once_is_bounded(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_claims, "PRUNED_AT_ONCE", 3)
    await site.queue(rate=Rate(1000, PERIOD_MS / 1000))
    await site.enqueue(11)
    await site.claim(limit=9)
    site.clock.advance(10 * PERIOD_MS)
    await site.claim(limit=1)
    assert len(site.logged()) == 9 - 3 + 1
    await site.claim(limit=1)
    assert len(site.logged()) == 9 - 6 + 2


@pytest.mark.parametrize("period", [0.0, -5.0, 1e300])
async def test_a_period_no_clock_can_tell_fails_no_claim(site: Site, period: float) -> None:
    """Other programs check no bounds."""
    await site.queue(rate=Rate(3, 1.0))
    site.other.execute("UPDATE queues SET rate_limit_period_sec = ?", (period,))
    await site.enqueue(2)
    assert (await site.turn()).taken == 2


async def test_a_rate_of_nothing_lets_nothing_start(site: Site) -> None:
    await site.queue(rate=Rate(3, 1.0))
    site.other.execute("UPDATE queues SET rate_limit_max = 0")
    await site.enqueue(2)
    assert await site.turn() == QueueTurn(rows.QUEUE, is_full=True)


async def test_all_of_many_partitions_are_visited_in_turns(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "KEYS_AT_ONCE", 4)
    await site.queue(partition_concurrency=1, partitioned=True)
    await site.enqueue_in(10)
    seen = []
    turn = await site.turn()
    while turn.has_more:
        seen.append((turn.taken, turn.after_key))
        turn = await site.turn(after_key=turn.after_key)
    assert seen == [(4, "k0003"), (4, "k0007")]
    assert (turn.taken, turn.after_key) == (2, "k0009")


async def test_a_round_of_full_partitions_ends(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks further while there is more stops where nothing has room."""
    monkeypatch.setattr(partitions, "KEYS_AT_ONCE", 4)
    await site.queue(partition_concurrency=1, partitioned=True)
    await site.enqueue_in(10)
    await site.enqueue_in(10)
    after_key, taken = "k0004", 0
    for _ in range(10):
        turn = await site.turn(after_key=after_key)
        after_key, taken = turn.after_key, taken + turn.taken
        if not turn.has_more:
            break
    assert taken == 10
    looks = 0
    turn = await site.turn(after_key=after_key)
    while turn.has_more and looks < 20:
        looks += 1
        turn = await site.turn(after_key=turn.after_key)
    assert looks < 4
    assert turn.is_full


async def test_more_rows_of_few_partitions_are_taken_in_pages(site: Site) -> None:
    """Few partitions give many each: the first of every one, then the second, and so on."""
    await site.queue(partitioned=True)
    await site.enqueue(7, partition_key="a")
    await site.enqueue(2, partition_key="b")
    await site.enqueue(40, partition_key="c")
    (turn,) = (claim := await site.claim(limit=20)).turns
    counts = [sum(run.partition_key == key for run in claim.runs) for key in "abc"]
    assert counts == [7, 2, 11]
    assert turn.has_more
