"""`ClaimStore.claim_shared`: what it takes from partitioned queues."""

from typing import Any

import pytest

from perdure.model.ids import WorkflowId
from perdure.model.queue import QueueTurn, Rate
from perdure.model.workflow import Fence, SharedClaim
from tests.support import rows
from tests.support.store import Process, Site

BASE = 1_700_000_000_000
PERIOD_MS = 60_000


def ids(claim: SharedClaim) -> list[WorkflowId]:
    """Which workflows were claimed, in order."""
    return [run.workflow_id for run in claim.runs]


def keys(claim: SharedClaim) -> list[str | None]:
    """Of which partitions they are."""
    return [run.partition_key for run in claim.runs]


async def backlog(me: Process, number: int, *partitions: str, **fields: Any) -> None:
    """So many workflows that wait in each partition: `a0`, `a1`, `b0`, …."""
    await me.start(
        *[
            rows.enqueued(f"{key}{index}", partition_key=key, **fields)
            for key in partitions
            for index in range(number)
        ]
    )


async def test_each_partition_has_the_limit_for_itself(me: Process) -> None:
    """“each gives as many as its own limits leave room for”."""
    await me.queue(partitioned=True, partition_concurrency=2)
    await backlog(me, 3, "a", "b")
    assert sorted(ids(await me.claim_shared())) == ["a0", "a1", "b0", "b1"]
    assert (await me.turn()).is_full
    await me.cancel([rows.wid("b0")])
    assert ids(await me.claim_shared()) == ["b2"]


@pytest.mark.parametrize(
    ("columns", "left"),
    [
        ({"application_name": "app"}, 1),
        ({"application_name": None}, 1),
        ({"application_name": "other"}, 2),
        ({"queue_partition_key": "b"}, 2),
        ({"queue_partition_key": None}, 2),
        ({"queue_name": "another"}, 2),
    ],
)
async def test_pending_rows_of_the_partition_count(
    site: Site, me: Process, columns: dict[str, str | None], left: int
) -> None:
    """“Counted are rows of this application and of none”: against a partition, those with its
    key."""
    await me.queue(partitioned=True, partition_concurrency=2)
    row = {"status": "PENDING", "owner_xid": "x", "queue_partition_key": "a"}
    await site.foreign(**{**row, **columns})
    await backlog(me, 3, "a")
    assert (await me.turn()).taken == left


async def test_the_limits_of_the_whole_queue_bind_too(me: Process) -> None:
    """“as many rows are claimed as `logic.admission` leaves room for”: of whatever partition."""
    await me.queue(partitioned=True, partition_concurrency=2, concurrency=3)
    await backlog(me, 3, "a", "b", "c")
    assert (await me.turn()).taken == 3
    assert await me.turn() == QueueTurn(rows.QUEUE, is_full=True)


async def test_a_process_takes_no_more_of_a_partition_than_its_own_limit(me: Process) -> None:
    """“What this process runs of a queue, in all and for each partition key”."""
    await me.queue(partitioned=True, partition_worker=2)
    await backlog(me, 4, "a", "b", "c")
    claim = await me.claim_shared(rows.load(running=3, a=1, b=2))
    assert sorted(ids(claim)) == ["a0", "c0", "c1"]
    full = await me.turn(rows.load(running=6, a=2, b=2, c=2))
    assert (full.taken, full.is_full, full.has_more) == (0, True, False)


async def test_a_process_takes_no_more_of_all_partitions_than_its_own_limit(me: Process) -> None:
    """“`running` … in all”."""
    await me.queue(partitioned=True, worker=4, partition_worker=2)
    await backlog(me, 4, "a", "b", "c")
    assert (await me.turn(rows.load(running=1, a=1))).taken == 3
    assert (await me.turn(rows.load(running=4, a=1))).is_full


async def test_each_partition_has_a_rate_for_itself(site: Site, me: Process) -> None:
    """“for a rate the claims in the rate log of the last period”: of a partition, those with its
    key."""
    await me.queue(partitioned=True, partition_rate=Rate(2, 60.0))
    await backlog(me, 5, "a")
    first = await me.claim_shared()
    assert ids(first) == ["a0", "a1"]
    await me.cancel(ids(first))
    site.clock.advance(20_000)
    await backlog(me, 5, "b")
    assert ids(await me.claim_shared()) == ["b0", "b1"]
    turn = await me.turn()
    assert (turn.taken, turn.is_full) == (0, True)
    frees = min(row["started_at"] for row in await site.own("rate_log")) + PERIOD_MS
    assert turn.frees_at_ms == frees
    site.clock.advance(frees - await me.store.now_ms())
    assert ids(await me.claim_shared()) == ["a2", "a3"]


async def test_starts_of_other_programs_count_for_their_partition(site: Site, me: Process) -> None:
    """“and shared rows with `rate_limited` that started in it”: of a partition, those with its
    key, and those that have no entry of the log."""
    await me.queue(partitioned=True, partition_rate=Rate(2, 60.0))
    now = await me.store.now_ms()
    started = {"status": "SUCCESS", "rate_limited": True, "started_at_epoch_ms": now - 30_000}
    await site.foreign(queue_partition_key="a", **started)
    await site.foreign(queue_partition_key="b", **{**started, "started_at_epoch_ms": now - 61_000})
    await site.foreign(**started)
    await backlog(me, 3, "a", "b")
    assert sorted(keys(await me.claim_shared())) == ["a", "b", "b"]
    turn = await me.turn()
    assert (turn.is_full, turn.frees_at_ms) == (True, now + 30_000)


async def test_a_partition_that_waits_is_told_beside_one_with_room(site: Site, me: Process) -> None:
    """“`frees_at_ms` says when there is some if that is known”: also where others had room."""
    await me.queue(partitioned=True, partition_rate=Rate(1, 60.0), partition_concurrency=1)
    await backlog(me, 2, "a")
    (run,) = (await me.claim_shared()).runs
    await me.store.finish([rows.finish(Fence(run.workflow_id, run.owner))])
    started = (await site.status(run.workflow_id))["started_at_epoch_ms"]
    await backlog(me, 1, "b")
    turn = await me.turn()
    assert (turn.taken, turn.frees_at_ms) == (1, started + PERIOD_MS)


async def test_the_rate_of_the_whole_queue_binds_too(site: Site, me: Process) -> None:
    """“as many rows are claimed as `logic.admission` leaves room for”."""
    await me.queue(partitioned=True, partition_rate=Rate(2, 60.0), rate=Rate(3, 60.0))
    await backlog(me, 4, "a", "b", "c")
    assert (await me.turn()).taken == 3
    turn = await me.turn()
    assert (turn.taken, turn.is_full, turn.has_more) == (0, True, False)
    assert turn.frees_at_ms == min(r["started_at"] for r in await site.own("rate_log")) + PERIOD_MS


@pytest.mark.parametrize("limits", [{}, {"concurrency": 9}, {"partition_concurrency": 9}])
async def test_rows_without_a_key_are_never_claimed(
    site: Site, me: Process, limits: dict[str, int]
) -> None:
    """“From a partitioned queue only rows with a key are claimed”: also where it has no limits."""
    await me.queue(partitioned=True, **limits)
    keyless = await me.waiting()
    await backlog(me, 1, "a", "☃", "o'brien::%_", " ")
    assert sorted(keys(await me.claim_shared()), key=str) == [" ", "a", "o'brien::%_", "☃"]
    assert (await me.claim_shared()).runs == ()
    assert (await site.status(keyless.workflow_id))["status"] == "ENQUEUED"


async def test_a_queue_that_another_program_partitioned_is_partitioned(
    site: Site, me: Process
) -> None:
    """“The limits are those of the locked rows”: a limit of partitions is what partitions them."""
    await site.insert(
        "queues", queue_id="1", name=rows.QUEUE, partition_concurrency=1, partition_queue=True
    )
    await me.waiting()
    await backlog(me, 2, "a", "b")
    assert sorted(ids(await me.claim_shared())) == ["a0", "b0"]


async def test_a_queue_without_partitions_gives_rows_with_keys(me: Process) -> None:
    """“From a partitioned queue only rows with a key”: from another, all."""
    await me.queue(concurrency=9)
    plain = await me.waiting()
    await backlog(me, 1, "a")
    assert sorted(ids(await me.claim_shared())) == sorted(["a0", plain.workflow_id])


async def test_the_first_of_every_partition_then_the_second(site: Site, me: Process) -> None:
    """“then the first of every partition, then the second of every partition, and so on”."""
    await me.queue(partitioned=True)
    for number, name in enumerate(("a0", "a1", "a2", "a3", "b0", "b1", "c0")):
        await site.foreign(name, queue_partition_key=name[0], created_at=BASE + number)
    taken = [sorted(ids(await me.claim_shared(limit=limit))) for limit in (3, 2, 2, 1)]
    # What is left of each partition has a first again.
    assert taken == [["a0", "b0", "c0"], ["a1", "b1"], ["a2", "a3"], []]


async def test_a_hot_partition_starves_no_other(me: Process) -> None:
    """“then the first of every partition”: the one job of one that came last is in the first
    claim, though the other's are older and more than one claim takes."""
    await me.queue(partitioned=True, partition_concurrency=50)
    await backlog(me, 200, "a")
    await backlog(me, 1, "b")
    assert "b0" in ids(await me.claim_shared(limit=10))


async def test_the_most_urgent_come_first_of_all(site: Site, me: Process) -> None:
    """“Taken are first those of the most urgent priority”."""
    await me.queue(partitioned=True)
    for name, priority in (("a0", 1), ("a1", 1), ("a2", 1), ("b0", 2), ("b1", 2), ("c0", 3)):
        await site.foreign(
            name, queue_partition_key=name[0], priority=priority, created_at=BASE + len(name)
        )
    taken = [ids(await me.claim_shared(limit=limit)) for limit in (2, 2, 2)]
    assert taken == [["a0", "a1"], ["a2", "b0"], ["b1", "c0"]]


async def test_the_order_within_a_partition_is_that_of_a_queue(site: Site, me: Process) -> None:
    """“Otherwise everything is as in `claim`”: priority, then creation, then id."""
    await me.queue(partitioned=True, partition_concurrency=1)
    for name, priority, created_at in (
        ("e", 1, BASE),
        ("d", 0, BASE + 2),
        ("b", 0, BASE + 1),
        ("a", 0, BASE + 1),
    ):
        await site.foreign(name, queue_partition_key="p", priority=priority, created_at=created_at)
    taken = []
    for _ in range(4):
        (run,) = (await me.claim_shared()).runs
        taken.append(run.workflow_id)
        await me.store.finish([rows.finish(Fence(run.workflow_id, run.owner))])
    assert taken == ["a", "b", "d", "e"]


async def rounds(me: Process, most: int, *, limit: int) -> list[str]:
    """The keys of what is claimed, each claim going on where the one before ended, until one says
    that there is no more."""
    taken, after_key = [], ""
    for _ in range(most):
        claim = await me.claim_shared(rows.load(after_key=after_key), limit=limit)
        taken += [key for key in keys(claim) if key is not None]
        (turn,) = claim.turns
        after_key = turn.after_key
        if not turn.has_more:
            return taken
    raise AssertionError(f"still more after {most} claims: {len(taken)} taken")


async def test_many_partitions_are_visited_one_after_the_other(site: Site, me: Process) -> None:
    """“The keys with ENQUEUED rows are visited in order from `after_key` on, a bounded number of
    them, beginning again at the first one after the last”: every one has its turn."""
    await me.queue(partitioned=True, partition_concurrency=1)
    names = [f"k{number:03}" for number in range(300)]
    await backlog(me, 2, *names)
    assert sorted(await rounds(me, 40, limit=25)) == names
    assert await site.pending() == 300


async def test_no_partition_waits_for_ever_behind_others(me: Process) -> None:
    """“so that no partition waits for ever behind others”: not even where those before it always
    have work, older than its own."""
    await me.queue(partitioned=True, partition_concurrency=1)
    names = [f"k{number:03}" for number in range(300)]
    await backlog(me, 6, *names[:200])
    await backlog(me, 1, *names[200:])
    seen: set[str | None] = set()
    after_key = ""
    for _ in range(60):
        claim = await me.claim_shared(rows.load(after_key=after_key), limit=25)
        after_key = claim.turns[0].after_key
        seen |= set(keys(claim))
        fences = [Fence(run.workflow_id, run.owner) for run in claim.runs]
        await me.store.finish([rows.finish(fence) for fence in fences])
    assert seen == set(names)


@pytest.mark.parametrize("after_key", ["a", "b", "c", "zzz", "\U0010ffff", " ", "☃"])
async def test_a_visit_begins_anywhere(me: Process, after_key: str) -> None:
    """“beginning again at the first one after the last”."""
    await me.queue(partitioned=True, partition_concurrency=1)
    await backlog(me, 1, "a", "b", "c")
    claim = await me.claim_shared(rows.load(after_key=after_key))
    assert sorted(ids(claim)) == ["a0", "b0", "c0"]


async def test_a_key_without_characters_is_one(site: Site, me: Process) -> None:
    """“only rows with a key are claimed”: another program may have written an empty one."""
    await me.queue(partitioned=True, partition_concurrency=1)
    found = [await site.foreign(queue_partition_key="") for _ in range(2)]
    assert len((await me.claim_shared()).runs) == 1
    await me.cancel(found[:1])
    assert ids(await me.claim_shared()) == found[1:]


async def test_partitions_with_nothing_for_this_process_hide_none(site: Site, me: Process) -> None:
    """“The keys with ENQUEUED rows are visited”: those whose rows others run are passed over."""
    await me.queue(partitioned=True, partition_concurrency=1)
    names = [f"k{number:03}" for number in range(150)]
    await backlog(me, 1, *names[:50], application_version="v2")
    await backlog(me, 1, *names[50:100], name="unregistered")
    for name in names[100:]:
        await site.foreign(queue_partition_key=name, application_name="other")
    await backlog(me, 1, "zz")
    seen: list[WorkflowId] = []
    after_key = ""
    for _ in range(20):
        claim = await me.claim_shared(rows.load(after_key=after_key))
        after_key = claim.turns[0].after_key
        seen += ids(claim)
    assert seen == ["zz0"]


async def test_full_partitions_hide_none(me: Process) -> None:
    """“each gives as many as its own limits leave room for”: those without room are passed over."""
    await me.queue(partitioned=True, partition_concurrency=1)
    names = [f"k{number:03}" for number in range(150)]
    await backlog(me, 2, *names)
    assert len(await rounds(me, 20, limit=100)) == 150
    await backlog(me, 1, "zz")
    seen: list[WorkflowId] = []
    after_key = ""
    for _ in range(20):
        claim = await me.claim_shared(rows.load(after_key=after_key))
        after_key = claim.turns[0].after_key
        seen += ids(claim)
    assert seen == ["zz0"]


async def test_a_repeated_claim_of_partitions_takes_nothing_more(site: Site, me: Process) -> None:
    """“Repeating a call with the same token … also returns the rows the first try claimed”."""
    await me.queue(partitioned=True, partition_concurrency=1)
    await backlog(me, 2, "a", "b")
    again = rows.token()
    first = await me.claim_shared(token=again)
    repeated = await me.claim_shared(token=again)
    assert sorted(ids(first)) == sorted(ids(repeated)) == ["a0", "b0"]
    assert await site.pending() == 2
