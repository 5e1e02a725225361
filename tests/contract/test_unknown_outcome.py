"""Calls whose answer got lost: each is made again with the same arguments and learns the truth.

The answer of the first statement is cut on its way back from a Postgres server that has committed
it, or the statement is cut before the server saw it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from perdure.errors import DatabaseUnavailable
from perdure.model.answer import AnswerKind
from perdure.model.management import Resume
from perdure.model.queue import Rate
from perdure.model.workflow import Fence
from tests.support import rows
from tests.support.database import PostgresDatabase
from tests.support.proxy import FaultProxy
from tests.support.store import Process, Site, kinds, open_site
from tests.support.waiting import eventually

WRITTEN, MINE, LOST = AnswerKind.WRITTEN, AnswerKind.MINE, AnswerKind.LOST
CUT = pytest.mark.parametrize("committed", [True, False])


@pytest.fixture
async def proxy(postgres_database: PostgresDatabase) -> AsyncIterator[FaultProxy]:
    """What stands between the store and its server."""
    async with FaultProxy(postgres_database.url) as opened:
        yield opened


@pytest.fixture
async def site(postgres_database: PostgresDatabase, proxy: FaultProxy) -> AsyncIterator[Site]:
    """A site whose stores go through the proxy, and whose backdoor does not."""
    behind = PostgresDatabase(proxy.url(postgres_database.url))
    async with open_site(behind, postgres_database.backdoor()) as opened:
        yield opened


async def cut(proxy: FaultProxy, committed: bool, call: Callable[[], Awaitable[Any]]) -> None:
    """Make the call, whose first statement is cut off before or after the server's commit."""
    fault = proxy.cut_answer("") if committed else proxy.cut_request("")
    with pytest.raises(DatabaseUnavailable):
        await call()
    assert fault.fired.is_set()


@CUT
async def test_a_start(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“*mine*: a row with the same id and the same `creator` stands; an earlier try got
    through”."""
    parent = await me.running()
    batch = [
        *rows.starts(rows.direct(), rows.enqueued(deduplication_id="d")),
        rows.child_of(parent, 1, rows.direct()),
    ]
    await cut(proxy, committed, lambda: me.store.start(batch, me.executor))
    assert await site.exists(batch[0].workflow.workflow_id) is committed
    expected = MINE if committed else WRITTEN
    assert kinds(await me.store.start(batch, me.executor)) == [expected] * 3
    assert len(await site.steps(parent.workflow_id)) == 1


@CUT
async def test_a_record(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“*mine*: the step id holds a row with the same name and `completed_at_ms`”."""
    one, two = await me.running(), await me.running()
    await me.store.record([rows.checkpoint(one, 99)])
    batch = [rows.checkpoint(one, 1), rows.checkpoint(two, 1), rows.checkpoint(one, 2)]
    await cut(proxy, committed, lambda: me.store.record(batch))
    assert len(await site.steps(two.workflow_id)) == int(committed)
    expected = MINE if committed else WRITTEN
    assert kinds(await me.store.record(batch)) == [expected] * 3
    assert [step["function_id"] for step in await site.steps(one.workflow_id)] == [1, 2, 99]


@CUT
async def test_a_finish(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“*mine*: the row is terminal already, `standing` is its recorded outcome”."""
    warm, run = await me.running(), await me.running()
    await me.store.finish([rows.finish(warm)])
    batch = [rows.finish(run, text='"out"')]
    await cut(proxy, committed, lambda: me.store.finish(batch))
    (answer,) = await me.store.finish(batch)
    assert answer.kind is (MINE if committed else WRITTEN)
    assert (answer.standing.output if answer.standing else None) == ('"out"' if committed else None)
    assert (await site.read(run.workflow_id)).output == '"out"'


@CUT
async def test_a_release(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“*written*, *busy*, or *lost* for anything else”: nothing is given back twice."""
    warm, run = await me.running(), await me.running()
    await me.store.release([rows.release(warm)])
    await site.update(run.workflow_id, recovery_attempts=5)
    batch = [rows.release(run)]
    await cut(proxy, committed, lambda: me.store.release(batch))
    assert kinds(await me.store.release(batch)) == [LOST if committed else WRITTEN]
    row = await site.status(run.workflow_id)
    assert (row["status"], row["recovery_attempts"]) == ("ENQUEUED", 4)


@CUT
async def test_a_claim(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“Repeating a call with the same token after an unknown outcome also returns the rows the
    first try claimed (PENDING rows bearing the token)”."""
    await me.claim()
    waiting = [await me.waiting(f"w{number}") for number in range(3)]
    request = rows.claim(me.executor, limit=2)
    await cut(proxy, committed, lambda: me.store.claim(request))
    claimed = await me.store.claim(request)
    assert [run.workflow_id for run in claimed] == [w.workflow_id for w in waiting[:2]]
    assert {run.attempts for run in claimed} == {1}
    fences = [Fence(run.workflow_id, request.claimant.token) for run in claimed]
    assert await me.store.lost(fences) == []


@CUT
@pytest.mark.parametrize("statement", ["", "COMMIT;"])
async def test_a_claim_under_limits(
    site: Site, me: Process, proxy: FaultProxy, committed: bool, statement: str
) -> None:
    """“Repeating a call with the same token after an unknown outcome also returns the rows the
    first try claimed”: within the limits, of which nothing is spent twice."""
    await me.queue(concurrency=3, rate=Rate(3, 60.0))
    await me.claim_shared()
    waiting = [await me.waiting(f"w{number}") for number in range(4)]
    request = rows.shared_claim(me.executor, (rows.load(),), limit=2)
    fault = proxy.cut_answer(statement) if committed else proxy.cut_request(statement)
    with pytest.raises(DatabaseUnavailable):
        await me.store.claim_shared(request)
    assert fault.fired.is_set()
    claim = await me.store.claim_shared(request)
    while claim.turns[0].contended:
        # The server has not yet noticed that the connection of the first try is gone.
        claim = await me.store.claim_shared(request)
    assert [run.workflow_id for run in claim.runs] == [w.workflow_id for w in waiting[:2]]
    assert {run.attempts for run in claim.runs} == {1}
    assert len(await site.own("rate_log")) == await site.pending() == 2
    assert (await me.turn()).taken == 1


@CUT
async def test_a_sweep(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“every method is safe to repeat after an unknown outcome”."""
    due, late = await me.waiting(delay_ms=1), await me.waiting(deadline_ms=5)
    site.clock.advance(1000)
    await cut(proxy, committed, me.sweep)
    await me.sweep()
    states = [(await site.status(run.workflow_id))["status"] for run in (due, late)]
    assert states == ["ENQUEUED", "CANCELLED"]


@CUT
async def test_a_registration(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“every method is safe to repeat after an unknown outcome”: also what registers, changes,
    pauses and deletes a queue."""
    await cut(proxy, committed, partial(me.queue, concurrency=2))
    assert (await me.queue(concurrency=2)).settings == rows.queue(concurrency=2)
    settings = rows.queue(concurrency=3)
    change = partial(me.store.change_queue, rows.QUEUE, lambda _: settings)
    await cut(proxy, committed, change)
    await change()
    pause = partial(me.store.pause_queue, rows.QUEUE, paused=True)
    await cut(proxy, committed, pause)
    await pause()
    (row,) = await me.store.queues()
    assert (row.settings, row.is_paused) == (settings, True)
    delete = partial(me.store.delete_queue, rows.QUEUE)
    await cut(proxy, committed, delete)
    await delete()
    assert (await me.store.queues(), await site.own("queue_settings")) == ([], [])


@CUT
async def test_a_cancel(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“every method is safe to repeat after an unknown outcome”."""
    run = await me.running()
    await me.cancel([rows.wid()])
    await cut(proxy, committed, lambda: me.cancel([run.workflow_id]))
    assert await me.cancel([run.workflow_id]) == [run.workflow_id]
    assert (await site.status(run.workflow_id))["status"] == "CANCELLED"


@CUT
async def test_a_command_of_a_step(
    site: Site, me: Process, proxy: FaultProxy, committed: bool
) -> None:
    """“*mine*: the step id holds a row of that name, a repeated try's …, and nothing is done
    again”; a try that was not committed is made as if it were the first."""
    run, other = await me.running(), await me.running()
    await me.cancel([rows.wid()])
    command = partial(me.store.manage, Resume((other.workflow_id,), rows.QUEUE), rows.caller(run))
    fault = proxy.cut_answer("COMMIT;") if committed else proxy.cut_request("COMMIT;")
    with pytest.raises(DatabaseUnavailable):
        await command()
    assert fault.fired.is_set()
    state = (await site.status(other.workflow_id))["status"]
    assert state == ("ENQUEUED" if committed else "PENDING")
    assert len(await site.steps(run.workflow_id)) == int(committed)
    assert (await command()).kind is (MINE if committed else WRITTEN)
    assert len(await site.steps(run.workflow_id)) == 1
    assert (await site.status(other.workflow_id))["status"] == "ENQUEUED"


@CUT
async def test_a_version(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“every method is safe to repeat after an unknown outcome”."""
    await me.store.register_version("v0")
    await cut(proxy, committed, lambda: me.store.register_version("v1"))
    await me.store.register_version("v1")
    found = await site.backdoor.rows("SELECT version_name FROM application_versions")
    assert sorted(row["version_name"] for row in found) == ["v0", "v1"]


@pytest.mark.parametrize("statement", range(1, 7))
@CUT
async def test_a_takeover(
    site: Site, me: Process, proxy: FaultProxy, committed: bool, statement: int
) -> None:
    """“every method is safe to repeat after an unknown outcome”: wherever it was cut off."""
    victim = await site.process(me.store)
    runs = [await victim.running() for _ in range(3)]
    await victim.link.close()
    site.clock.advance(victim.lease.period_ms + 1)
    suspect = await me.accuse(victim)
    arm = proxy.cut_answer if committed else proxy.cut_request
    fault = arm("", nth=statement)
    with pytest.raises(DatabaseUnavailable):
        await me.store.take_over(suspect, 10)
    assert fault.fired.is_set()

    async def is_over() -> bool:
        # Refused while the server has not yet noticed that the connection of the first try is gone.
        return (await me.store.take_over(suspect, 10)).finished

    await eventually(is_over)
    states = {(await site.status(run.workflow_id))["status"] for run in runs}
    assert states == {"ENQUEUED"}
    assert await me.suspicion(victim) is None


@CUT
async def test_the_end_of_a_lease(
    site: Site, me: Process, proxy: FaultProxy, committed: bool
) -> None:
    """“every method is safe to repeat after an unknown outcome”."""
    leaving = await site.process(me.store)
    await leaving.link.close()
    await me.store.end_lease(rows.boot_id())
    await cut(proxy, committed, lambda: me.store.end_lease(leaving.boot))
    await me.store.end_lease(leaving.boot)
    assert await me.suspicion(leaving) is None


@CUT
async def test_a_heartbeat(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“A link that lost its connection raises `DatabaseUnavailable`; the thread closes it and opens
    another for the same boot”."""
    other = await site.process(me.store)
    await other.beat()
    await cut(proxy, committed, other.beat)
    await other.link.close()
    other.link = me.store.heartbeat_link()
    assert await other.link.open(other.lease)
    assert (await other.beat()).held
    await other.link.close()
