"""A process looks at itself: runs it lost, rows it owns and does not run, a loop that stands."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

from perdure import WorkflowState, step, workflow
from tests.support.engines import Lab
from tests.support.held import AT_ITS_END, AT_ONCE, DAY, Held, held_in, sleeper
from tests.support.loops import run_apart
from tests.support.waiting import eventually, wait_until

ran: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()


@workflow(name="brief")
async def brief() -> str:
    ran["brief"] += 1
    return "done"


async def planted(lab: Lab, workflow_id: str, owner: str | None, executor: str | None) -> None:
    """Make a finished run's row look as if that owner of that executor ran it."""
    await lab.backdoor.run("DELETE FROM workflow_output WHERE workflow_uuid = ?", workflow_id)
    await lab.backdoor.run(
        "UPDATE workflow_status SET status = 'PENDING', owner_xid = ?, executor_id = ?"
        " WHERE workflow_uuid = ?",
        owner,
        executor,
        workflow_id,
    )


async def test_a_row_in_our_name_that_nothing_runs_is_given_back(lab: Lab) -> None:
    """Seen twice it is released, its attempt counted, and it goes on."""
    engine = await lab.start(brief, lease=0.3)
    await brief.options(id="w")()
    await planted(lab, "w", "a token of nobody", engine.executor_id)
    row = await lab.until("w")
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 2)
    assert ran["brief"] == 2


async def test_a_row_that_runs_is_never_taken_for_a_stray(lab: Lab) -> None:
    engine = await lab.start(brief, sleeper, lease=0.3)
    await sleeper.options(id="c").start()
    await lab.until_asleep(DAY - 1)
    await brief.options(id="w")()
    await planted(lab, "w", "a token of nobody", engine.executor_id)
    await lab.until("w")
    row = await lab.status("c")
    assert (row["status"], row["recovery_attempts"]) == ("PENDING", 1)


async def test_a_boot_that_has_no_lease_counts_as_dead(shared_lab: Lab) -> None:
    """Rows of a boot that nobody knows go on; those of other SDKs' executors are left alone."""
    lab = shared_lab
    engine = await lab.start(brief)
    for workflow_id in ("ours", "theirs", "nobody"):
        await brief.options(id=workflow_id)()
    await engine.stop()
    await planted(lab, "ours", "t1", "worker/boot-0123")
    await planted(lab, "theirs", "t2", "local")
    await planted(lab, "nobody", None, None)
    await lab.start(brief)
    row = await lab.until("ours")
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 2)
    for workflow_id, owner in (("theirs", "t2"), ("nobody", None)):
        row = await lab.status(workflow_id)
        assert (row["status"], row["owner_xid"]) == ("PENDING", owner)


async def test_rows_of_another_application_are_not_ours_to_recover(shared_lab: Lab) -> None:
    lab = shared_lab
    engine = await lab.start(brief)
    for workflow_id in ("ours", "theirs"):
        await brief.options(id=workflow_id)()
    await engine.stop()
    for workflow_id in ("ours", "theirs"):
        await planted(lab, workflow_id, "t", "worker/boot-0123")
    await lab.backdoor.run(
        "UPDATE workflow_status SET application_name = 'billing' WHERE workflow_uuid = 'theirs'"
    )
    await lab.start(brief)
    await lab.until("ours")
    assert (await lab.status("theirs"))["status"] == "PENDING"


@pytest.mark.parametrize("kind", AT_ONCE)
async def test_a_cancellation_elsewhere_ends_what_may_be_interrupted(lab: Lab, kind: str) -> None:
    held = Held()
    await held_in(lab, held, kind)
    await lab.cancel_elsewhere("w")
    await eventually(lambda: "w" not in lab.engine.kernel.runner.runs)
    assert (held.after, await lab.state("w")) == ([], "CANCELLED")
    if kind == "waiting":
        assert await lab.state("w-1") == "PENDING", "a cancellation is not a child's"
    if kind == "preemptible_thread":
        await eventually(lambda: held.told == [True])


@pytest.mark.parametrize("kind", AT_ITS_END)
async def test_a_cancellation_elsewhere_lets_a_step_end_and_nothing_after_it(
    lab: Lab, kind: str
) -> None:
    """A step that is not preemptible is never stopped in its midst, and is not recorded."""
    held = Held()
    await held_in(lab, held, kind)
    await lab.cancel_elsewhere("w")
    asked = lab.store.counts["lost"]
    await eventually(lambda: lab.store.counts["lost"] > asked)
    assert "w" in lab.engine.kernel.runner.runs
    held.go.set()
    await lab.until_nothing_runs()
    assert (held.after, await lab.state("w"), await lab.steps("w")) == ([], "CANCELLED", [])


@pytest.mark.parametrize("kind", [*AT_ONCE, *AT_ITS_END])
async def test_a_run_resumed_elsewhere_is_given_up_here(shared_lab: Lab, kind: str) -> None:
    """As another SDK's client resumes it; a process of the version it was moved to goes on."""
    lab, held = shared_lab, Held()
    await held_in(lab, held, kind, version="v1")
    engine = lab.engine

    @workflow(name="held")
    async def finishes() -> str:
        return "elsewhere"

    await lab.cut("w", 1)
    await lab.backdoor.run(
        "UPDATE workflow_status SET status = 'ENQUEUED', owner_xid = NULL, recovery_attempts = 0,"
        " queue_name = '_dbos_internal_queue', started_at_epoch_ms = NULL,"
        " application_version = 'v2' WHERE workflow_uuid = 'w'"
    )
    waiting = asyncio.ensure_future(engine.handle("w").result())
    other = await lab.start(finishes, version="v2")
    if kind in AT_ITS_END:
        await lab.until("w")
        held.go.set()
    assert await waiting == "elsewhere"
    await eventually(lambda: "w" not in engine.kernel.runner.runs)
    row = await lab.status("w")
    assert (row["executor_id"], row["recovery_attempts"]) == (other.executor_id, 1)
    assert (held.after, await lab.steps("w")) == ([], [])


async def test_a_process_whose_loop_stands_still_lets_its_work_go_on_elsewhere(
    shared_lab: Lab,
) -> None:
    """After its stall it stops renewing; when the loop runs again it records nothing more."""
    lab = shared_lab
    ready, done, over = threading.Event(), threading.Event(), threading.Event()

    @step(name="blocks")
    async def blocks() -> str:
        ran["blocks"] += 1
        if ran["blocks"] > 1:
            return "elsewhere"
        wait_until(done.is_set)
        return "here"

    @workflow(name="blocked")
    async def blocked() -> str:
        return await blocks()

    async def other_process() -> None:
        other = lab.built(blocked, lease=0.3, stall=1e9)
        await other.start()
        ready.set()
        try:
            await other.handle("w")
            done.set()
            await eventually(over.is_set)
        finally:
            await other.stop()

    engine = await lab.start(blocked, lease=0.3, stall=0.2)
    before = engine.executor_id
    other = asyncio.ensure_future(run_apart(other_process))
    await eventually(ready.is_set)
    handle = await blocked.options(id="w", engine=engine).start()
    try:
        assert await handle == "elsewhere"
    finally:
        over.set()
        assert await other is None
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 2)
    assert row["executor_id"] != before
    await eventually(lambda: engine.executor_id not in {None, before})
    assert ran["blocks"] == 2
    assert await lab.until("w", WorkflowState.SUCCESS)
