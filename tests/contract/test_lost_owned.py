"""`ClaimStore.lost` and `owned`."""

from perdure.model.ids import ExecutorId
from perdure.model.workflow import Fence
from tests.support import rows
from tests.support.store import Process, Site


async def test_lost_names_the_executions_that_no_longer_hold(site: Site, me: Process) -> None:
    """“Of these executions, the ones whose row is no longer PENDING under their owner token”."""
    names = ("held", "cancelled", "finished", "released", "taken", "orphan")
    runs = {name: await me.running() for name in names}
    await me.cancel([runs["cancelled"].workflow_id])
    await me.store.finish([rows.finish(runs["finished"])])
    await me.store.release([rows.release(runs["released"])])
    await site.update(runs["taken"].workflow_id, owner_xid="the next")
    await site.update(runs["orphan"].workflow_id, owner_xid=None)
    gone = Fence(rows.wid("gone"), rows.token())
    asked = [rows.fence_of(run) for run in runs.values()] + [gone]
    expected = {run.workflow_id for name, run in runs.items() if name != "held"} | {"gone"}
    assert set(await me.store.lost(asked)) == expected


async def test_lost_tells_two_owners_of_one_run_apart(me: Process) -> None:
    """“the ones whose row is no longer PENDING under their owner token”."""
    run = await me.running()
    assert await me.store.lost([rows.fence_of(run)]) == []
    assert await me.store.lost([Fence(run.workflow_id, rows.token())]) == [run.workflow_id]
    assert await me.store.lost([]) == []


async def test_lost_takes_a_thousand_fences(me: Process) -> None:
    """“Of these executions, the ones …”: one call for all that a process runs."""
    batch = [rows.direct() for _ in range(1000)]
    await me.start(*batch)
    await me.cancel([run.workflow_id for run in batch[::100]])
    lost = await me.store.lost([rows.fence_of(run) for run in batch])
    assert sorted(lost) == sorted(run.workflow_id for run in batch[::100])


async def test_owned_lists_every_pending_row_of_the_executor(site: Site, me: Process) -> None:
    """“Every PENDING row of this executor with its owner token (rows without one left out)”."""
    other = await site.process()
    runs = [await me.running() for _ in range(3)]
    await me.waiting()
    await other.running()
    ended = await me.running()
    await me.store.finish([rows.finish(ended)])
    bare = await me.running()
    await site.update(bare.workflow_id, owner_xid=None)
    assert set(await me.store.owned(me.executor)) == {rows.fence_of(run) for run in runs}
    assert await me.store.owned(ExecutorId("nobody/boot-none")) == []


async def test_owned_follows_a_claim(me: Process) -> None:
    """“Every PENDING row of this executor with its owner token”."""
    await me.waiting()
    (run,) = await me.claim()
    assert await me.store.owned(me.executor) == [Fence(run.workflow_id, run.owner)]
    await me.store.release([rows.release(Fence(run.workflow_id, run.owner))])
    assert await me.store.owned(me.executor) == []
