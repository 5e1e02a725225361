"""`ClaimStore.claim`: the order and number of what it takes, and its repetition."""

import asyncio

from perdure.model.ids import WorkflowId
from perdure.model.workflow import ClaimRequest, Fence, QueueShare, Start, WorkflowRow
from tests.support import rows
from tests.support.store import Process, Site

BASE = 1_700_000_000_000


async def test_priority_then_creation_then_id(site: Site, me: Process) -> None:
    """“Order: priority, then creation, then id”."""
    await site.foreign("f", priority=2, created_at=BASE)
    await site.foreign("e", priority=1, created_at=BASE + 2)
    await site.foreign("d", priority=1, created_at=BASE + 1)
    await site.foreign("b", priority=1, created_at=BASE)
    await site.foreign("a", priority=1, created_at=BASE)
    await site.foreign("c", priority=0, created_at=BASE + 9)
    claimed = await me.claim()
    assert [run.workflow_id for run in claimed] == ["c", "a", "b", "d", "e", "f"]


async def test_the_limit_takes_the_first_in_order(site: Site, me: Process) -> None:
    """“Take ENQUEUED rows, of each of the request's queues up to its share”: the first ones, call
    after call."""
    for number in (5, 3, 1, 4, 2):
        await site.foreign(f"w{number}", created_at=BASE + number)
    taken = [[run.workflow_id for run in await me.claim(limit=2)] for _ in range(4)]
    assert taken == [["w1", "w2"], ["w3", "w4"], ["w5"], []]


async def test_what_is_returned_is_in_order_over_all_queues(site: Site, me: Process) -> None:
    """“Order, in each queue and of what is returned: priority, then creation, then id”."""
    await site.foreign("late-a", queue_name="a", created_at=BASE + 3)
    await site.foreign("early-b", queue_name="b", created_at=BASE + 1)
    await site.foreign("middle-a", queue_name="a", created_at=BASE + 2)
    await site.foreign("urgent-b", queue_name="b", priority=-1, created_at=BASE + 4)
    claimed = await me.claim(queues=("a", "b"))
    taken = [run.workflow_id for run in claimed]
    assert taken == ["urgent-b", "early-b", "middle-a", "late-a"]


async def test_each_queue_gives_its_own_share(site: Site, me: Process) -> None:
    """“of each of the request's queues up to its share”: none eats into another's."""
    for name in ("a", "b", "c"):
        await me.open_queue(name)
    for number in range(5):
        await site.foreign(f"a{number}", queue_name="a", created_at=BASE + number)
        await site.foreign(f"b{number}", queue_name="b", created_at=BASE + 10 + number)
        await site.foreign(f"c{number}", queue_name="c", priority=-1, created_at=BASE + 20 + number)
    claimant = rows.claimant(me.executor)
    shares = (QueueShare("c", 1), QueueShare("a", 0), QueueShare("b", 3), QueueShare("none", 9))
    claimed = await me.store.claim(ClaimRequest(claimant, shares))
    assert [run.workflow_id for run in claimed] == ["c0", "b0", "b1", "b2"]


async def test_a_share_of_nothing_takes_nothing(site: Site, me: Process) -> None:
    """“of each of the request's queues up to its share”."""
    waiting = await me.waiting()
    assert await me.claim(limit=0) == []
    assert (await site.status(waiting.workflow_id))["status"] == "ENQUEUED"


async def test_items_of_one_batch_are_claimed_without_gaps(me: Process) -> None:
    """“ties are broken” by id: one batch's rows share an instant, and none is left out."""
    batch = [rows.enqueued(f"same-{number:04}") for number in range(1000)]
    await me.start(*batch)
    claimed = await me.claim(limit=600) + await me.claim(limit=600)
    assert sorted(run.workflow_id for run in claimed) == [item.workflow_id for item in batch]


async def test_what_an_earlier_call_enqueued_comes_first(me: Process) -> None:
    """“Order: priority, then creation, then id”: the id decides between rows of one call only,
    since what one call enqueued before another began was created before."""
    made = [(await me.waiting(f"w{number}")).workflow_id for number in range(99, 39, -1)]
    assert [run.workflow_id for run in await me.claim()] == made


async def test_calls_one_after_the_other_are_claimed_by_their_instants(me: Process) -> None:
    """“Order: priority, then creation, then id”."""
    made: list[WorkflowId] = []
    for number in range(30):
        item = rows.enqueued(f"{30 - number:02}")
        await me.store.start([Start(item)], me.executor)
        made.append(item.workflow_id)
    claimed = [run.workflow_id for run in await me.claim()]
    instants = [run.created_at_ms for run in await _listed(me, made)]
    assert instants == sorted(instants)
    # Within one millisecond the order is the id's; across milliseconds it is the order of calls.
    assert sorted(claimed, key=lambda w: (instants[made.index(w)], w)) == claimed


async def _listed(me: Process, made: list[WorkflowId]) -> list[WorkflowRow]:
    found = {row.workflow_id: row for row in await me.store.list_workflows(rows.by_ids(*made))}
    return [found[workflow_id] for workflow_id in made]


async def test_a_repeated_claim_returns_what_the_first_try_took(site: Site, me: Process) -> None:
    """“Repeating a call with the same token after an unknown outcome also returns the rows the
    first try claimed (PENDING rows bearing the token)”."""
    for number in range(3):
        await site.foreign(f"w{number}", created_at=BASE + number)
    again = rows.token()
    first = await me.claim(token=again, limit=3)
    repeated = await me.claim(token=again, limit=3)
    assert [run.workflow_id for run in repeated] == ["w0", "w1", "w2"]
    assert {run.attempts for run in repeated} == {1}
    assert [(r.workflow_id, r.key, r.inputs, r.owner) for r in repeated] == [
        (r.workflow_id, r.key, r.inputs, r.owner) for r in first
    ]
    rows_now = [await site.status(run.workflow_id) for run in repeated]
    assert {row["recovery_attempts"] for row in rows_now} == {1}


async def test_a_repeated_claim_takes_no_more_than_its_limit(site: Site, me: Process) -> None:
    """“of each of the request's queues up to its share”: the rows of the first try count."""
    for number in range(6):
        await site.foreign(f"w{number}", created_at=BASE + number)
    again = rows.token()
    await me.claim(token=again, limit=2)
    repeated = await me.claim(token=again, limit=2)
    assert [run.workflow_id for run in repeated] == ["w0", "w1"]
    assert (await site.status(rows.wid("w2")))["status"] == "ENQUEUED"


async def test_a_repeated_claim_leaves_out_what_has_ended(me: Process) -> None:
    """“(PENDING rows bearing the token)”."""
    one, two = await me.waiting(), await me.waiting()
    again = rows.token()
    await me.claim(token=again, limit=2)
    await me.store.finish([rows.finish(Fence(one.workflow_id, again))])
    repeated = await me.claim(token=again, limit=2)
    assert [run.workflow_id for run in repeated] == [two.workflow_id]


async def test_racing_claimers_never_share_a_row(site: Site, me: Process) -> None:
    """“Rows locked by others are skipped”, and a claim is an atomic take."""
    rivals = [me, *[await site.process() for _ in range(3)]]
    batch = [rows.enqueued() for _ in range(400)]
    await me.start(*batch)

    async def drain(rival: Process) -> list[Fence]:
        taken: list[Fence] = []
        empty = 0
        # Another's lock can hide rows for a moment, so one empty answer is not the end.
        while empty < 3:
            claimed = await rival.claim(limit=7)
            empty = 0 if claimed else empty + 1
            taken += [Fence(run.workflow_id, run.owner) for run in claimed]
        return taken

    taken = await asyncio.gather(*(drain(rival) for rival in rivals))
    everything = [fence for fences in taken for fence in fences]
    assert len(everything) == len({fence.workflow_id for fence in everything}) == 400
    owners = await site.backdoor.rows(
        "SELECT workflow_uuid, owner_xid, recovery_attempts FROM workflow_status"
    )
    assert {Fence(row["workflow_uuid"], row["owner_xid"]) for row in owners} == set(everything)
    assert {row["recovery_attempts"] for row in owners} == {1}
