"""`UpkeepStore`: what our own tables keep, and for how long."""

import pytest

from perdure.model.ids import WorkflowId
from perdure.model.workflow import NewWorkflow
from perdure.ports.store.upkeep import LOG_BEGIN, LogPlace
from tests.support import rows
from tests.support.store import Process, Site


async def logged(site: Site) -> list[tuple[str, str]]:
    """Every append that is logged, in the order of their places."""
    found = await site.own("stream_log")
    return sorted((row["workflow_id"], row["append_id"]) for row in found)


async def appended(me: Process, workflow_id: str, number: int = 1) -> NewWorkflow:
    """A run that appended so often inside a step."""
    run = await me.running(workflow_id)
    await me.store.append([rows.appending_inside(run) for _ in range(number)])
    return run


@pytest.mark.parametrize(
    ("status", "kept"),
    [
        ("SUCCESS", 0),
        ("ERROR", 0),
        ("PENDING", 1),
        ("ENQUEUED", 1),
        ("DELAYED", 1),
        ("CANCELLED", 1),
        ("MAX_RECOVERY_ATTEMPTS_EXCEEDED", 1),
    ],
)
async def test_appends_of_workflows_with_an_outcome_are_forgotten(
    site: Site, me: Process, status: str, kept: int
) -> None:
    """“the appends of workflows that have succeeded or failed”; “What was cancelled or set aside
    may be resumed within a step, which would append again”."""
    run = await appended(me, "w")
    await site.update(run.workflow_id, status=status)
    pruned = await me.store.prune_appends(LOG_BEGIN, 10)
    assert (pruned.forgotten, len(await logged(site))) == (1 - kept, kept)


async def test_appends_of_workflows_that_are_gone_are_forgotten(site: Site, me: Process) -> None:
    """“and of workflows that are gone”."""
    await appended(me, "w", 2)
    await site.backdoor.run("DELETE FROM workflow_status")
    assert (await me.store.prune_appends(LOG_BEGIN, 10)).forgotten == 2
    assert await logged(site) == []


async def test_the_log_is_gone_through_page_by_page(site: Site, me: Process) -> None:
    """“Of up to `limit` logged appends behind that place”; “at the end that is the beginning”."""
    for workflow_id, number in (("a", 3), ("b", 2), ("c", 2)):
        await appended(me, workflow_id, number)
    await site.update(WorkflowId("b"), status="SUCCESS")
    before = await logged(site)
    place, forgotten, visited = LOG_BEGIN, list[int](), list[LogPlace]()
    while not visited or place != LOG_BEGIN:
        pruned = await me.store.prune_appends(place, 2)
        forgotten.append(pruned.forgotten)
        place = pruned.place
        visited.append(place)
    assert forgotten == [0, 1, 1, 0]
    assert visited == [*map(LogPlace._make, before[1:6:2]), LOG_BEGIN]
    assert [workflow_id for workflow_id, _ in await logged(site)] == ["a"] * 3 + ["c"] * 2


async def test_an_empty_log_is_at_its_end(me: Process) -> None:
    """“at the end that is the beginning”."""
    assert await me.store.prune_appends(LogPlace(WorkflowId("w"), "x"), 10) == (0, LOG_BEGIN)
