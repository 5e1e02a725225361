"""`ReadStore.circumstances`: all that decides when a workflow runs."""

from typing import Any

import pytest
from msgspec.structs import replace

from perdure.model.lease import ProcessSeen
from perdure.model.queue import Rate, Usage
from tests.support import rows
from tests.support.store import Process, Site

PERIOD_MS = 60_000


async def pending(site: Site, number: int, executor: str | None, **columns: Any) -> None:
    """So many PENDING rows of the queue that this executor has."""
    for _ in range(number):
        await site.foreign(
            **{"status": "PENDING", "owner_xid": "x", "executor_id": executor, **columns}
        )


async def test_without_a_row_there_are_none(me: Process) -> None:
    """“None if there is no such row”."""
    assert await me.store.circumstances(rows.wid("nowhere")) is None


async def test_a_workflow_alone(site: Site, me: Process) -> None:
    """“A workflow's row and what stands around it, at the instant `now_ms`”."""
    waiting = await me.waiting(priority=3)
    begun = await me.store.now_ms()
    found = await me.store.circumstances(waiting.workflow_id)
    assert found is not None
    assert begun <= found.now_ms <= await me.store.now_ms()
    assert found.row == replace(await site.read(waiting.workflow_id), inputs=found.row.inputs)
    assert found.queue is None
    assert (found.running, found.partition_running) == ((), ())
    assert (found.usage, found.partition_usage) == (Usage(), Usage())
    assert (found.ahead, found.latest_version) == (0, None)
    assert found.processes == (ProcessSeen(me.executor, me.lease.serves),)


async def test_the_queue_is_the_registered_one(site: Site, me: Process) -> None:
    """“`queue` is the registered queue it is in, if there is one”."""
    await me.queue(concurrency=2, partitioned=True, max_polling_interval_s=9.0)
    await me.queue("other")
    paused = await me.store.pause_queue(rows.QUEUE, paused=True)
    waiting = await me.waiting(partition_key="a")
    found = await me.store.circumstances(waiting.workflow_id)
    assert found is not None
    assert found.queue == paused


async def test_a_direct_start_is_in_no_queue(me: Process) -> None:
    """“`queue` is the registered queue it is in, if there is one”."""
    await me.queue(concurrency=2)
    run = await me.running()
    found = await me.store.circumstances(run.workflow_id)
    assert found is not None
    assert (found.queue, found.running, found.usage, found.ahead) == (None, (), Usage(), 0)


async def test_those_that_run_are_counted_by_executor(site: Site, me: Process) -> None:
    """“Counts of PENDING rows are by executor, the largest first”; “`running` and `usage` are those
    of the whole queue”."""
    await me.queue(concurrency=9)
    await pending(site, 1, "one/x")
    await pending(site, 3, "three/x")
    await pending(site, 2, "two/x", application_name="app")
    await pending(site, 4, "theirs/x", application_name="other")
    await pending(site, 4, "elsewhere/x", queue_name="another")
    await site.foreign(executor_id="one/x", application_version="v2")
    waiting = await me.waiting()
    found = await me.store.circumstances(waiting.workflow_id)
    assert found is not None
    assert found.running == (("three/x", 3), ("two/x", 2), ("one/x", 1))
    assert found.usage == Usage(pending=6)


async def test_the_partition_is_that_of_the_row(site: Site, me: Process) -> None:
    """“usage and executors of the partition are those of the row's partition key”."""
    await me.queue(partitioned=True, partition_concurrency=3)
    await pending(site, 2, "one/x", queue_partition_key="a")
    await pending(site, 1, "two/x", queue_partition_key="a")
    await pending(site, 3, "two/x", queue_partition_key="b")
    await pending(site, 1, "one/x")
    waiting = await me.waiting(partition_key="a")
    found = await me.store.circumstances(waiting.workflow_id)
    assert found is not None
    assert found.running == (("two/x", 4), ("one/x", 3))
    assert found.partition_running == (("one/x", 2), ("two/x", 1))
    assert (found.usage.pending, found.partition_usage.pending) == (7, 3)


async def test_the_window_is_that_of_the_next_claim(site: Site, me: Process) -> None:
    """“How much of a limit is used … by the claims in a rate's window. `frees_at_ms` is when the
    window has room for one more claim if it has none now”: the same as a claim finds."""
    await me.queue(partitioned=True, rate=Rate(3, 60.0), partition_rate=Rate(2, 60.0))
    waiting = [(await me.waiting(partition_key=key)).workflow_id for key in "aaabb"]
    runs = (await me.claim_shared(limit=3)).runs
    times = sorted(row["started_at"] for row in await site.own("rate_log"))
    assert len(times) == 3
    await me.cancel([runs[0].workflow_id])
    of_a = sorted(
        row["started_at"] for row in await site.own("rate_log") if row["partition_key"] == "a"
    )
    found = await me.store.circumstances(waiting[2])
    assert found is not None
    assert found.usage == Usage(2, 3, times[0] + PERIOD_MS)
    assert found.partition_usage.claims == len(of_a) == 2
    assert found.partition_usage.frees_at_ms == of_a[0] + PERIOD_MS
    site.clock.advance(PERIOD_MS + 1)
    later = await me.store.circumstances(waiting[2])
    assert later is not None
    assert (later.usage, later.partition_usage.claims) == (Usage(2, 0, None), 0)


async def test_a_window_with_room_frees_at_no_time(site: Site, me: Process) -> None:
    """“`frees_at_ms` is when the window has room for one more claim if it has none now”."""
    await me.queue(rate=Rate(3, 60.0))
    waiting = [await me.waiting() for _ in range(3)]
    await me.claim_shared(limit=2)
    found = await me.store.circumstances(waiting[2].workflow_id)
    assert found is not None
    assert found.usage == Usage(2, 2, None)


async def test_what_comes_before_it_is_counted(site: Site, me: Process) -> None:
    """“`ahead` counts ENQUEUED rows of the queue that come before it”: by priority, creation and
    id."""
    now = await me.store.now_ms()
    await site.foreign("b", priority=2, created_at=now)
    for name, columns in {
        "urgent": {"priority": 1, "created_at": now + 9},
        "earlier": {"priority": 2, "created_at": now - 1},
        "a": {"priority": 2, "created_at": now},
        "c": {"priority": 2, "created_at": now},
        "later": {"priority": 2, "created_at": now + 1},
        "patient": {"priority": 3, "created_at": now - 9},
        "running": {"status": "PENDING", "created_at": now - 9},
        "delayed": {"status": "DELAYED", "created_at": now - 9},
        "elsewhere": {"queue_name": "another", "created_at": now - 9},
        "theirs": {"application_name": "other", "created_at": now - 9},
    }.items():
        await site.foreign(name, **columns)
    found = await me.store.circumstances(rows.wid("b"))
    assert found is not None
    assert found.ahead == 3


async def test_no_more_than_a_thousand_are_counted(site: Site, me: Process) -> None:
    """“`ahead` counts …, up to 1,000”."""
    for number in range(3):
        await me.start(*[rows.enqueued(f"w{number}{index:03}") for index in range(400)])
        site.clock.advance(1)
    found = await me.store.circumstances(rows.wid("w2399"))
    assert found is not None
    assert found.ahead == 1000
    found = await me.store.circumstances(rows.wid("w1199"))
    assert found is not None
    assert found.ahead == 599


async def test_processes_are_those_that_live(site: Site, me: Process) -> None:
    """“Processes and counts are of the row's application”; “A process whose lease stands, was not
    taken and has not run out”."""
    waiting = await me.waiting()
    other = await site.process(me.store, version="v2")
    late = await site.process(me.store)
    taken = await site.process(me.store)
    await taken.running()
    await taken.running()
    await taken.link.close()
    site.clock.advance(rows.PERIOD_MS + 1)
    assert not (await me.store.take_over(await me.accuse(taken), 1)).finished
    await me.beat()
    await other.beat()
    found = await me.store.circumstances(waiting.workflow_id)
    assert found is not None
    assert sorted(found.processes, key=lambda seen: seen.executor_id) == sorted(
        (ProcessSeen(process.executor, process.lease.serves) for process in (me, other)),
        key=lambda seen: seen.executor_id,
    )
    await late.beat()
    found = await me.store.circumstances(waiting.workflow_id)
    assert found is not None
    assert late.executor in {seen.executor_id for seen in found.processes}


async def test_a_lease_may_not_say_what_its_process_serves(site: Site, me: Process) -> None:
    """“`serves` is None where the lease does not say”: one written before leases said it."""
    waiting = await me.waiting()
    leases = "leases" if site.kind == "postgres" else "perdure_leases"
    await site.backdoor.run(f"UPDATE {leases} SET serves = NULL")
    found = await me.store.circumstances(waiting.workflow_id)
    assert found is not None
    assert found.processes == (ProcessSeen(me.executor, None),)


@pytest.mark.parametrize("status", ["PENDING", "SUCCESS", "CANCELLED", "DELAYED"])
async def test_a_workflow_in_any_state_has_them(site: Site, me: Process, status: str) -> None:
    """“None if there is no such row”: there is one whatever its state."""
    workflow_id = await site.foreign(status=status)
    found = await me.store.circumstances(workflow_id)
    assert found is not None
    assert found.row.state.value == status


async def test_counts_are_of_the_rows_application(site: Site, me: Process) -> None:
    """“Processes and counts are of the row's application (this one where it has none)”."""
    await pending(site, 2, "theirs/x", application_name="other")
    await pending(site, 1, "ours/x", application_name="app")
    await site.insert("queues", queue_id="1", name=rows.QUEUE, application_name="other")
    theirs = await site.foreign(application_name="other")
    found = await me.store.circumstances(theirs)
    assert found is not None
    assert found.running == (("theirs/x", 2),)
    assert found.processes == ()
    nobodys = await site.foreign()
    found = await me.store.circumstances(nobodys)
    assert found is not None
    assert found.running == (("ours/x", 1),)
    assert [seen.executor_id for seen in found.processes] == [me.executor]


async def test_the_latest_version_is_told(site: Site, me: Process) -> None:
    """“`latest_version` is the latest registered one”."""
    waiting = await me.waiting()
    for version in ("v1", "v2"):
        await me.store.register_version(version)
        site.clock.advance(10)
    found = await me.store.circumstances(waiting.workflow_id)
    assert found is not None
    assert found.latest_version == "v2"
