"""`ManagementStore.manage`: from which step a fork or a rewind goes on."""

import pytest

from perdure.errors import NoForkPoint
from perdure.model.ids import WorkflowId
from perdure.model.management import Fork, ForkItem, ForkPoint, LastStep, Rewind
from perdure.model.wire import GET_EVENT, RECV, SLEEP
from perdure.model.workflow import NewWorkflow
from tests.support import rows
from tests.support.lives import lived
from tests.support.store import Process, Site


async def kept(site: Site, me: Process, source: NewWorkflow, point: ForkPoint) -> list[int]:
    """The steps that a fork from that point on has."""
    fork_id = rows.wid(rows.fresh("fork"))
    managed = await me.managed(Fork((ForkItem(source.workflow_id, fork_id, point),)))
    assert managed.refusal is None
    return [step["function_id"] for step in await site.steps(fork_id)]


async def recorded(me: Process, *names: str, failed: tuple[int, ...] = ()) -> NewWorkflow:
    """A run with these steps, of which some failed."""
    run = await me.running()
    steps = [
        rows.checkpoint(
            run,
            number,
            name=name,
            output=None if number in failed else "1",
            error="{}" if number in failed else None,
        )
        for number, name in enumerate(names, 1)
    ]
    await me.store.record(steps)
    return run


async def test_a_step_id_need_not_be_recorded(site: Site, me: Process) -> None:
    """“a step id need not be recorded”: beyond the last one nothing is left out."""
    run = await recorded(me, "a", "b", "c")
    for point in (1, 2, 3, 4, 5, 1_000_000, 2**31 - 1):
        assert await kept(site, me, run, point) == [step for step in (1, 2, 3) if step < point]


async def test_a_name_is_its_last_step(site: Site, me: Process) -> None:
    """“the last step of a name”."""
    run = await recorded(me, "a", "b", "a", "c", "b%")
    assert await kept(site, me, run, "a") == [1, 2]
    assert await kept(site, me, run, "b") == [1]
    assert await kept(site, me, run, "b%") == [1, 2, 3, 4]


async def test_the_last_step_that_failed(site: Site, me: Process) -> None:
    """“The last step that failed; if none did, the last one”."""
    run = await recorded(me, "a", "b", "c", "d", failed=(2, 3))
    assert await kept(site, me, run, LastStep.FAILED) == [1, 2]
    well = await recorded(me, "a", "b", "c")
    assert await kept(site, me, well, LastStep.FAILED) == [1, 2]


async def test_the_last_step(site: Site, me: Process) -> None:
    """“The last one.”, whether it failed or not."""
    run = await recorded(me, "a", "b", "c", failed=(2,))
    assert await kept(site, me, run, LastStep.RECORDED) == [1, 2]


@pytest.mark.parametrize("name", [RECV, GET_EVENT])
async def test_a_time_limit_is_no_step_of_its_own(site: Site, me: Process, name: str) -> None:
    """“what is recorded behind a step that waits is its time limit, no step of its own”."""
    run = await recorded(me, "a", name, SLEEP)
    for point in (LastStep.RECORDED, LastStep.FAILED):
        assert await kept(site, me, run, point) == [1]
    asleep = await recorded(me, name, "a", SLEEP)
    assert await kept(site, me, asleep, LastStep.RECORDED) == [1, 2]


@pytest.mark.parametrize(
    ("point", "named"),
    [("nothing", "'nothing'"), (LastStep.FAILED, "step"), (LastStep.RECORDED, "step")],
)
async def test_a_point_that_is_not_found_refuses_all(
    site: Site, me: Process, point: ForkPoint, named: str
) -> None:
    """“or the point is not found (`NoForkPoint`)”."""
    good, empty = await lived(me), await me.running()
    items = [
        ForkItem(run.workflow_id, rows.wid(rows.fresh("fork")), where)
        for run, where in ((good, LastStep.RECORDED), (empty, point))
    ]
    refusal = (await me.managed(Fork(tuple(items)))).refusal
    assert isinstance(refusal, NoForkPoint)
    assert refusal.workflow_id == empty.workflow_id
    assert named in refusal.point
    assert not await site.exists(items[0].fork_id)
    await site.update(empty.workflow_id, status="SUCCESS")
    before = await site.status(empty.workflow_id)
    again = (await me.managed(Rewind(empty.workflow_id, rows.token(), point))).refusal
    assert isinstance(again, NoForkPoint)
    assert await site.status(empty.workflow_id) == before


async def test_each_item_has_a_point_of_its_own(site: Site, me: Process) -> None:
    """“the point” is that of each source's own history, in one call."""
    one = await recorded(me, "a", "b", "a")
    two = await recorded(me, "a", "b", "c", "d", failed=(2,))
    wanted: list[tuple[NewWorkflow, ForkPoint, list[int]]] = [
        (one, "a", [1, 2]),
        (two, LastStep.FAILED, [1]),
        (one, LastStep.FAILED, [1, 2]),
        (two, 4, [1, 2, 3]),
        (two, "a", []),
    ]
    items = tuple(
        ForkItem(run.workflow_id, WorkflowId(f"fork-{place}"), point)
        for place, (run, point, _) in enumerate(wanted)
    )
    await me.managed(Fork(items))
    for each, (_, _, expected) in zip(items, wanted, strict=True):
        assert [step["function_id"] for step in await site.steps(each.fork_id)] == expected
