"""`ClaimStore.claim_shared` in many processes at once: “exact, at any time”.

A limit is never exceeded at any instant, whoever claims; and what a limit leaves room for is
taken, for of those who come at once one is never turned away.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import pytest

from perdure.model.ids import WorkflowId
from perdure.model.queue import QueueTurn, Rate
from perdure.model.workflow import ClaimedRun, Fence, SharedClaim
from tests.support import rows
from tests.support.races import race
from tests.support.store import Process, Site

VERSIONS = ("v1", "v2")
PERIOD_MS = 100


async def fleet(site: Site, number: int = 4) -> list[Process]:
    """Process starts with stores of their own, of two versions in turn."""
    return [await site.process(version=VERSIONS[index % 2]) for index in range(number)]


async def backlog(me: Process, number: int, **fields: str) -> None:
    """So many workflows of either version that wait."""
    for version in VERSIONS:
        batch = [rows.enqueued(application_version=version, **fields) for _ in range(number)]
        await me.start(*batch)


async def at_once(number: int, claimants: Sequence[Process], **fields: int) -> list[SharedClaim]:
    """All of them claim."""
    return await race(number, *(partial(claimant.claim_shared, **fields) for claimant in claimants))


def fences_of(claims: Sequence[SharedClaim]) -> list[Fence]:
    """The runs of all these claims."""
    return [Fence(run.workflow_id, run.owner) for claim in claims for run in claim.runs]


@pytest.mark.parametrize("limit", [1, 3])
async def test_no_more_are_ever_pending_than_the_concurrency(
    site: Site, me: Process, limit: int
) -> None:
    """“PENDING rows against the concurrency”: whatever their version, and whoever claims with
    whom."""
    claimants = await fleet(site)
    await me.queue(concurrency=limit)
    await backlog(me, 100 * limit)
    held: list[Fence] = []
    for number in range(100):
        claims = await at_once(number, claimants, limit=1 + number % 3)
        held += fences_of(claims)
        assert len(held) == await site.pending()
        assert 1 <= len(held) <= limit
        turns = [claim.turns[0] for claim in claims]
        assert site.kind == "postgres" or not any(turn.contended for turn in turns)
        ended, held = held[: 1 + number % limit], held[1 + number % limit :]
        await me.store.finish([rows.finish(fence) for fence in ended])


async def test_all_of_the_room_is_used(site: Site, me: Process) -> None:
    """“as many rows are claimed as … leaves room for”: those who are turned away come again."""
    claimants = await fleet(site)
    await me.queue(concurrency=7)
    await backlog(me, 4)
    for number in range(60):
        claims = await at_once(number, claimants, limit=4)
        turns = {claim.turns[0].contended for claim in claims}
        assert False in turns
        held = fences_of(claims)
        for claimant in claimants:
            held += fences_of([await claimant.claim_shared()])
        assert len(held) == 7
        await me.store.release([rows.release(fence) for fence in held])


async def drained(site: Site, claimants: Sequence[Process], number: int) -> list[ClaimedRun]:
    """Everybody claims and ends what was claimed, as fast as they can, until that many ended."""
    taken: list[ClaimedRun] = []

    async def drain(claimant: Process) -> None:
        while len(taken) < number:
            runs = (await claimant.claim_shared(limit=2)).runs
            taken.extend(runs)
            fences = [Fence(run.workflow_id, run.owner) for run in runs]
            await claimant.store.finish([rows.finish(fence) for fence in fences])

    async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        for claimant in claimants:
            tasks.create_task(drain(claimant))
    return taken


def most_at_once(spans: Sequence[tuple[int, int]]) -> int:
    """The largest number of these spans of time that have an instant in common."""
    # At one instant, who ends makes room for who begins.
    changes = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


@pytest.mark.parametrize("limit", [1, 3])
async def test_spans_of_ownership_never_overlap_beyond_the_concurrency(
    site: Site, me: Process, limit: int
) -> None:
    """“exact, at any time”: by what the rows say of when they were claimed and when they ended."""
    claimants = await fleet(site)
    await me.queue(concurrency=limit)
    await backlog(me, 75)
    taken = await drained(site, claimants, 150)
    assert len({run.workflow_id for run in taken}) == len(taken) == 150
    found = [await site.status(run.workflow_id) for run in taken]
    spans = [(row["started_at_epoch_ms"], row["completed_at"]) for row in found]
    assert most_at_once(spans) <= limit
    assert {row["recovery_attempts"] for row in found} == {1}


async def test_partitions_never_overlap_beyond_their_concurrency(site: Site, me: Process) -> None:
    """“each gives as many as its own limits leave room for”: in whatever process."""
    claimants = await fleet(site)
    await me.queue(partitioned=True, partition_concurrency=1, concurrency=3)
    for key in "abcde":
        await backlog(me, 10, partition_key=key)
    taken = await drained(site, claimants, 100)
    assert len({run.workflow_id for run in taken}) == 100
    spans: dict[str | None, list[tuple[int, int]]] = {}
    for run in taken:
        row = await site.status(run.workflow_id)
        span = (row["started_at_epoch_ms"], row["completed_at"])
        spans.setdefault(run.partition_key, []).append(span)
    assert set(spans) == set("abcde")
    # None is seen at work where each begins and ends within a millisecond.
    assert max(map(most_at_once, spans.values())) <= 1
    assert most_at_once([span for found in spans.values() for span in found]) <= 3


async def test_no_window_holds_more_claims_than_the_rate(site: Site, me: Process) -> None:
    """“for a rate the claims … of the last period”: of all processes and versions, whatever becomes
    of the runs; “with one time for both that is read after the lock”."""
    claimants = await fleet(site)
    await me.queue(rate=Rate(5, PERIOD_MS / 1000))
    await backlog(me, 40)
    times: list[int] = []
    claimed: set[WorkflowId] = set()
    async with asyncio.timeout(120):
        for number in range(100_000):
            claims = await at_once(number, claimants, limit=3)
            held = fences_of(claims)
            times += [
                row["started_at_epoch_ms"]
                for row in [await site.status(fence.workflow_id) for fence in held]
            ]
            claimed |= {fence.workflow_id for fence in held}
            away = [fence for index, fence in enumerate(held) if index % 3]
            await me.cancel([fence.workflow_id for fence in away if number % 2])
            await me.store.release([rows.release(fence) for fence in away if not number % 2])
            if len(times) >= 60:
                break
    times.sort()
    sixths = zip(times, times[5:], strict=False)
    assert min(later - first for first, later in sixths) >= PERIOD_MS
    assert len(claimed) > 20


async def test_a_limit_changed_meanwhile_binds_what_comes_after(site: Site, me: Process) -> None:
    """“The lock is the one claims hold, so that a limit binds every claim that begins after
    this”."""
    claimants = await fleet(site)
    await backlog(me, 100)
    for number in range(20):
        await me.queue(concurrency=6)
        runs = asyncio.gather(*(claimant.claim_shared(limit=2) for claimant in claimants))
        await me.store.change_queue(rows.QUEUE, lambda _: rows.queue(concurrency=1))
        bound = await at_once(number, claimants, limit=2)
        before = fences_of(await runs)
        after = fences_of(bound)
        assert len(before) <= 6
        assert len(after) <= 1
        assert len(before) + len(after) == await site.pending()
        await me.cancel([fence.workflow_id for fence in before + after])


async def test_a_paused_queue_gives_nothing_from_then_on(site: Site, me: Process) -> None:
    """“Let nothing be claimed from the queue”: once this has returned, no process claims."""
    claimants = await fleet(site)
    await backlog(me, 60)
    await me.queue(concurrency=50)
    for number in range(10):
        runs = asyncio.gather(*(claimant.claim_shared(limit=2) for claimant in claimants))
        await me.store.pause_queue(rows.QUEUE, paused=True)
        claims = await at_once(number, claimants, limit=2)
        assert {claim.turns for claim in claims} <= {
            (QueueTurn(rows.QUEUE),),
            (QueueTurn(rows.QUEUE, contended=True),),
        }
        await me.cancel([fence.workflow_id for fence in fences_of(await runs)])
        await me.store.pause_queue(rows.QUEUE, paused=False)


async def test_claims_of_several_queues_never_deadlock(site: Site, me: Process) -> None:
    """“the rows of the request's queues are locked, in the order of their names”: in whatever order
    they are asked for."""
    claimants = await fleet(site)
    names = ["a", "b", "c", "d"]
    for name in names:
        await me.queue(name, concurrency=2)
        await backlog(me, 90, queue_name=name)
    async with asyncio.timeout(120):
        for number in range(40):
            orders = [names[index:] + names[:index] for index in range(4)]
            orders = [order[::-1] if number % 2 else order for order in orders]
            claims = await asyncio.gather(
                *(
                    claimant.claim_shared(*order, limit=3)
                    for claimant, order in zip(claimants, orders, strict=True)
                ),
                me.store.change_queue(names[number % 4], lambda row: row.settings),
            )
            held = fences_of(claims[:4])
            for name in names:
                assert await site.pending(name) <= 2
            assert held
            await me.store.finish([rows.finish(fence) for fence in held])


async def test_cancels_and_claims_never_deadlock(site: Site, me: Process) -> None:
    """“Rows locked by others are skipped”: also by those who wait for a queue's lock."""
    claimants = await fleet(site)
    await me.queue(concurrency=5)
    async with asyncio.timeout(120):
        for number in range(30):
            batch = [rows.enqueued(application_version="v1") for _ in range(20)]
            await me.start(*batch)
            wanted = [item.workflow_id for item in batch]
            claims, _ = await asyncio.gather(at_once(number, claimants, limit=2), me.cancel(wanted))
            fences = fences_of(claims)
            assert sorted(await me.store.lost(fences)) == sorted(f.workflow_id for f in fences)
            assert await site.pending() == 0


def test_spans_that_meet_do_not_overlap() -> None:
    """How this module counts."""
    assert most_at_once([(1, 3), (3, 5)]) == 1
    assert most_at_once([(1, 4), (3, 5), (4, 6)]) == 2
    assert most_at_once(list(pairwise(range(9)))) == 1
