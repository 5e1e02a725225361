"""`RunStore.cancel`, `RunStore.lost` and `RunStore.owned`."""

import pytest

from perdure.model.answer import AnswerKind
from perdure.model.ids import ExecutorId
from perdure.model.workflow import Fence
from tests.support import rows
from tests.support.store import Process, Site, kinds

CLEARED = ("owner_xid", "queue_name", "deduplication_id", "started_at_epoch_ms")


@pytest.mark.parametrize(
    "status", ["ENQUEUED", "DELAYED", "PENDING", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
)
async def test_every_row_without_outcome_can_be_cancelled(
    site: Site, me: Process, status: str
) -> None:
    """“Make every given row that is not SUCCESS or ERROR CANCELLED; return the ids changed. Clears
    owner, queue name, deduplication id and start time; sets `completed_at` and `updated_at`”."""
    found = await site.foreign(
        status=status,
        owner_xid="somebody",
        deduplication_id="d",
        started_at_epoch_ms=5,
        recovery_attempts=3,
        workflow_timeout_ms=7,
        workflow_deadline_epoch_ms=8,
        delay_until_epoch_ms=9,
        executor_id="theirs",
    )
    begun = await me.store.now_ms()
    assert await me.store.cancel([found]) == [found]
    ended = await me.store.now_ms()
    row = await site.status(found)
    assert row["status"] == "CANCELLED"
    assert [row[column] for column in CLEARED] == [None] * 4
    assert begun <= row["completed_at"] == row["updated_at"] <= ended
    assert row["recovery_attempts"] == 3
    assert (row["workflow_timeout_ms"], row["workflow_deadline_epoch_ms"]) == (7, 8)
    assert (row["delay_until_epoch_ms"], row["executor_id"]) == (9, "theirs")
    assert await site.payload("workflow_output", found) is None


@pytest.mark.parametrize("status", ["SUCCESS", "ERROR"])
async def test_an_outcome_stands_against_a_cancel(site: Site, me: Process, status: str) -> None:
    """“every given row that is not SUCCESS or ERROR”."""
    found = await site.foreign(status=status)
    before = await site.status(found)
    assert await me.store.cancel([found]) == []
    assert await site.status(found) == before


async def test_only_the_changed_ids_are_returned(site: Site, me: Process) -> None:
    """“return the ids changed”: an unknown id and an ended row are not among them."""
    done = await site.foreign(status="SUCCESS")
    one, two = await me.running("a::%"), await me.waiting("b_'")
    asked = [two.workflow_id, rows.wid("unknown"), done, one.workflow_id]
    assert set(await me.store.cancel(asked)) == {one.workflow_id, two.workflow_id}
    assert await me.store.cancel([]) == []


async def test_an_id_given_twice_is_cancelled_once(me: Process) -> None:
    """“return the ids changed”: each once."""
    run = await me.running()
    assert await me.store.cancel([run.workflow_id] * 2) == [run.workflow_id]


async def test_a_cancelled_run_can_write_nothing_more(site: Site, me: Process) -> None:
    """“Needs no ownership: it takes it away”."""
    run = await me.running()
    stranger = site.stranger(await site.store())
    await stranger.store.cancel([run.workflow_id])
    answers = await me.store.record([rows.checkpoint(run)])
    assert kinds(answers) == [AnswerKind.LOST]
    assert kinds(await me.store.release([rows.release(run)])) == [AnswerKind.LOST]
    assert kinds(await me.start(rows.child_of(run, 1, rows.direct()))) == [AnswerKind.LOST]
    assert await site.steps(run.workflow_id) == []


async def test_a_thousand_rows_are_cancelled_at_once(site: Site, me: Process) -> None:
    """“Make every given row … CANCELLED”."""
    batch = [rows.enqueued() for _ in range(1000)]
    await me.start(*batch)
    ids = [item.workflow_id for item in batch]
    assert set(await me.store.cancel(ids)) == set(ids)
    left = await site.backdoor.rows(
        "SELECT COUNT(*) AS n FROM workflow_status WHERE status <> 'CANCELLED'"
    )
    assert left[0]["n"] == 0


async def test_lost_names_the_executions_that_no_longer_hold(site: Site, me: Process) -> None:
    """“Of these executions, the ones whose row is no longer PENDING under their owner token”."""
    names = ("held", "cancelled", "finished", "released", "taken", "orphan")
    runs = {name: await me.running() for name in names}
    await me.store.cancel([runs["cancelled"].workflow_id])
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
    await me.store.cancel([run.workflow_id for run in batch[::100]])
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
