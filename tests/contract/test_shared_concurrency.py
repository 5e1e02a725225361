"""`ClaimStore.claim_shared`: what it takes under a concurrency that the fleet shares."""

import pytest

from perdure.errors import LeaseLost
from perdure.model.ids import WorkflowId
from perdure.model.queue import QueueTurn, Rate
from perdure.model.wire import INTERNAL_QUEUE
from perdure.model.workflow import Fence, SharedClaim, WorkflowKey
from tests.support import rows
from tests.support.store import Process, Site

BASE = 1_700_000_000_000


def ids(claim: SharedClaim) -> list[WorkflowId]:
    """Which workflows were claimed, in order."""
    return [run.workflow_id for run in claim.runs]


async def backlog(me: Process, number: int, **fields: str) -> None:
    """So many workflows that wait, in this order."""
    await me.start(*[rows.enqueued(f"w{index:02}", **fields) for index in range(number)])


async def test_as_many_as_the_limit_leaves_room_for(site: Site, me: Process) -> None:
    """“as many rows are claimed as `logic.admission` leaves room for”."""
    await me.queue(concurrency=3)
    await backlog(me, 5)
    first = await me.claim_shared()
    assert ids(first) == ["w00", "w01", "w02"]
    assert first.turns[0].taken == 3
    assert await me.turn() == QueueTurn(rows.QUEUE, is_full=True)
    assert await site.pending() == 3


async def test_an_ending_makes_room_for_the_next(me: Process) -> None:
    """“PENDING rows against the concurrency”: whatever they become afterwards."""
    await me.queue(concurrency=1)
    await backlog(me, 6)
    ended = []
    for number in range(5):
        (run,) = (await me.claim_shared()).runs
        assert (await me.turn()).is_full
        fence = Fence(run.workflow_id, run.owner)
        ended.append(run.workflow_id)
        if number % 2:
            await me.cancel([run.workflow_id])
        else:
            await me.store.finish([rows.finish(fence)])
    assert ended == [f"w{number:02}" for number in range(5)]


async def test_a_row_given_back_makes_room_and_is_taken_again(me: Process) -> None:
    """“PENDING rows against the concurrency”: a released one is none."""
    await me.queue(concurrency=1)
    await backlog(me, 2)
    (first,) = (await me.claim_shared()).runs
    await me.store.release([rows.release(Fence(first.workflow_id, first.owner))])
    (again,) = (await me.claim_shared()).runs
    assert again.workflow_id == first.workflow_id
    assert again.owner != first.owner


@pytest.mark.parametrize(
    ("columns", "left"),
    [
        ({"application_name": "app"}, 1),
        ({"application_name": None}, 1),
        ({"application_name": "other"}, 2),
        ({"application_name": "app", "application_version": "v-old", "name": "gone"}, 1),
        ({"owner_xid": None, "executor_id": None}, 1),
        ({"queue_partition_key": "p"}, 1),
        ({"queue_name": "another"}, 2),
        ({"status": "ENQUEUED", "name": "unregistered"}, 2),
        ({"status": "SUCCESS"}, 2),
    ],
)
async def test_pending_rows_of_this_application_and_of_none_count(
    site: Site, me: Process, columns: dict[str, str | None], left: int
) -> None:
    """“Counted are rows of this application and of none: PENDING rows against the concurrency”:
    whoever runs them, and whatever they are."""
    await me.queue(concurrency=2)
    await site.foreign(**{"status": "PENDING", "owner_xid": "x", **columns})
    await backlog(me, 3)
    assert len((await me.claim_shared()).runs) == left


async def test_more_may_run_than_a_limit_that_was_lowered(site: Site, me: Process) -> None:
    """“The limits are those of the locked rows, whatever the caller knew”; “a limit binds every
    claim that begins after this”."""
    await me.queue(concurrency=3)
    await backlog(me, 9)
    taken = (await me.claim_shared()).runs
    await me.store.change_queue(rows.QUEUE, lambda _: rows.queue(concurrency=1))
    assert (await me.turn()).is_full
    await me.cancel([run.workflow_id for run in taken[:2]])
    assert (await me.turn()).is_full
    await me.cancel([taken[2].workflow_id])
    assert (await me.turn()).taken == 1
    await me.store.change_queue(rows.QUEUE, lambda _: rows.queue(concurrency=4))
    assert (await me.turn()).taken == 3


async def test_a_queue_that_lost_its_limits_gives_what_is_asked_for(me: Process) -> None:
    """“The limits are those of the locked rows, whatever the caller knew”."""
    await me.queue(concurrency=1)
    await backlog(me, 5)
    await me.queue()
    assert (await me.turn(limit=4)).taken == 4


async def test_limits_that_another_program_set_bind(site: Site, me: Process) -> None:
    """“from registered queues with limits that the fleet shares”: whoever registered them."""
    await site.insert("queues", queue_id="1", name=rows.QUEUE, concurrency=2)
    await backlog(me, 5)
    assert (await me.turn()).taken == 2
    await site.backdoor.run("UPDATE queues SET concurrency = 3")
    assert (await me.turn()).taken == 1


async def test_the_process_takes_no_more_than_its_own_limit(me: Process) -> None:
    """“as many rows are claimed as `logic.admission` leaves room for”: what this process runs is
    what it says."""
    await me.queue(worker=3, concurrency=10)
    await backlog(me, 9)
    assert (await me.turn(rows.load(running=2))).taken == 1
    assert await me.turn(rows.load(running=3)) == QueueTurn(rows.QUEUE, is_full=True)
    assert (await me.turn(rows.load(running=0))).taken == 3


async def test_the_limit_of_the_request_is_one_of_all_queues_together(me: Process) -> None:
    """“At most `limit` of each queue and of all together”; turns come “in the order of the
    request”."""
    for name in ("a", "b"):
        await me.queue(name, concurrency=5)
        for number in range(5):
            await me.waiting(f"{name}{number}", queue_name=name)
    claim = await me.claim_shared("b", "a", limit=7)
    assert [turn.queue_name for turn in claim.turns] == ["b", "a"]
    assert sum(turn.taken for turn in claim.turns) == len(claim.runs) == 7
    assert all(turn.taken <= 5 for turn in claim.turns)
    rest = await me.claim_shared("a", "b")
    assert len(rest.runs) == 3


async def test_a_request_for_nothing_takes_nothing(me: Process) -> None:
    """“At most `limit` …”."""
    await me.queue(concurrency=5)
    await backlog(me, 2)
    claim = await me.claim_shared(limit=0)
    assert (claim.runs, claim.turns[0].taken) == ((), 0)
    empty = rows.shared_claim(me.executor, ())
    assert await me.store.claim_shared(empty) == SharedClaim((), ())


async def test_priority_then_creation_then_id(site: Site, me: Process) -> None:
    """“Otherwise everything is as in `claim`”: the order, too."""
    await me.queue(concurrency=4)
    for name, priority, created_at in (
        ("f", 2, BASE),
        ("e", 1, BASE + 2),
        ("d", 1, BASE + 1),
        ("b", 1, BASE),
        ("a", 1, BASE),
        ("c", 0, BASE + 9),
    ):
        await site.foreign(name, priority=priority, created_at=created_at)
    claim = await me.claim_shared()
    assert ids(claim) == ["c", "a", "b", "d"]
    await me.cancel(ids(claim))
    assert ids(await me.claim_shared(limit=1)) == ["e"]
    assert ids(await me.claim_shared()) == ["f"]


async def test_there_is_more_where_more_was_wanted(me: Process) -> None:
    """“`has_more`: there may be claimable work beyond what was taken or looked at, and room for
    it”."""
    await me.queue(concurrency=5)
    await backlog(me, 4)
    assert (await me.turn(limit=3)).has_more
    last = await me.turn(limit=3)
    assert (last.taken, last.has_more) == (1, False)
    assert await me.turn() == QueueTurn(rows.QUEUE)


async def test_there_is_no_more_without_room(me: Process) -> None:
    """“and room for it”: a queue that is full now has nothing to look for again."""
    await me.queue(concurrency=3)
    await backlog(me, 9)
    turn = await me.turn()
    assert (turn.taken, turn.has_more) == (3, False)


async def test_a_paused_queue_gives_nothing(me: Process) -> None:
    """“a paused queue gives nothing”: and what is in it stays."""
    await me.queue("a", concurrency=5)
    await me.queue("b", concurrency=5)
    for name in ("a", "b"):
        await me.waiting(name, queue_name=name)
    await me.store.pause_queue("a", paused=True)
    claim = await me.claim_shared("a", "b")
    assert ids(claim) == ["b"]
    assert claim.turns[0] == QueueTurn("a")
    await me.store.pause_queue("a", paused=False)
    assert ids(await me.claim_shared("a")) == ["a"]


@pytest.mark.parametrize("application", ["other", "unregistered"])
async def test_a_queue_that_is_not_registered_gives_nothing(
    site: Site, me: Process, application: str
) -> None:
    """“The same from registered queues”: of this application or of none."""
    if application != "unregistered":
        await site.insert(
            "queues", queue_id="1", name="x", concurrency=5, application_name=application
        )
    await me.queue("y", concurrency=5)
    for name in ("x", "y"):
        await me.waiting(name, queue_name=name)
    claim = await me.claim_shared("x", "y")
    assert ids(claim) == ["y"]
    assert claim.turns[0] == QueueTurn("x")


async def test_a_row_under_an_internal_name_registers_nothing(site: Site, me: Process) -> None:
    """“The internal queues have no row: one that stands under such a name is ignored
    everywhere”."""
    await site.insert("queues", queue_id="1", name=INTERNAL_QUEUE, concurrency=5)
    await me.waiting(queue_name=INTERNAL_QUEUE)
    assert await me.turn(INTERNAL_QUEUE) == QueueTurn(INTERNAL_QUEUE)


async def test_only_what_the_process_can_run(site: Site, me: Process) -> None:
    """“Otherwise everything is as in `claim`”: function, version and application."""
    await me.queue(concurrency=9)
    await site.foreign(name="unregistered")
    await site.foreign(class_name="K")
    await site.foreign(application_version="v2")
    await site.foreign(application_name="other")
    await site.foreign(status="DELAYED", delay_until_epoch_ms=1)
    await me.waiting(queue_name="elsewhere")
    assert (await me.claim_shared()).runs == ()
    mine = await me.waiting()
    classy = await me.waiting(name="f", class_name="C")
    assert ids(await me.claim_shared()) == [mine.workflow_id]
    assert ids(await me.claim_shared(keys=(WorkflowKey("f", "C"),))) == [classy.workflow_id]
    assert (await me.claim_shared(keys=())).runs == ()


async def test_unversioned_rows_run_on_the_latest_version_only(site: Site, me: Process) -> None:
    """“its version is `version`, or none when `version` is the latest registered”."""
    await me.queue(concurrency=9)
    for version in ("v1", "v2"):
        await me.store.register_version(version)
        site.clock.advance(10)
    found = await site.foreign()
    assert (await me.claim_shared(version="v1")).runs == ()
    assert ids(await me.claim_shared(version="v2")) == [found]


async def test_a_claim_takes_the_row_for_its_process(site: Site, me: Process) -> None:
    """“Otherwise everything is as in `claim`”: what is written and what is returned; and
    “`rate_limited` false” where there is no rate."""
    await me.queue(concurrency=2)
    plain = await me.waiting("plain", queue_name="plain", timeout_ms=60_000, partition_key="p")
    shared = await me.waiting("shared", timeout_ms=60_000, partition_key="p")
    for workflow in (plain, shared):
        await site.update(workflow.workflow_id, rate_limited=True, recovery_attempts=2)
    one, two = rows.token(), rows.token()
    (expected,) = await me.claim(queues=("plain",), token=one)
    begun = await me.store.now_ms()
    (found,) = (await me.claim_shared(token=two)).runs
    ended = await me.store.now_ms()
    row, model = await site.status(rows.wid("shared")), await site.status(rows.wid("plain"))
    assert begun <= row["started_at_epoch_ms"] <= ended
    assert row["updated_at"] >= row["started_at_epoch_ms"]
    assert found.deadline_ms == row["workflow_deadline_epoch_ms"]
    assert begun + 60_000 <= row["workflow_deadline_epoch_ms"] <= ended + 60_000
    assert found.deadline_left_ms is not None
    assert 0 <= 60_000 - found.deadline_left_ms <= ended - begun
    own = {"workflow_uuid", "queue_name", "owner_xid", "creator_xid", "created_at", "updated_at"}
    own |= {"started_at_epoch_ms", "workflow_deadline_epoch_ms"}
    assert {c: row[c] for c in row if c not in own} == {c: model[c] for c in model if c not in own}
    assert (row["owner_xid"], row["queue_name"]) == (two, rows.QUEUE)
    assert (found.attempts, found.inputs, found.key) == (3, expected.inputs, expected.key)
    assert (found.partition_key, found.queue_name) == ("p", rows.QUEUE)
    assert await site.own("rate_log") == []


async def test_a_deadline_is_kept(site: Site, me: Process) -> None:
    """“the deadline (kept if set, else database clock + timeout)”."""
    await me.queue(concurrency=2)
    deadline = await me.store.now_ms() + 50_000
    await me.waiting(timeout_ms=5, deadline_ms=deadline)
    (run,) = (await me.claim_shared()).runs
    assert run.deadline_ms == deadline


async def test_a_repeated_claim_returns_what_the_first_try_took(site: Site, me: Process) -> None:
    """“Repeating a call with the same token after an unknown outcome also returns the rows the
    first try claimed”: and they count against the limits as they did."""
    await me.queue(concurrency=3, rate=Rate(3, 60.0))
    await backlog(me, 9)
    again = rows.token()
    first = await me.claim_shared(token=again)
    repeated = await me.claim_shared(token=again)
    assert ids(first) == ids(repeated) == ["w00", "w01", "w02"]
    assert [run.attempts for run in repeated.runs] == [1, 1, 1]
    assert {run.owner for run in repeated.runs} == {again}
    assert await site.pending() == 3
    assert len(await site.own("rate_log")) == 3


async def test_a_repeated_claim_takes_no_more_than_its_limit(site: Site, me: Process) -> None:
    """“At most `limit` of each queue and of all together”: the rows of the first try count."""
    await me.queue(concurrency=9)
    await backlog(me, 6)
    again = rows.token()
    await me.claim_shared(token=again, limit=2)
    assert ids(await me.claim_shared(token=again, limit=2)) == ["w00", "w01"]
    assert await site.pending() == 2


async def test_without_a_lease_nothing_is_claimed(site: Site, me: Process) -> None:
    """“raises `LeaseLost` and claims nothing if it is gone”: and spends nothing of a rate."""
    await me.queue(concurrency=1, rate=Rate(1, 60.0))
    await backlog(me, 1)
    with pytest.raises(LeaseLost):
        await site.stranger(me.store).claim_shared()
    assert (await site.pending(), await site.own("rate_log")) == (0, [])
    assert (await me.turn()).taken == 1


async def test_a_lost_lease_is_noticed_when_there_is_nothing_to_claim(
    site: Site, me: Process
) -> None:
    """“raises `LeaseLost` and claims nothing if it is gone”: full, paused, or not registered."""
    await me.queue("full", concurrency=1)
    await me.waiting(queue_name="full")
    await me.claim_shared("full")
    await me.queue("paused", concurrency=1)
    await me.store.pause_queue("paused", paused=True)
    stranger = site.stranger(me.store)
    for name in ("full", "paused", "nowhere"):
        with pytest.raises(LeaseLost):
            await stranger.claim_shared(name)


async def test_a_takeover_makes_room(site: Site, me: Process) -> None:
    """“PENDING rows against the concurrency”: a dead process holds no place for ever."""
    await me.queue(concurrency=2)
    await backlog(me, 3)
    victim = await site.process()
    assert (await victim.turn()).taken == 2
    assert (await me.turn()).is_full
    await victim.link.close()
    site.clock.advance(victim.lease.period_ms + 1)
    assert (await me.store.take_over(await me.accuse(victim), 10)).moved == 2
    claim = await me.claim_shared()
    assert ids(claim) == ["w00", "w01"]
    assert await site.pending() == 2
