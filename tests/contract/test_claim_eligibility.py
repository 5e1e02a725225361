"""`ClaimStore.claim`: which rows it may take."""

import pytest

from perdure.errors import LeaseLost
from perdure.model.ids import WorkflowId
from perdure.model.wire import INTERNAL_QUEUES
from perdure.model.workflow import ClaimedRun, Fence, WorkflowKey
from tests.support import rows
from tests.support.store import Process, Site


def ids(claimed: list[ClaimedRun]) -> set[WorkflowId]:
    """Which workflows those are."""
    return {run.workflow_id for run in claimed}


async def test_only_rows_of_the_requested_queues(me: Process) -> None:
    """“Take ENQUEUED rows, of each of the request's queues”."""
    a, b = await me.waiting(queue_name="a"), await me.waiting(queue_name="b")
    await me.waiting(queue_name="c")
    claimed = await me.claim(queues=("a", "b"))
    assert ids(claimed) == {a.workflow_id, b.workflow_id}
    assert {run.queue_name for run in claimed} == {"a", "b"}


async def test_a_queue_that_is_not_registered_gives_nothing(site: Site, me: Process) -> None:
    """“One that … is paused or not registered (the internal ones are always) gives nothing”: also
    what a process believed to be there, and whatever stands under an internal name."""
    request = rows.claim(me.executor, (rows.QUEUE, *INTERNAL_QUEUES))
    await me.waiting()
    assert await me.store.claim(request) == []
    await me.open_queue()
    await me.store.delete_queue(rows.QUEUE)
    assert await me.store.claim(request) == []
    await site.insert("queues", queue_id="i", name=INTERNAL_QUEUES[0], application_name="other")
    inside = {(await me.waiting(queue_name=name)).workflow_id for name in INTERNAL_QUEUES}
    assert ids(await me.store.claim(request)) == inside
    await me.open_queue()
    assert len(await me.store.claim(rows.claim(me.executor))) == 1


async def test_no_queues_or_no_keys_claim_nothing(me: Process) -> None:
    """“rows of other functions are left alone”: with no function named, all are other."""
    await me.waiting()
    assert await me.claim(queues=()) == []
    assert await me.claim(keys=()) == []
    assert len(await me.claim()) == 1


@pytest.mark.parametrize(
    "status",
    ["PENDING", "SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED", "ODD", None],
)
async def test_only_enqueued_rows(site: Site, me: Process, status: str | None) -> None:
    """“Take ENQUEUED rows”."""
    await site.foreign(status=status)
    assert await me.claim() == []


async def test_only_registered_functions(site: Site, me: Process) -> None:
    """“`keys` are the functions the process registered; rows of other functions are left alone”."""
    plain = await me.waiting(name="f")
    classy = await me.waiting(name="f", class_name="C")
    configured = await me.waiting(name="f", class_name="C", config_name="x")
    await me.waiting(name="g")
    await site.foreign(name=None)
    assert ids(await me.claim(keys=(WorkflowKey("f", "C"),))) == {classy.workflow_id}
    rest = await me.claim(keys=(WorkflowKey("f"), WorkflowKey("f", "C", "x"), WorkflowKey("h")))
    assert ids(rest) == {plain.workflow_id, configured.workflow_id}
    assert {run.workflow_id: run.key for run in rest} == {
        plain.workflow_id: WorkflowKey("f"),
        configured.workflow_id: WorkflowKey("f", "C", "x"),
    }


async def test_parts_of_different_keys_are_not_mixed(me: Process) -> None:
    """“`keys` are the functions the process registered”: each is a whole, not three lists."""
    await me.waiting(name="f", class_name="D")
    await me.waiting(name="g", class_name="C")
    assert await me.claim(keys=(WorkflowKey("f", "C"), WorkflowKey("g", "D"))) == []


async def test_an_empty_part_of_a_foreign_key_is_an_absent_one(site: Site, me: Process) -> None:
    """“Absent parts are ''”: a row may say '' or NULL."""
    found = await site.foreign(class_name="", config_name="")
    assert ids(await me.claim()) == {found}


async def test_rows_of_my_version(me: Process) -> None:
    """“A row is eligible if … its version is `version`”."""
    mine = await me.waiting(application_version="v1")
    await me.waiting(application_version="v2")
    assert ids(await me.claim(version="v1")) == {mine.workflow_id}


async def test_unversioned_rows_run_where_no_version_is_registered(site: Site, me: Process) -> None:
    """“or none when `version` is the latest registered”: with none registered, mine is latest."""
    found = await site.foreign()
    assert ids(await me.claim(version="v1")) == {found}


async def test_unversioned_rows_run_on_the_latest_version_only(site: Site, me: Process) -> None:
    """“its version is `version`, or none when `version` is the latest registered”."""
    await me.store.register_version("v1")
    site.clock.advance(10)
    await me.store.register_version("v2")
    found = await site.foreign()
    assert await me.claim(version="v1") == []
    assert await me.claim(version="v0") == []
    assert ids(await me.claim(version="v2")) == {found}


async def test_a_version_of_another_application_is_not_the_latest_of_mine(
    site: Site, me: Process
) -> None:
    """“the latest registered”: among the versions “owned by this application or by none”."""
    await me.store.register_version("v1")
    future = await me.store.now_ms() + 10_000
    await site.insert(
        "application_versions",
        version_id="1",
        version_name="theirs",
        version_timestamp=future,
        application_name="other",
    )
    found = await site.foreign()
    assert ids(await me.claim(version="v1")) == {found}


async def test_an_unclaimed_version_can_be_the_latest(site: Site, me: Process) -> None:
    """“the latest registered”: among the versions “owned by this application or by none”."""
    await me.store.register_version("v1")
    future = await me.store.now_ms() + 10_000
    await site.insert(
        "application_versions",
        version_id="1",
        version_name="nobodys",
        version_timestamp=future,
        application_name=None,
    )
    await site.foreign()
    assert await me.claim(version="v1") == []
    assert len(await me.claim(version="nobodys")) == 1


async def test_rows_of_another_application_are_never_taken(site: Site, me: Process) -> None:
    """“A row is eligible if its application is this one or none”."""
    theirs = await site.foreign(application_name="other")
    assert await me.claim() == []
    assert (await site.status(theirs))["status"] == "ENQUEUED"


async def test_an_unclaimed_row_is_adopted(site: Site, me: Process) -> None:
    """“its application is this one or none”; the claim sets “version, application”."""
    found = await site.foreign()
    assert (await site.status(found))["application_name"] is None
    assert ids(await me.claim()) == {found}
    row = await site.status(found)
    assert (row["application_name"], row["application_version"]) == ("app", rows.VERSION)


async def test_a_row_with_a_partition_key_is_eligible(me: Process) -> None:
    """“Take ENQUEUED rows, of each of the request's queues”: a partition key changes nothing."""
    await me.waiting(partition_key="tenant")
    (run,) = await me.claim()
    assert run.partition_key == "tenant"


async def test_a_delayed_row_is_left_alone_however_due(site: Site, me: Process) -> None:
    """“Take ENQUEUED rows”: what is due a sweep moves, and no claim."""
    delayed = await me.waiting(delay_ms=1)
    site.clock.advance(1000)
    assert await me.claim() == []
    assert (await site.status(delayed.workflow_id))["status"] == "DELAYED"


async def test_without_a_lease_nothing_is_claimed(site: Site, me: Process) -> None:
    """“Holds the lease's key-share lock as `start` does; raises `LeaseLost` and claims nothing if
    it is gone”."""
    waiting = await me.waiting()
    with pytest.raises(LeaseLost):
        await site.stranger(me.store).claim()
    assert (await site.status(waiting.workflow_id))["status"] == "ENQUEUED"


async def test_a_lost_lease_is_noticed_when_there_is_nothing_to_claim(
    site: Site, me: Process
) -> None:
    """“raises `LeaseLost` and claims nothing if it is gone”."""
    with pytest.raises(LeaseLost):
        await site.stranger(me.store).claim()


async def test_a_taken_lease_claims_nothing(site: Site, me: Process) -> None:
    """“marks the lease taken, so that its boot can start and claim nothing more”."""
    victim = await site.process()
    await victim.running()
    await victim.running()
    waiting = await me.waiting()
    await victim.link.close()
    site.clock.advance(victim.lease.period_ms + 1)
    assert not (await me.store.take_over(await me.accuse(victim), 1)).finished
    with pytest.raises(LeaseLost):
        await victim.claim()
    assert (await site.status(waiting.workflow_id))["status"] == "ENQUEUED"


async def test_a_released_or_taken_over_row_is_claimed_again(me: Process) -> None:
    """“owner token: fresh at every start and every claim”."""
    await me.waiting()
    (first,) = await me.claim()
    await me.store.release([rows.release(Fence(first.workflow_id, first.owner))])
    (second,) = await me.claim()
    assert second.workflow_id == first.workflow_id
    assert second.owner != first.owner
