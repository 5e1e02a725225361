"""Liveness locks of links cut off, of processes killed, of servers restarted."""

import asyncio
import sys

import pytest

from perdure.errors import DatabaseUnavailable
from perdure.model.answer import AnswerKind
from perdure.model.ids import BootId
from perdure.model.lease import LeaseSeen, LockState
from tests.support import rows
from tests.support.database import PostgresDatabase, migrate
from tests.support.postgres import PostgresServer
from tests.support.process import ChildProcess
from tests.support.store import Process, Site, kinds, open_site
from tests.support.waiting import eventually

HOLDER = "tests.support.lease_holder"
shared = pytest.mark.parametrize("site_kind", ["sqlite", "postgres"])
on_postgres = pytest.mark.parametrize("site_kind", ["postgres"])


async def judged(me: Process, boot: BootId, lock: LockState) -> LeaseSeen:
    """What is held against the boot, once its lock shows that."""
    seen: list[LeaseSeen] = []

    async def shows() -> bool:
        found = await me.suspicion(boot)
        seen[:] = [found] if found else []
        return found is not None and found.lock is lock

    await eventually(shows)
    return seen[0]


@shared
async def test_the_lock_of_a_killed_process_is_free(site: Site, me: Process) -> None:
    """“Recorded, now free, and the server has not restarted since it was taken”."""
    boot = rows.boot_id()
    with ChildProcess("-m", HOLDER, site.database.url, boot) as child:
        assert await child.reaches("held") == "held True"
        assert await me.suspicion(boot) is None
        child.kill()
        seen = await judged(me, boot, LockState.FREE)
    assert (seen.overdue, seen.orphaned) == (False, False)
    assert (await me.store.take_over(seen, 10)).finished


@shared
async def test_a_stopped_process_holds_its_lock(site: Site, me: Process) -> None:
    """“Somebody holds it”: a process that stands still is not dead, only overdue after a while."""
    boot = rows.boot_id()
    with ChildProcess("-m", HOLDER, site.database.url, boot) as child:
        await child.reaches("held")
        child.pause()
        assert await me.suspicion(boot) is None
        site.clock.advance(rows.PERIOD_MS + 1)
        seen = await me.accuse(boot)
        assert (seen.lock, seen.overdue) == (LockState.HELD, True)


@on_postgres
async def test_a_link_whose_connection_was_cut_says_so(site: Site, me: Process) -> None:
    """“A link that lost its connection raises `DatabaseUnavailable`; the thread closes it and opens
    another for the same boot”."""
    other = await site.process()
    run = await other.running()
    await _cut_locks(site)
    seen = await judged(await site.process(), other.boot, LockState.FREE)
    assert not seen.overdue
    with pytest.raises(DatabaseUnavailable):
        await other.beat()
    await other.link.close()
    other.link = other.store.heartbeat_link()
    assert await other.link.open(other.lease)
    assert (await other.beat()).held
    assert (await me.store.take_over(seen, 10)).refused
    assert kinds(await other.store.record([rows.checkpoint(run)])) == [AnswerKind.WRITTEN]
    await other.link.close()


@on_postgres
async def test_a_link_calls_back_when_its_connection_breaks(site: Site, me: Process) -> None:
    """“Have `callback` called, in this link's loop, whenever its connection is found broken”."""
    other, broken = await site.process(), asyncio.Event()
    await other.link.close()
    other.link = other.store.heartbeat_link()
    other.link.when_lost(broken.set)
    await other.link.open(other.lease)
    await other.beat()
    assert not broken.is_set()
    await _cut_locks(site)
    async with asyncio.timeout(20):
        await broken.wait()
    await other.link.close()


async def _cut_locks(site: Site) -> None:
    await site.backdoor.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )


@on_postgres
async def test_every_store_call_survives_a_cut_of_its_connections(site: Site, me: Process) -> None:
    """“`DatabaseUnavailable` and `DatabaseConflict` may be retried with the same arguments”."""
    run = rows.direct()
    await me.start(run)
    for step in range(1, 6):
        await site.backdoor.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        for _ in range(20):
            try:
                (answer,) = await me.store.record([rows.checkpoint(run, step)])
            except DatabaseUnavailable:
                continue
            break
        assert answer.kind in (AnswerKind.WRITTEN, AnswerKind.MINE)
    assert len(await site.steps(run.workflow_id)) == 5


@pytest.mark.slow
async def test_after_a_restart_of_the_server_only_time_counts(own_postgres: PostgresServer) -> None:
    """“Not recorded, or recorded before the server restarted: only the lease's time counts”."""
    async with own_postgres.databases.fresh() as url:
        database = PostgresDatabase(url)
        await migrate(url)
        async with open_site(database) as site:
            judge, victim = await site.process(), await site.process()
            run = await victim.running()
            own_postgres.stop("fast")
            with pytest.raises(DatabaseUnavailable):
                await victim.beat()
            own_postgres.start()
            await _reopened(judge)
            assert await judge.suspicion(victim) is None
            site.clock.advance(victim.lease.period_ms + 1)
            seen = await judge.accuse(victim)
            assert (seen.lock, seen.overdue) == (LockState.UNKNOWN, True)
            await _reopened(victim)
            assert (await victim.beat()).held
            assert (await victim.store.lost([rows.fence_of(run)])) == []
            assert await judge.suspicion(victim) is None


async def _reopened(process: Process) -> None:
    await process.link.close()

    async def opened() -> bool:
        process.link = process.store.heartbeat_link()
        try:
            await process.link.open(process.lease)
        except DatabaseUnavailable:
            await process.link.close()
            return False
        return True

    await eventually(opened)
    # The pool still has connections of before the restart: they must not fail for ever.
    await eventually(lambda: _answers(process))


async def _answers(process: Process) -> bool:
    try:
        await process.store.now_ms()
    except DatabaseUnavailable:
        return False
    return True


@pytest.mark.skipif(sys.platform == "win32", reason="fork does not exist there")
@shared
async def test_a_lease_survives_the_end_of_its_link_thread(site: Site, me: Process) -> None:
    """“Give up lock and connection; the lease row stays”."""
    boot = rows.boot_id()
    with ChildProcess("-m", HOLDER, site.database.url, boot, "close") as child:
        child.succeed()
    seen = await judged(me, boot, LockState.FREE)
    assert (seen.overdue, seen.orphaned) == (False, False)
