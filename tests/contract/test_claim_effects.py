"""`ClaimStore.claim`: what it writes into a row, and what it returns about it."""

from collections.abc import Sequence
from typing import Any

import pytest

from perdure.model.ids import OwnerToken, WorkflowId
from perdure.model.principal import Principal
from perdure.model.workflow import ClaimedRun, Fence, WorkflowKey
from tests.support import rows
from tests.support.store import Process, Site

LARGEST = 2**63 - 1


async def test_a_claim_takes_the_row_for_its_process(site: Site, me: Process) -> None:
    """“Sets state PENDING, owner = `token`, executor, version, application, start time,
    `rate_limited` false, attempts + 1, `updated_at`”."""
    other = await site.process()
    waiting = await other.waiting(deduplication_id="d", priority=4, partition_key="p")
    await site.update(waiting.workflow_id, rate_limited=True, recovery_attempts=2)
    before = await site.status(waiting.workflow_id)
    site.clock.advance(5)
    begun = await me.store.now_ms()
    mine = rows.token()
    await me.claim(token=mine)
    ended = await me.store.now_ms()
    after = await site.status(waiting.workflow_id)
    assert after["status"] == "PENDING"
    assert after["owner_xid"] == mine
    assert after["executor_id"] == me.executor
    assert after["application_version"] == rows.VERSION
    assert after["application_name"] == "app"
    assert begun <= after["started_at_epoch_ms"] <= ended
    assert begun <= after["updated_at"] <= ended
    assert not after["rate_limited"]
    assert after["recovery_attempts"] == 3
    kept = {
        "creator_xid",
        "deduplication_id",
        "priority",
        "queue_name",
        "queue_partition_key",
        "created_at",
        "workflow_deadline_epoch_ms",
        "completed_at",
        "serialization",
        "name",
    }
    assert {column: after[column] for column in kept} == {c: before[c] for c in kept}


async def test_a_claim_returns_all_that_running_needs(site: Site, me: Process) -> None:
    """“One claimed row with all that running it needs”."""
    parent = await me.running()
    waiting = await me.waiting(
        name="f",
        class_name="C",
        config_name="x",
        inputs='{"π":1}',
        partition_key="p",
        parent_workflow_id=parent.workflow_id,
        authenticated_user="bob",
        authenticated_roles='["staff", "boss"]',
        assumed_role="boss",
    )
    mine = rows.token()
    (run,) = await me.claim(token=mine, keys=(WorkflowKey("f", "C", "x"),))
    stored = await site.status(waiting.workflow_id)
    assert run == ClaimedRun(
        workflow_id=waiting.workflow_id,
        owner=mine,
        key=WorkflowKey("f", "C", "x"),
        inputs='{"π":1}',
        serialization="portable_json",
        attempts=1,
        may_have_steps=False,
        queue_name=rows.QUEUE,
        partition_key="p",
        timeout_ms=None,
        deadline_ms=None,
        deadline_left_ms=None,
        parent_workflow_id=parent.workflow_id,
        created_at_ms=stored["created_at"],
        principal=Principal("bob", ("staff", "boss"), "boss"),
    )


@pytest.mark.parametrize("limit", [None, "concurrency", "partition_concurrency"])
async def test_a_claim_tells_whether_there_is_a_history(
    site: Site, me: Process, limit: str | None
) -> None:
    """“Unless it `may_have_steps` it has no history to read: nothing was recorded before this
    claim”: whatever the attempts say, and also where it is repeated."""
    limits: dict[str, Any] = {} if limit is None else {limit: 9}
    await me.queue(partitioned=limit == "partition_concurrency", **limits)

    async def claimed(mine: OwnerToken) -> Sequence[ClaimedRun]:
        if limit is None:
            return await me.claim(token=mine)
        return (await me.claim_shared(token=mine)).runs

    for name in ("recorded", "bare", "counted"):
        await me.waiting(name, partition_key="p")
    for run in await claimed(rows.token()):
        assert not run.may_have_steps
        fence = Fence(run.workflow_id, run.owner)
        if run.workflow_id == "recorded":
            await me.store.record([rows.checkpoint(fence)])
        give_back = run.workflow_id != "counted"
        await me.store.release([rows.release(fence, give_back=give_back)])
    await me.waiting("new", partition_key="p")
    again = rows.token()
    for _ in range(2):
        found = {run.workflow_id: run.may_have_steps for run in await claimed(again)}
        assert found == {"recorded": True, "bare": False, "counted": True, "new": False}


async def test_all_rows_of_a_claim_share_its_token(me: Process) -> None:
    """“`token` is the owner token every row of the claim gets”."""
    await me.start(*[rows.enqueued() for _ in range(20)])
    mine = rows.token()
    assert {run.owner for run in await me.claim(token=mine)} == {mine}


async def test_a_timeout_starts_with_the_claim(site: Site, me: Process) -> None:
    """“the deadline (kept if set, else database clock + timeout)”."""
    waiting = await me.waiting(timeout_ms=60_000)
    site.clock.advance(3_600_000)
    begun = await me.store.now_ms()
    (run,) = await me.claim()
    ended = await me.store.now_ms()
    assert run.deadline_ms is not None
    assert run.deadline_left_ms is not None
    assert begun + 60_000 <= run.deadline_ms <= ended + 60_000
    assert 0 <= 60_000 - run.deadline_left_ms <= ended - begun
    assert run.timeout_ms == 60_000
    row = await site.status(waiting.workflow_id)
    assert row["workflow_deadline_epoch_ms"] == run.deadline_ms


async def test_a_deadline_is_kept(site: Site, me: Process) -> None:
    """“the deadline (kept if set …)”; “`deadline_left_ms` is measured by the database”."""
    deadline = await me.store.now_ms() + 50_000
    await me.waiting(timeout_ms=5, deadline_ms=deadline)
    site.clock.advance(20_000)
    begun = await me.store.now_ms()
    (run,) = await me.claim()
    ended = await me.store.now_ms()
    assert run.deadline_ms == deadline
    assert run.deadline_left_ms is not None
    assert deadline - ended <= run.deadline_left_ms <= deadline - begun


async def test_the_deadline_of_a_second_claim_is_that_of_the_first(site: Site, me: Process) -> None:
    """“the deadline (kept if set …)”: a run taken up again does not get more time."""
    await me.waiting(timeout_ms=60_000)
    (first,) = await me.claim()
    await me.store.release([rows.release(Fence(first.workflow_id, first.owner))])
    site.clock.advance(61_000)
    (second,) = await me.claim()
    assert second.deadline_ms == first.deadline_ms
    assert second.deadline_left_ms is not None
    assert second.deadline_left_ms < 0


async def test_the_deadline_of_a_claim_saturates(site: Site, me: Process) -> None:
    """“database clock + timeout”: the sum stops at the largest number of the column."""
    waiting = await me.waiting(timeout_ms=LARGEST)
    (run,) = await me.claim()
    assert run.deadline_ms is not None
    assert run.deadline_ms == LARGEST
    row = await site.status(waiting.workflow_id)
    assert row["workflow_deadline_epoch_ms"] == LARGEST


@pytest.mark.parametrize("both", [False, True])
async def test_inputs_of_the_legacy_column_are_a_fallback(
    site: Site, me: Process, both: bool
) -> None:
    """“payloads prefer the payload tables over the legacy columns”."""
    found = await site.foreign(inputs='"legacy"')
    if both:
        await site.insert("workflow_input", workflow_uuid=found, inputs='"table"')
    (run,) = await me.claim()
    assert run.inputs == ('"table"' if both else '"legacy"')


async def test_the_smallest_row_of_another_program(site: Site, me: Process) -> None:
    """“One claimed row with all that running it needs”: NULL where there is nothing."""
    found = await site.foreign(serialization=None, recovery_attempts=None)
    (run,) = await me.claim()
    assert run.workflow_id == found
    assert run.key == rows.KEY
    assert (run.inputs, run.serialization, run.parent_workflow_id) == (None, None, None)
    assert run.attempts == 1
    assert (await site.status(found))["recovery_attempts"] == 1


async def test_a_foreign_owner_on_a_waiting_row_is_replaced(site: Site, me: Process) -> None:
    """“owner = `token`”: other programs leave a token on waiting rows."""
    found = await site.foreign(owner_xid="random")
    (run,) = await me.claim()
    assert (await site.status(found))["owner_xid"] == run.owner != "random"


async def test_ids_with_any_character_are_claimed(me: Process) -> None:
    """“Identifies a workflow in the whole database”: no character has a meaning."""
    odd = ["a::b", "100%", "x_y", "o'brien", '"q"', "☃😀", "a\\b", " "]
    await me.start(*[rows.enqueued(text, queue_name="q%_'::☃") for text in odd])
    claimed = await me.claim(queues=("q%_'::☃",))
    assert sorted(run.workflow_id for run in claimed) == sorted(odd)


async def test_attempts_count_every_claim(site: Site, me: Process) -> None:
    """“attempts + 1”."""
    found: WorkflowId = await site.foreign()
    for attempt in (1, 2, 3):
        (run,) = await me.claim()
        assert run.attempts == attempt
        fence = Fence(run.workflow_id, run.owner)
        await me.store.release([rows.release(fence, give_back=False)])
    assert (await site.status(found))["recovery_attempts"] == 3
