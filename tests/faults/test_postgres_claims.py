"""Claims under the lock of a queue, cut off or held up at each of their statements."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from perdure.errors import DatabaseUnavailable
from perdure.model.queue import Rate
from perdure.model.workflow import NewWorkflow, SharedClaim
from tests.support import rows
from tests.support.database import PostgresDatabase
from tests.support.proxy import FaultProxy
from tests.support.store import Process, Site, open_site
from tests.support.waiting import eventually

STATEMENTS = {
    "lock": "FOR NO KEY UPDATE SKIP LOCKED",
    "usage": "array_agg",
    "claim": "row_number()",
    "commit": "COMMIT;",
}
"""What is found in the text of each, and in none before it."""


@pytest.fixture
async def proxy(postgres_database: PostgresDatabase) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(postgres_database.url) as opened:
        yield opened


@pytest.fixture
async def behind(postgres_database: PostgresDatabase, proxy: FaultProxy) -> AsyncIterator[Process]:
    """A process behind the proxy."""
    async with open_site(PostgresDatabase(proxy.url(postgres_database.url))) as opened:
        yield await opened.process()


async def backlog(me: Process, count: int, **fields: object) -> list[NewWorkflow]:
    return [await me.waiting(**fields) for _ in range(count)]


def ids(claim: SharedClaim) -> list[str]:
    return [run.workflow_id for run in claim.runs]


@pytest.mark.parametrize("strength", ["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"])
async def test_whoever_holds_a_queues_row_stalls_that_queue_alone(
    site: Site, me: Process, strength: str
) -> None:
    for name in ("cool", "hot"):
        await me.queue(name, concurrency=5)
        await backlog(me, 2, queue_name=name)
    lock = f"SELECT FROM queues WHERE name = 'hot' FOR {strength}"
    async with site.postgres.transaction(lock):
        claim = await me.claim_shared("hot", "cool")
        hot, cool = claim.turns
        # A key-share lock is what a foreign key takes: it changes nothing.
        assert hot.contended is (strength != "KEY SHARE")
        assert (hot.taken, cool.taken) == (0 if hot.contended else 2, 2)
        assert not cool.contended
    assert (await me.turn("hot")).taken == (2 if hot.contended else 0)


async def test_whoever_changes_an_unlimited_queue_stalls_that_queue_alone(
    site: Site, me: Process
) -> None:
    for name in ("cool", "hot"):
        await me.queue(name)
        await backlog(me, 2, queue_name=name)
    async with site.postgres.transaction("SELECT FROM queues WHERE name = 'hot' FOR UPDATE"):
        assert [run.queue_name for run in await me.claim(queues=("hot", "cool"))] == ["cool"] * 2
    assert [run.queue_name for run in await me.claim(queues=("hot", "cool"))] == ["hot"] * 2


async def test_a_queue_that_got_limits_or_stopped_gives_nothing_to_who_does_not_know_it(
    me: Process,
) -> None:
    await me.queue()
    await backlog(me, 2)
    for limits in ({"concurrency": 1}, {"rate": Rate(1, 1.0)}, {"partitioned": True}):
        await me.queue(**limits)
        assert await me.claim() == []
    await me.queue(worker=1)
    await me.store.pause_queue(rows.QUEUE, paused=True)
    assert await me.claim() == []
    await me.store.pause_queue(rows.QUEUE, paused=False)
    assert len(await me.claim()) == 2


async def test_whoever_changes_a_queue_waits_for_claims_under_way(
    site: Site,
    me: Process,
    behind: Process,
    proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that its limit binds every claim that is made after it."""
    monkeypatch.setattr("perdure.store.postgres.shared_claims._IDLE_HOLDER", "60s")
    await me.queue(concurrency=5)
    waiting = await backlog(me, 3)
    held = proxy.hold_request(STATEMENTS["commit"])
    claim = asyncio.create_task(behind.claim_shared())
    await held.fired.wait()
    change = asyncio.create_task(
        me.store.change_queue(rows.QUEUE, lambda _: rows.queue(concurrency=1))
    )
    await eventually(lambda: somebody_waits(site))
    assert not change.done()
    held.release()
    assert ids(await claim) == [workflow.workflow_id for workflow in waiting]
    changed = await change
    assert changed is not None
    assert changed.settings.limits.concurrency == 1
    await backlog(me, 1)
    assert (await me.turn()).is_full


async def somebody_waits(site: Site) -> bool:
    # Sessions of other tests wait in other databases of the server.
    found = await site.backdoor.rows(
        "SELECT FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return bool(found)


@pytest.mark.parametrize("statement", STATEMENTS)
async def test_a_claim_that_is_cut_off_took_nothing(
    site: Site, me: Process, behind: Process, proxy: FaultProxy, statement: str
) -> None:
    await me.queue(rate=Rate(2, 60.0))
    waiting = await backlog(me, 3)
    proxy.cut_request(STATEMENTS[statement])
    with pytest.raises(DatabaseUnavailable):
        await behind.claim_shared()
    claims: list[SharedClaim] = []

    async def claimed() -> bool:
        # Until the server has noticed, the queue is locked.
        claims.append(await me.claim_shared())
        return not claims[-1].turns[0].contended

    await eventually(claimed)
    assert ids(claims[-1]) == [workflow.workflow_id for workflow in waiting[:2]]
    assert len(await site.own("rate_log")) == 2


async def test_a_claim_whose_commit_went_unanswered_is_known_again(
    site: Site, me: Process, behind: Process, proxy: FaultProxy
) -> None:
    await me.queue(rate=Rate(3, 60.0), worker=2)
    waiting = await backlog(me, 5)
    again = rows.token()
    fault = proxy.cut_answer(STATEMENTS["commit"])
    with pytest.raises(DatabaseUnavailable):
        await behind.claim_shared(token=again)
    assert b"C" in fault.answer
    found = await behind.claim_shared(token=again)
    assert ids(found) == [workflow.workflow_id for workflow in waiting[:2]]
    assert {run.owner for run in found.runs} == {again}
    # What it has is counted, although it did not know of it.
    assert (found.turns[0].taken, found.turns[0].is_full) == (2, True)
    assert len(await site.own("rate_log")) == 2


@pytest.mark.parametrize("statement", ["lock", "usage", "claim"])
async def test_a_process_that_stands_still_in_its_claim_keeps_the_queue_for_a_moment(
    me: Process,
    behind: Process,
    proxy: FaultProxy,
    statement: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("perdure.store.postgres.shared_claims._IDLE_HOLDER", "200ms")
    await me.queue(concurrency=1, rate=Rate(1, 60.0))
    (waiting,) = await backlog(me, 1)
    held = proxy.hold_answer(STATEMENTS[statement])
    stands = asyncio.create_task(behind.claim_shared())
    await held.fired.wait()
    taken: list[str] = []

    async def is_taken() -> bool:
        # On a busy machine this process may stand still for too long as well.
        with suppress(DatabaseUnavailable):
            taken.extend(ids(await me.claim_shared()))
        return bool(taken)

    await eventually(is_taken)
    assert taken == [waiting.workflow_id]
    held.release()
    with pytest.raises(DatabaseUnavailable):
        await stands
    await backlog(me, 1)
    assert (await behind.claim_shared()).turns[0].is_full
