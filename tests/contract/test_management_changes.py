"""`ManagementStore.manage` of a `Resume`, a `SetDelay` and a `SetAttributes`."""

import json
from typing import Any

import pytest

from perdure.errors import WorkflowNotFound
from perdure.model.ids import WorkflowId
from perdure.model.management import Resume, SetAttributes, SetDelay
from perdure.model.wire import INTERNAL_QUEUE
from tests.support import rows
from tests.support.store import Process, Site

RESUMABLE = ["ENQUEUED", "DELAYED", "PENDING", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]


@pytest.mark.parametrize("status", RESUMABLE)
async def test_every_row_without_outcome_can_be_resumed(
    site: Site, me: Process, status: str
) -> None:
    """“Rows whose state is not SUCCESS or ERROR become ENQUEUED on the queue: owner, start time,
    completion, deadline and deduplication id NULL, attempts 0, `updated_at` now; the timeout, the
    partition key and the version stay”."""
    found = await site.foreign(
        status=status,
        owner_xid="somebody",
        deduplication_id="d",
        started_at_epoch_ms=5,
        completed_at=6,
        recovery_attempts=3,
        workflow_timeout_ms=7,
        workflow_deadline_epoch_ms=8,
        queue_partition_key="k",
        application_version="v0",
    )
    begun = await me.store.now_ms()
    managed = await me.managed(Resume((found,), "other"))
    ended = await me.store.now_ms()
    assert (managed.ids, managed.refusal) == ((found,), None)
    row = await site.status(found)
    assert (row["status"], row["queue_name"], row["recovery_attempts"]) == ("ENQUEUED", "other", 0)
    cleared = (
        "owner_xid",
        "started_at_epoch_ms",
        "completed_at",
        "workflow_deadline_epoch_ms",
        "deduplication_id",
    )
    assert [row[column] for column in cleared] == [None] * 5
    assert begun <= row["updated_at"] <= ended
    assert (row["workflow_timeout_ms"], row["queue_partition_key"]) == (7, "k")
    assert row["application_version"] == "v0"


@pytest.mark.parametrize("status", ["SUCCESS", "ERROR"])
async def test_an_outcome_stands_against_a_resume(site: Site, me: Process, status: str) -> None:
    """“those that succeeded or failed are left alone”."""
    ended = await site.foreign(status=status)
    before = await site.status(ended)
    other = await site.foreign(status="CANCELLED")
    assert (await me.managed(Resume((ended, other)))).ids == (other,)
    assert await site.status(ended) == before
    assert (await site.status(other))["queue_name"] == INTERNAL_QUEUE


async def test_a_missing_id_refuses_a_resume_as_a_whole(site: Site, me: Process) -> None:
    """“a missing id is refused (`WorkflowNotFound`)”; “a command that is refused changes
    nothing”."""
    found = await site.foreign(status="CANCELLED")
    managed = await me.managed(Resume((found, rows.wid("none"), rows.wid("no other"))))
    assert managed.ids == ()
    assert isinstance(managed.refusal, WorkflowNotFound)
    assert managed.refusal.workflow_id == "none"
    assert (await site.status(found))["status"] == "CANCELLED"


async def test_a_resumed_run_is_taken_from_who_runs_it(me: Process) -> None:
    """“Needs no ownership of the rows: it takes it away from whoever runs them”."""
    run = await me.running()
    await me.managed(Resume((run.workflow_id,), rows.QUEUE))
    assert await me.store.lost([rows.fence_of(run)]) == [run.workflow_id]
    (claimed,) = await me.claim()
    assert (claimed.workflow_id, claimed.attempts) == (run.workflow_id, 1)


async def test_a_delay_is_counted_from_now(site: Site, me: Process) -> None:
    """“To `until_ms`, or else to `delay_ms` from now”; “`delay_until` and `updated_at`”."""
    waiting = (await me.waiting(delay_ms=3_600_000)).workflow_id
    before = await site.status(waiting)
    site.clock.advance(100)
    begun = await me.store.now_ms()
    assert (await me.managed(SetDelay((waiting,), delay_ms=5_000))).ids == (waiting,)
    ended = await me.store.now_ms()
    row = await site.status(waiting)
    assert begun <= row["updated_at"] <= ended
    assert row["delay_until_epoch_ms"] == row["updated_at"] + 5_000
    changed = {column for column in row if row[column] != before[column]}
    assert changed == {"delay_until_epoch_ms", "updated_at"}
    await me.managed(SetDelay((waiting,), until_ms=7))
    assert (await site.status(waiting))["delay_until_epoch_ms"] == 7
    assert (await me.sweep()).moved == 1


async def test_a_delay_ends_at_the_last_instant(site: Site, me: Process) -> None:
    """“the instant at which DELAYED workflows become ENQUEUED”: there is a last one."""
    waiting = (await me.waiting(delay_ms=1)).workflow_id
    await me.managed(SetDelay((waiting,), delay_ms=2**63 - 1))
    assert (await site.status(waiting))["delay_until_epoch_ms"] == 2**63 - 1


@pytest.mark.parametrize("status", ["ENQUEUED", "PENDING", "SUCCESS", "CANCELLED"])
async def test_only_what_is_delayed_is_moved(site: Site, me: Process, status: str) -> None:
    """“DELAYED workflows …; others are left alone. … The result names the ids that were moved”."""
    other = await site.foreign(status=status)
    before = await site.status(other)
    waiting = (await me.waiting(delay_ms=1)).workflow_id
    asked = (other, rows.wid("none"), waiting)
    assert (await me.managed(SetDelay(asked, delay_ms=50))).ids == (waiting,)
    assert await site.status(other) == before


async def attributes(site: Site, workflow_id: WorkflowId) -> Any:
    """What is stored, as the text of a value; None for NULL."""
    text = (await site.status(workflow_id))["attributes"]
    return None if text is None else json.loads(text)


async def test_attributes_are_replaced_or_cleared(site: Site, me: Process) -> None:
    """“Replace a workflow's attributes”; “or None: cleared”; “`attributes` and `updated_at`”."""
    run = (await me.running(attributes='{"a": 1, "b": {"c": 2}}')).workflow_id
    before = await site.status(run)
    site.clock.advance(100)
    managed = await me.managed(SetAttributes(run, '{"b": null, "ü": [1.5]}'))
    assert managed.ids == (run,)
    assert await attributes(site, run) == {"b": None, "ü": [1.5]}
    row = await site.status(run)
    changed = {column for column in row if row[column] != before[column]}
    assert changed == {"attributes", "updated_at"}
    await me.managed(SetAttributes(run, None))
    assert await attributes(site, run) is None


async def test_attributes_are_merged(site: Site, me: Process) -> None:
    """“or merge into them (top-level keys; a null value is stored)”."""
    run = (await me.running(attributes='{"a": 1, "b": {"c": 2}, "d": true}')).workflow_id
    await me.managed(SetAttributes(run, '{"a": null, "b": {"e": 3}}', merge=True))
    assert await attributes(site, run) == {"a": None, "b": {"e": 3}, "d": True}
    await me.managed(SetAttributes(run, None, merge=True))
    assert await attributes(site, run) == {"a": None, "b": {"e": 3}, "d": True}


@pytest.mark.parametrize("base", [None, "null", "3", '["a"]', '"text"'])
async def test_a_base_that_is_no_object_is_an_empty_one(
    site: Site, me: Process, base: str | None
) -> None:
    """“a base that is no object counts as an empty one”."""
    run = (await me.running(attributes=base)).workflow_id
    await me.managed(SetAttributes(run, '{"a": 1}', merge=True))
    assert await attributes(site, run) == {"a": 1}


@pytest.mark.parametrize("merge", [False, True])
async def test_attributes_of_what_does_not_exist_are_refused(me: Process, merge: bool) -> None:
    """“`WorkflowNotFound` if there is no such row”."""
    managed = await me.managed(SetAttributes(rows.wid("none"), "{}", merge=merge))
    assert isinstance(managed.refusal, WorkflowNotFound)
