"""`ApplicationStore`: giving what one application owns to another."""

from collections import Counter
from typing import Any

import pytest

from perdure.errors import ApplicationRunning
from perdure.model.application import Moved, Rename
from perdure.store.postgres import applications
from tests.support import rows
from tests.support.store import Process, Site

TO_NEW = Rename("old", "new")
WITH_UNCLAIMED = Rename("old", "new", unclaimed=True)
ADOPTION = Rename(None, "new", unclaimed=True)
OWNERS = ("old", "other", None)
SEVERAL = pytest.mark.parametrize("site_kind", ["sqlite", "postgres"])
"""A database in memory has one application."""

TABLES = (
    "queues",
    "workflow_schedules",
    "application_versions",
    "workflow_status",
    "operation_outputs",
)


async def fill(site: Site) -> None:
    """A row of every kind of each owner: of workflows one that waits, and two that ended."""
    for owner in OWNERS:
        await site.insert(
            "queues", queue_id=f"q {owner}", name=f"q {owner}", application_name=owner
        )
        await site.insert(
            "workflow_schedules",
            schedule_id=f"s {owner}",
            schedule_name=f"s {owner}",
            workflow_name="job",
            schedule="* * * * *",
            context="null",
            application_name=owner,
        )
        await site.insert(
            "application_versions",
            version_id=f"v {owner}",
            version_name=f"v {owner}",
            application_name=owner,
        )
        for state in ("ENQUEUED", "SUCCESS", "CANCELLED"):
            workflow_id = await site.foreign(status=state, application_name=owner)
            for step_id in (1, 2):
                await site.insert(
                    "operation_outputs",
                    workflow_uuid=workflow_id,
                    function_id=step_id,
                    function_name="step",
                    application_name=owner,
                )


async def owners(site: Site) -> dict[str, Counter[Any]]:
    """How many rows of each table each application owns."""
    return {
        table: Counter(
            row["application_name"]
            for row in await site.backdoor.rows(f"SELECT application_name FROM {table}")
        )
        for table in TABLES
    }


async def rename(process: Process, what: Rename, limit: int = 1000) -> Moved:
    """Move everything, in batches of so many workflows."""
    moved = await process.store.rename_registrations(what)
    numbers = []
    for move in (process.store.rename_workflows, process.store.rename_steps):
        number, next_id, batches = 0, "", 0
        while next_id is not None:
            batch = await move(what, next_id, limit)
            assert batch.next_id is None or batch.next_id > next_id
            number, next_id, batches = number + batch.number, batch.next_id or None, batches + 1
        assert batches >= 9 // limit
        numbers.append(number)
    return moved._replace(workflows=moved.workflows + numbers[0], steps=numbers[1])


@pytest.mark.parametrize(
    ("what", "gone"),
    [(TO_NEW, ("old",)), (WITH_UNCLAIMED, ("old", None)), (ADOPTION, (None,))],
)
async def test_everything_changes_its_owner(
    site: Site, me: Process, what: Rename, gone: tuple[str | None, ...]
) -> None:
    """“What application `old` owns becomes `new`'s; with `unclaimed` also what is nobody's. `old`
    None: only what is nobody's”."""
    await fill(site)
    before = await owners(site)
    count = len(gone)
    moved = await rename(me, what)
    assert moved == Moved(count, count, count, 3 * count, 6 * count)
    for table, counted in (await owners(site)).items():
        assert counted["new"] == sum(before[table][owner] for owner in gone)
        assert all(counted[owner] == before[table][owner] for owner in OWNERS if owner not in gone)
    assert await rename(me, what) == Moved()


@pytest.mark.parametrize("limit", [1, 2, 4])
async def test_batches_lose_nothing(site: Site, me: Process, limit: int) -> None:
    """“the next `limit` workflows that are left, by id from `since_id` on”."""
    await fill(site)
    assert await rename(me, WITH_UNCLAIMED, limit) == Moved(2, 2, 2, 6, 12)


async def test_registrations_move_with_what_is_under_way(
    site: Site, me: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """“queues, schedules, versions, and workflows under way”, “In one transaction”."""
    monkeypatch.setattr(applications, "_AT_ONCE", 2)
    await fill(site)
    for state in ("PENDING", "DELAYED", "ENQUEUED"):
        await site.foreign(status=state, application_name="old")
    ended = await site.foreign(status="ERROR", application_name="old")
    assert await me.store.rename_registrations(TO_NEW) == Moved(1, 1, 1, 4, 0)
    counted = (await owners(site))["workflow_status"]
    assert (counted["new"], counted["old"]) == (4, 3)
    assert (await site.status(ended))["application_name"] == "old"


async def test_the_steps_of_one_workflow_move_together(site: Site, me: Process) -> None:
    """“of the next `limit` workflows that have steps”: however many these have."""
    workflow_id = await site.foreign(status="SUCCESS", application_name="old")
    for step_id in range(1, 21):
        await site.insert(
            "operation_outputs",
            workflow_uuid=workflow_id,
            function_id=step_id,
            function_name="step",
            application_name="old",
        )
    batch = await me.store.rename_steps(TO_NEW, "", 1)
    assert (batch.number, batch.next_id) == (20, None)


@SEVERAL
@pytest.mark.usefixtures("me")
async def test_living_processes_forbid_it(site: Site) -> None:
    """“Raises `ApplicationRunning` if processes of the old name live”, and nothing moves."""
    old = await site.process(await site.store("old"))
    await fill(site)
    before = await owners(site)
    store = await site.store("operator")
    with pytest.raises(ApplicationRunning) as caught:
        await store.rename_registrations(TO_NEW)
    assert caught.value.executors == [old.executor]
    assert await owners(site) == before
    site.clock.advance(rows.PERIOD_MS + 1)
    assert (await store.rename_registrations(TO_NEW)).workflows == 1


@SEVERAL
async def test_runs_of_dead_processes_are_found_under_the_new_name(site: Site) -> None:
    """“with the leases of processes that are gone: whoever takes over finds them”."""
    old = await site.process(await site.store("old"))
    run = await old.running()
    await old.link.close()
    site.clock.advance(3 * rows.PERIOD_MS)
    heir = await site.process(await site.store("new"))
    assert await heir.suspicion(old) is None
    await heir.store.rename_registrations(TO_NEW)
    assert await heir.suspicion(old) is not None
    taken = await heir.store.take_over(await heir.accuse(old), 100)
    assert taken.moved == 1
    assert (await site.status(run.workflow_id))["status"] == "ENQUEUED"
