"""Deadlines of workflows: fixed once, inherited, and the engine's only cancellation."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import AwaitedWorkflowCancelled, WorkflowState, step, workflow
from perdure.errors import DatabaseUnavailable, InvalidArgument
from tests.support.engines import Lab, settle
from tests.support.waiting import eventually
from tests.support.workflows import child, naps

SOON = 0.05
DAY = 86_400


async def test_a_workflow_past_its_deadline_is_cancelled_durably(lab: Lab) -> None:
    """The caller hears that it was cancelled; the row is CANCELLED, its columns cleared."""
    await lab.start(naps)
    with pytest.raises(AwaitedWorkflowCancelled, match="'n' was cancelled"):
        await naps.options(id="n", timeout=SOON)(DAY)
    await lab.until_nothing_runs()
    row = await lab.status("n")
    assert (row["status"], row["owner_xid"], row["started_at_epoch_ms"]) == (
        "CANCELLED",
        None,
        None,
    )
    assert row["workflow_timeout_ms"] == 50
    assert await lab.output("n") is None


async def test_a_workflow_that_ends_inside_its_deadline_is_not_touched(lab: Lab) -> None:
    """Budget and instant stand in its row."""
    await lab.start(naps)
    assert await naps.options(id="n", timeout=timedelta(hours=1))(0.001) == "awake"
    row = await lab.status("n")
    assert (row["status"], row["workflow_timeout_ms"]) == ("SUCCESS", 3_600_000)
    assert abs(row["workflow_deadline_epoch_ms"] - row["created_at"] - 3_600_000) < 10_000


async def test_a_deadline_may_be_given_as_an_instant(lab: Lab) -> None:
    """It is stored as it is, with no budget."""
    instant = datetime.now(UTC) + timedelta(hours=2)
    await lab.start(naps)
    await naps.options(id="n", deadline=instant)(0.001)
    row = await lab.status("n")
    assert row["workflow_deadline_epoch_ms"] == int(instant.timestamp() * 1000)
    assert row["workflow_timeout_ms"] is None


async def test_a_deadline_that_has_passed_cancels_at_once(lab: Lab) -> None:
    """Nothing of the body need run."""
    await lab.start(naps)
    with pytest.raises(AwaitedWorkflowCancelled):
        await naps.options(id="n", deadline=datetime.now(UTC) - timedelta(days=1))(DAY)
    assert await lab.state("n") == "CANCELLED"


async def test_a_long_deadline_passes_with_the_clock(lab: Lab) -> None:
    """The database's clock decides, not how long this process has been running."""
    await lab.start(naps)
    handle = await naps.options(id="n", timeout=DAY).start(30 * DAY)
    await lab.until_asleep(DAY)
    # As this process knows the database's clock, it may be some time off.
    lab.clock.leap(DAY + 60)
    with pytest.raises(AwaitedWorkflowCancelled):
        await handle
    row = await lab.status("n")
    assert row["status"] == "CANCELLED"
    assert row["completed_at"] >= row["workflow_deadline_epoch_ms"]


async def test_a_recovered_workflow_keeps_the_instant_it_had(lab: Lab) -> None:
    """In the future it is kept; past at the recovery it cancels almost at once."""
    await lab.start(naps)
    await naps.options(id="n", timeout=DAY).start(30 * DAY)
    await lab.until_asleep(DAY)
    before = (await lab.status("n"))["workflow_deadline_epoch_ms"]
    await lab.hand_back("n")
    await lab.until_attempts("n", 2)
    assert (await lab.status("n"))["workflow_deadline_epoch_ms"] == before
    await lab.backdoor.run("UPDATE workflow_status SET workflow_deadline_epoch_ms = 1000")
    await lab.hand_back("n")
    row = await lab.until("n", WorkflowState.CANCELLED)
    assert row["workflow_deadline_epoch_ms"] == 1000


async def test_a_shutdown_never_cancels_a_workflow_that_has_a_deadline(shared_lab: Lab) -> None:
    """It is released with its instant, and goes on under it."""
    engine = await shared_lab.start(naps)
    await naps.options(id="n", timeout=DAY).start(30 * DAY)
    await shared_lab.until_asleep(DAY)
    before = (await shared_lab.status("n"))["workflow_deadline_epoch_ms"]
    await engine.stop()
    row = await shared_lab.status("n")
    assert (row["status"], row["workflow_deadline_epoch_ms"]) == ("ENQUEUED", before)
    await shared_lab.start(naps)
    assert (await shared_lab.until("n", WorkflowState.PENDING))["recovery_attempts"] == 1


async def test_a_deadline_that_fires_after_another_execution_ended_reports_that_outcome(
    lab: Lab,
) -> None:
    """The recorded outcome stays and is what the caller gets."""
    await lab.start(naps)
    fires = lab.store.hold("finish")
    handle = await naps.options(id="n", timeout=SOON).start(DAY)
    waiting = asyncio.ensure_future(handle.result())
    await fires.reached()
    await lab.end_elsewhere("n", "elsewhere")
    fires.open()
    assert await waiting == "elsewhere"
    await lab.until_nothing_runs()
    assert await lab.state("n") == "SUCCESS"


async def test_a_record_that_is_refused_while_the_deadline_s_end_is_under_way_ends_the_run(
    lab: Lab,
) -> None:
    """Whoever waits gets the other's outcome, however the two refusals come."""
    await lab.start(naps)
    recorded, fires = lab.store.hold("record"), lab.store.hold("finish")
    # Whoever sweeps would end it as well.
    swept = lab.store.hold("sweep")
    handle = await naps.options(id="n", timeout=DAY).start(30 * DAY)
    waiting = asyncio.ensure_future(handle.result())
    await recorded.reached()
    lab.clock.leap(DAY + 60)
    await fires.reached()
    await lab.end_elsewhere("n", "elsewhere")
    recorded.open()
    # The body is over when its record was refused; the run is not, as its end is under way.
    await eventually(lambda: lab.store.counts["settled"])
    await settle()
    fires.open()
    assert await waiting == "elsewhere"
    swept.open()
    await lab.until_nothing_runs()


async def test_a_step_running_at_the_deadline_ends_and_is_not_recorded(lab: Lab) -> None:
    """The caller hears at once; a step that may not be stopped runs to its end."""
    begun, go, ends = asyncio.Event(), asyncio.Event(), []

    @step(name="whole")
    async def whole() -> None:
        begun.set()
        await go.wait()
        ends.append("whole")

    @workflow(name="runs")
    async def runs() -> None:
        await whole()
        ends.append("body")

    await lab.start(runs)
    handle = await runs.options(id="r", timeout=DAY).start()
    await begun.wait()
    lab.clock.leap(DAY + 1)
    with pytest.raises(AwaitedWorkflowCancelled):
        await handle
    go.set()
    await lab.until_nothing_runs()
    assert ends == ["whole"]
    assert (await lab.steps("r"), await lab.state("r")) == ([], "CANCELLED")


async def test_a_child_inherits_the_instant_and_not_the_budget(lab: Lab) -> None:
    """The parent's deadline bounds it, however late it starts."""

    @workflow(name="parent")
    async def parent() -> str:
        return await child("x")

    await lab.start(parent, child)
    await parent.options(id="p", timeout=DAY)()
    row, inner = await lab.status("p"), await lab.status("p-1")
    assert inner["workflow_deadline_epoch_ms"] == row["workflow_deadline_epoch_ms"]
    assert (row["workflow_timeout_ms"], inner["workflow_timeout_ms"]) == (DAY * 1000, None)


async def test_a_childs_own_timeout_replaces_the_inherited_one_and_none_lifts_it(
    lab: Lab,
) -> None:
    """Even when its own is longer; the sibling still inherits."""

    @workflow(name="parent")
    async def parent() -> None:
        await child.options(id="longer", timeout=2 * DAY)("x")
        await child.options(id="unbounded", timeout=None)("x")
        await child.options(id="inherits")("x")

    await lab.start(parent, child)
    await parent.options(id="p", timeout=DAY)()
    bound = (await lab.status("p"))["workflow_deadline_epoch_ms"]
    longer, unbounded = await lab.status("longer"), await lab.status("unbounded")
    assert longer["workflow_deadline_epoch_ms"] > bound + DAY * 500
    assert longer["workflow_timeout_ms"] == 2 * DAY * 1000
    assert unbounded["workflow_deadline_epoch_ms"] is None
    assert unbounded["workflow_timeout_ms"] is None
    assert (await lab.status("inherits"))["workflow_deadline_epoch_ms"] == bound


async def test_parent_and_child_meet_an_inherited_deadline_each_by_itself(lab: Lab) -> None:
    """Both are CANCELLED, and the parent's interrupted wait is not recorded."""

    @workflow(name="parent")
    async def parent() -> str:
        return await naps(30 * DAY)

    await lab.start(parent, naps)
    handle = await parent.options(id="p", timeout=DAY).start()
    await lab.until_asleep(DAY)
    lab.clock.leap(DAY + 1)
    with pytest.raises(AwaitedWorkflowCancelled, match="'p' was cancelled"):
        await handle
    assert (await lab.until("p-1"))["status"] == "CANCELLED"
    await lab.until_nothing_runs()
    assert await lab.state("p") == "CANCELLED"
    assert await lab.history("p") == [(1, "naps")]


async def test_a_deadline_kept_through_a_database_outage_still_cancels(lab: Lab) -> None:
    """The cancellation waits for the database as every other write does."""
    await lab.start(naps)
    lab.store.fail("finish", DatabaseUnavailable("away"), times=3)
    with pytest.raises(AwaitedWorkflowCancelled):
        await naps.options(id="n", timeout=SOON)(DAY)
    assert lab.store.counts["finish"] == 4
    assert await lab.state("n") == "CANCELLED"


async def test_many_short_workflows_with_long_timeouts_leave_nothing_behind(
    memory_lab: Lab,
) -> None:
    """No thread, no task and no waiter outlives them."""
    await memory_lab.start(naps)
    before = len(asyncio.all_tasks())
    calls = (naps.options(timeout=3_600)(0) for _ in range(300))
    assert set(await asyncio.gather(*calls)) == {"awake"}
    await memory_lab.until_nothing_runs()
    assert len(asyncio.all_tasks()) <= before


@pytest.mark.parametrize("long", [1e12, timedelta.max, timedelta(days=36_500)], ids=str)
async def test_very_long_timeouts_are_kept_and_never_overflow(lab: Lab, long: Any) -> None:
    """The instant fits every language's integers."""
    await lab.start(naps)
    assert await naps.options(id="n", timeout=long)(0) == "awake"
    deadline_ms = (await lab.status("n"))["workflow_deadline_epoch_ms"]
    assert 10**12 < deadline_ms < 2**63


def test_a_timeout_and_a_deadline_together_are_refused() -> None:
    """Neither wins silently."""
    with pytest.raises(InvalidArgument, match="not both"):
        naps.options(timeout=1, deadline=datetime.now(UTC))


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": -1},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"timeout": True},
        {"timeout": "5"},
        {"deadline": datetime(2030, 1, 1)},  # noqa: DTZ001 - the missing zone is the point
        {"deadline": 1_900_000_000},
    ],
    ids=str,
)
def test_what_is_no_timeout_or_no_instant_is_refused(wrong: dict[str, Any]) -> None:
    """At the call, naming the option."""
    (name,) = wrong
    with pytest.raises(InvalidArgument, match=name):
        naps.options(**wrong)
