"""`HeartbeatLink`: the lease of a process start, and what a heartbeat brings back."""

import asyncio
import threading

import pytest

from perdure.model.answer import AnswerKind
from perdure.model.lease import LockState
from perdure.model.wire import INTERNAL_QUEUE
from perdure.model.workflow import WorkflowKey
from perdure.ports.store.hints import TALK
from tests.support import rows
from tests.support.store import Process, Site, kinds
from tests.support.waiting import eventually


async def test_an_opened_lease_lets_its_boot_start(site: Site, me: Process) -> None:
    """“Insert or refresh the lease row and take the liveness lock; says whether it is held”."""
    late = site.stranger(me.store)
    held = await late.link.open(late.lease)
    # A database in memory has no other process that could ask.
    assert held or site.kind == "memory"
    assert kinds(await late.start(rows.direct())) == [AnswerKind.WRITTEN]
    assert (await late.beat()).held
    await late.link.close()


async def test_a_heartbeat_renews_the_lease(site: Site, me: Process) -> None:
    """“Renew the lease and look around, in one statement”."""
    alive = await site.process()
    for _ in range(3):
        site.clock.advance(alive.lease.period_ms - 1000)
        assert (await alive.beat()).held
        assert await me.suspicion(alive) is None


async def test_a_heartbeat_tells_the_time(site: Site, me: Process) -> None:
    """“`now_ms` is the database's clock (offset included) at the statement”."""
    site.clock.advance(86_400_000)
    before = await me.store.now_ms()
    beat = await me.beat()
    assert before <= beat.now_ms <= await me.store.now_ms()


async def test_a_lease_that_ran_out_is_overdue(site: Site, me: Process) -> None:
    """“`overdue` says that the lease ran out by the database's clock”."""
    late = await site.process(period_ms=5000)
    assert await me.suspicion(late) is None
    site.clock.advance(5001)
    seen = await me.accuse(late)
    assert seen.overdue
    assert not seen.orphaned
    assert (seen.boot_id, seen.executor_id) == (late.boot, late.executor)
    assert seen.renewals >= 0


async def test_a_process_never_suspects_itself(site: Site, me: Process) -> None:
    """“Another boot's lease that looks suspicious”."""
    await me.running()
    site.clock.advance(me.lease.period_ms * 5)
    beat = await me.beat()
    assert beat.held
    assert me.boot not in {suspect.boot_id for suspect in beat.suspects}


async def test_renewals_say_whether_one_happened_between(site: Site, me: Process) -> None:
    """“`renewals` counts its renewals: the same number seen twice means none happened between”."""
    late = await site.process()
    site.clock.advance(late.lease.period_ms + 1)
    first = await me.accuse(late)
    assert (await me.accuse(late)).renewals == first.renewals
    await late.beat()
    site.clock.advance(late.lease.period_ms + 1)
    assert (await me.accuse(late)).renewals > first.renewals


async def test_the_periods_of_leases_are_their_own(site: Site, me: Process) -> None:
    """“`overdue` says that the lease ran out”: each after its own `period_ms`."""
    short, long = await site.process(period_ms=1000), await site.process(period_ms=60_000)
    site.clock.advance(1001)
    assert (await me.accuse(short)).overdue
    assert await me.suspicion(long) is None


async def test_a_lost_lease_is_not_held(site: Site, me: Process) -> None:
    """“`held` False: somebody took this boot's lease, or it is gone; the boot id is dead”."""
    victim = await site.process()
    await victim.running()
    await victim.running()
    site.clock.advance(victim.lease.period_ms + 1)
    suspect = await me.accuse(victim)
    assert not (await me.store.take_over(suspect, 1)).finished
    assert not (await victim.beat()).held
    assert (await me.store.take_over(suspect, 10)).finished
    assert not (await victim.beat()).held
    site.clock.advance(victim.lease.period_ms + 1)
    assert await me.suspicion(victim) is None


async def test_a_beat_never_brings_a_lost_lease_back(site: Site, me: Process) -> None:
    """“or it is gone; the boot id is dead”: a beat renews, it does not insert."""
    leaving = await site.process()
    await leaving.store.end_lease(leaving.boot)
    assert not (await leaving.beat()).held
    assert not (await leaving.beat()).held


async def test_a_row_of_a_boot_without_lease_is_an_orphan(site: Site, me: Process) -> None:
    """“A boot that owns PENDING rows without a lease row appears with `orphaned` set (and
    `renewals` -1)”."""
    boot = rows.boot_id()
    executor = rows.executor_of(boot, "name/with/slashes")
    for _ in range(3):
        await site.foreign(status="PENDING", executor_id=executor, owner_xid="x")
    seen = await me.accuse(boot)
    assert (seen.orphaned, seen.renewals, seen.executor_id) == (True, -1, executor)


async def test_an_orphan_behind_many_living_runs_is_seen(site: Site, me: Process) -> None:
    """“A boot that owns PENDING rows without a lease row appears with `orphaned` set”: on one of
    the next heartbeats where it takes more than one to look through, and then until it is gone."""
    for _ in range(3):
        await me.start(*[rows.direct() for _ in range(900)])
    boot = rows.boot_id()
    await site.foreign(status="PENDING", executor_id=rows.executor_of(boot), owner_xid="x")
    seen = [await me.suspicion(boot) for _ in range(8)]
    first = next(index for index, suspect in enumerate(seen) if suspect is not None)
    assert all(suspect is not None for suspect in seen[first : first + 2])


@pytest.mark.parametrize(
    "executor", ["local", "", "exec-1", "worker/1", "boot-x", "w/not-boot-1", None, "boots/x"]
)
async def test_an_executor_of_another_program_is_no_suspect(
    site: Site, me: Process, executor: str | None
) -> None:
    """“Every boot id begins with this, so that a row says whether a Perdure process owns it”."""
    await site.foreign(status="PENDING", executor_id=executor, owner_xid="x")
    assert (await me.beat()).suspects == ()


@pytest.mark.parametrize("status", ["ENQUEUED", "DELAYED", "SUCCESS", "CANCELLED"])
async def test_only_pending_rows_make_an_orphan(site: Site, me: Process, status: str) -> None:
    """“A boot that owns PENDING rows without a lease row”."""
    await site.foreign(status=status, executor_id=rows.executor_of(rows.boot_id()))
    assert (await me.beat()).suspects == ()


async def test_ready_says_that_a_claim_would_find_something(site: Site, me: Process) -> None:
    """“`ready` names the queues asked about in which a claimable row waits”."""
    asked = ("c", "a", "b")
    assert (await me.beat(queues=asked)).ready == ()
    await me.waiting(queue_name="a")
    assert (await me.beat(queues=asked)).ready == ("a",)
    for name in ("c", "elsewhere"):
        await me.waiting(queue_name=name)
    assert set((await me.beat(queues=asked)).ready) == {"a", "c"}
    await me.claim(queues=asked)
    assert (await me.beat(queues=asked)).ready == ()
    assert (await me.beat(queues=())).ready == ()


@pytest.mark.parametrize(
    "columns",
    [
        {"queue_name": "elsewhere"},
        {"name": "unregistered"},
        {"class_name": "K"},
        {"application_version": "v-other"},
        {"application_name": "other"},
        {"status": "PENDING"},
        {"status": "CANCELLED"},
    ],
)
async def test_ready_says_nothing_of_what_it_cannot_claim(
    site: Site, me: Process, columns: dict[str, str]
) -> None:
    """“which of `queues` hold a row that a process with these functions and the version that the
    lease serves could claim”."""
    await site.foreign(**columns)
    assert (await me.beat()).ready == ()
    assert await me.claim() == []


async def test_ready_counts_an_unclaimed_row(site: Site, me: Process) -> None:
    """“a claimable row waits”: one of no application and no version is claimable."""
    await site.foreign()
    assert (await me.beat()).ready == (rows.QUEUE,)


async def test_ready_depends_on_the_functions_asked_with(site: Site, me: Process) -> None:
    """“a row that a process with these functions … could claim”."""
    await me.waiting(name="f", class_name="C")
    assert (await me.beat(keys=())).ready == ()
    assert (await me.beat(keys=(WorkflowKey("f"),))).ready == ()
    assert (await me.beat(keys=(WorkflowKey("f"), WorkflowKey("f", "C")))).ready == (rows.QUEUE,)


async def test_ready_depends_on_the_version_of_the_lease(site: Site, me: Process) -> None:
    """“and the version that the lease serves”: an unversioned row waits for the latest one."""
    newer = await site.process(me.store, version="v2")
    for version in ("v1", "v2"):
        await me.store.register_version(version)
        site.clock.advance(10)
    await site.foreign(queue_name="any")
    await me.waiting(queue_name="old", application_version="v1")
    asked = ("any", "old")
    assert (await me.beat(queues=asked)).ready == ("old",)
    assert (await newer.beat(queues=asked)).ready == ("any",)


async def test_ready_knows_no_limits(site: Site, me: Process) -> None:
    """“could claim, were there no limits”."""
    await me.queue("full", concurrency=1)
    await me.queue("paused")
    await me.store.pause_queue("paused", paused=True)
    for name in ("full", "full", "paused"):
        await me.waiting(queue_name=name)
    await me.claim_shared("full")
    assert set((await me.beat(queues=("full", "paused"))).ready) == {"full", "paused"}


async def test_the_next_time_is_that_of_the_earliest_delay(site: Site, me: Process) -> None:
    """“`next_at_ms` is when a sweep has something to do next”."""
    assert (await me.beat()).next_at_ms is None
    late = await me.waiting(delay_ms=90_000)
    early = await me.waiting(delay_ms=30_000, queue_name="not-asked-about")
    due = (await site.status(early.workflow_id))["delay_until_epoch_ms"]
    beat = await me.beat()
    assert (beat.next_at_ms, beat.ready) == (due, ())
    await me.cancel([early.workflow_id])
    later = (await site.status(late.workflow_id))["delay_until_epoch_ms"]
    assert (await me.beat()).next_at_ms == later


@pytest.mark.parametrize("state", ["ENQUEUED", "DELAYED", "PENDING"])
async def test_the_next_time_may_be_a_deadline(site: Site, me: Process, state: str) -> None:
    """“`next_at_ms` is when a sweep has something to do next”: a deadline, and for a PENDING row,
    whose process ends it itself, 2,000 ms later."""
    now = await me.store.now_ms()
    await site.foreign(
        status=state, delay_until_epoch_ms=now + 90_000, workflow_deadline_epoch_ms=now + 30_000
    )
    expected = now + 30_000 + (2000 if state == "PENDING" else 0)
    assert (await me.beat()).next_at_ms == expected


async def test_rows_of_others_have_no_next_time(site: Site, me: Process) -> None:
    """“when a sweep has something to do”: “Only rows of this application or of none”."""
    await site.foreign(
        application_name="other",
        status="DELAYED",
        delay_until_epoch_ms=5,
        workflow_deadline_epoch_ms=6,
    )
    await site.foreign(status="SUCCESS", delay_until_epoch_ms=5, workflow_deadline_epoch_ms=6)
    assert (await me.beat()).next_at_ms is None


async def test_the_digest_of_queues_stays_while_nothing_changes(site: Site, me: Process) -> None:
    """“the same one twice means that nothing about them changed”: and work is not about them."""
    other = await site.process()
    await me.queue(concurrency=1)
    first = (await me.beat()).queues
    await me.waiting()
    await me.claim_shared()
    site.clock.advance(60_000)
    await site.insert("queues", queue_id="1", name="theirs", application_name="other")
    await site.insert("queues", queue_id="2", name=INTERNAL_QUEUE)
    assert (await me.beat()).queues == (await other.beat(queues=())).queues == first


async def test_the_digest_of_queues_changes_with_them(site: Site, me: Process) -> None:
    """“`queues` is a digest of every registered queue of this application or of none: the same one
    twice means that nothing about them changed”."""
    seen = [(await me.beat()).queues]
    await me.queue("a", concurrency=1)
    seen.append((await me.beat()).queues)
    await me.queue("a", concurrency=2)
    seen.append((await me.beat()).queues)
    await me.queue("a", concurrency=2, max_polling_interval_s=60.0)
    seen.append((await me.beat()).queues)
    await me.store.pause_queue("a", paused=True)
    seen.append((await me.beat()).queues)
    await me.queue("b")
    seen.append((await me.beat()).queues)
    await me.store.delete_queue("a")
    seen.append((await me.beat()).queues)
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("concurrency", 5),
        ("worker_concurrency", 5),
        ("rate_limit_max", 5),
        ("rate_limit_period_sec", 5.5),
        ("priority_enabled", False),
        ("polling_interval_sec", 5.5),
        ("application_name", "app"),
        ("partition_concurrency", 5),
        ("partition_worker_concurrency", 5),
        ("partition_rate_limit_max", 5),
        ("partition_rate_limit_period_sec", 5.5),
    ],
)
async def test_the_digest_sees_what_another_program_changes(
    site: Site, me: Process, column: str, value: object
) -> None:
    """“the same one twice means that nothing about them changed”: whether or not the other program
    tells the time of its change."""
    columns = {
        "concurrency": 4,
        "worker_concurrency": 4,
        "rate_limit_max": 4,
        "rate_limit_period_sec": 4.0,
        "priority_enabled": True,
        "polling_interval_sec": 4.0,
        "partition_concurrency": 4,
        "partition_worker_concurrency": 4,
        "partition_rate_limit_max": 4,
        "partition_rate_limit_period_sec": 4.0,
    }
    await site.insert("queues", queue_id="1", name=rows.QUEUE, **columns)
    before = (await me.beat()).queues
    await site.backdoor.run(f"UPDATE queues SET {column} = ?", value)
    changed = (await me.beat()).queues
    assert changed != before
    await site.backdoor.run(f"UPDATE queues SET {column} = ?", columns.get(column))
    assert (await me.beat()).queues == before


async def test_work_that_another_process_announces_is_heard(site: Site, me: Process) -> None:
    """“Have `callback` called … with every hint that is announced”; “A link that cannot listen
    never calls”."""
    other = site.stranger(await site.store())
    heard: list[str] = []
    other.link.listen(heard.append)
    await other.link.open(other.lease)
    assert (await other.beat()).ready == ()
    await me.waiting()
    await me.store.announce([f"+{rows.QUEUE}"])
    if me.store.capabilities.listen:
        await eventually(lambda: f"+{rows.QUEUE}" in heard)
    # `TALK` is from a store that sees only that others committed.
    assert set(heard) <= {f"+{rows.QUEUE}", TALK}
    assert (await other.beat()).ready == (rows.QUEUE,)
    await other.link.close()


async def test_a_closed_link_leaves_the_lease(site: Site, me: Process) -> None:
    """“Give up lock and connection; the lease row stays. Never raises”."""
    gone = await site.process()
    await gone.link.close()
    await gone.link.close()
    assert kinds(await gone.start(rows.direct())) == [AnswerKind.WRITTEN]
    unopened = me.store.heartbeat_link()
    await unopened.close()


async def test_another_link_of_the_same_boot_goes_on(site: Site, me: Process) -> None:
    """“the thread closes it and opens another for the same boot”."""
    boot = await site.process()
    run = await boot.running()
    await boot.link.close()
    boot.link = boot.store.heartbeat_link()
    await boot.link.open(boot.lease)
    assert (await boot.beat()).held
    assert await me.suspicion(boot) is None
    assert kinds(await boot.store.record([rows.checkpoint(run)])) == [AnswerKind.WRITTEN]
    await boot.link.close()


async def test_opening_refreshes_the_lease(site: Site, me: Process) -> None:
    """“Insert or refresh the lease row”."""
    boot = await site.process()
    await boot.link.close()
    site.clock.advance(boot.lease.period_ms + 1)
    assert (await me.accuse(boot)).overdue
    await boot.link.open(boot.lease)
    assert await me.suspicion(boot) is None


async def test_a_held_lock_is_seen_as_held(site: Site, me: Process) -> None:
    """“Somebody holds it: the process lives”; “Not recorded …: only the lease's time counts”."""
    late = site.stranger(await site.store())
    held = await late.link.open(late.lease)
    site.clock.advance(late.lease.period_ms + 1)
    seen = await me.accuse(late)
    assert seen.lock is (LockState.HELD if held else LockState.UNKNOWN)
    await late.link.close()


async def test_a_given_up_lock_is_seen_as_free_at_once(site: Site, me: Process) -> None:
    """“Recorded, now free, and the server has not restarted since it was taken”."""
    gone = site.stranger(await site.store())
    held = await gone.link.open(gone.lease)
    await gone.link.close()
    if held:
        # A server that is busy says goodbye a little later than the link waits for.
        await eventually(lambda: me.suspicion(gone))
        seen = await me.accuse(gone)
        assert (seen.lock, seen.overdue, seen.orphaned) == (LockState.FREE, False, False)
    else:
        assert await me.suspicion(gone) is None


async def test_a_link_lives_on_a_thread_of_its_own(site: Site, me: Process) -> None:
    """“One dedicated connection of the heartbeat thread, used from that thread's loop only”."""
    other = site.stranger(me.store)
    held: list[bool] = []

    async def heartbeat() -> None:
        await other.link.open(other.lease)
        held.extend([(await other.beat()).held for _ in range(5)])
        await other.link.close()

    thread = threading.Thread(target=lambda: asyncio.run(heartbeat()))
    thread.start()
    # The store goes on in this loop while the other thread beats.
    answers = [await me.store.record([rows.checkpoint(await me.running())]) for _ in range(5)]
    await asyncio.to_thread(thread.join)
    assert held == [True] * 5
    assert {answer.kind for (answer,) in answers} == {AnswerKind.WRITTEN}
