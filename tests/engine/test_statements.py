"""How few statements there are: to run a workflow, to wait for it, to replay a long one."""

from __future__ import annotations

import asyncio

import pytest

from perdure import gather, run_step, sleep, step, workflow
from perdure.engine import sweeper
from perdure.engine.kernel import Kernel
from perdure.model.lease import Beat
from perdure.store.sqlite.writer import Writer
from tests.support.engines import Lab, settle
from tests.support.held import sleeper
from tests.support.statements import logged_connections, sqlite_statements
from tests.support.waiting import eventually
from tests.support.workflows import child, look

QUIET = {"heartbeat": 1_000, "lease": 10_000}
"""So rare a heartbeat that none comes while statements are counted."""


@workflow(name="one_step")
async def one_step() -> None:
    await look()


@workflow(name="nothing")
async def nothing() -> None: ...


@workflow(name="long")
async def long(steps: int) -> int:
    total = 0
    for number in range(steps):
        total += await run_step("add", lambda number=number: number)
    return total


@pytest.fixture(autouse=True)
def no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for lost runs while statements are counted."""
    monkeypatch.setattr(sweeper, "OWNERSHIP_POLL_S", 1_000.0)


async def test_a_new_workflow_of_one_step_is_three_writes_and_reads_nothing(lab: Lab) -> None:
    """Start, record, finish; and no look at any history or status."""
    await lab.start(one_step, nothing, **QUIET)
    await lab.until_queues_are_read()
    await one_step()
    lab.store.forget()
    await one_step()
    assert [call.method for call in lab.store.calls] == ["start", "record", "finish"]
    lab.store.forget()
    await nothing()
    assert [call.method for call in lab.store.calls] == ["start", "finish"]


async def test_a_parent_and_its_child_write_six_times(lab: Lab) -> None:
    """The child's start carries its parent's step; its result is one more."""

    @workflow(name="parent")
    async def parent() -> str:
        return await child("x")

    await lab.start(parent, child, **QUIET)
    await lab.until_queues_are_read()
    await parent()
    lab.store.forget()
    await parent()
    assert sorted(call.method for call in lab.store.calls) == [
        "finish",
        "finish",
        "record",
        "start",
        "start",
    ]


@pytest.mark.parametrize("shared_lab", ["postgres"], indirect=True)
async def test_on_postgres_it_is_three_statements(
    shared_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is its own transaction, without BEGIN and COMMIT."""
    with logged_connections(monkeypatch) as statements:
        await shared_lab.start(one_step, **QUIET)
        await shared_lab.until_queues_are_read()
        await one_step()
        statements.clear()
        await one_step()
    assert len(statements) == 3
    assert not [each for each in statements if each.startswith(("BEGIN", "COMMIT"))]


@pytest.mark.parametrize("shared_lab", ["sqlite"], indirect=True)
async def test_on_sqlite_it_is_three_transactions(shared_lab: Lab) -> None:
    """None of them reads any step."""
    await shared_lab.start(one_step, **QUIET)
    await shared_lab.until_queues_are_read()
    await one_step()
    async with sqlite_statements(shared_lab) as statements:
        await one_step()
    brackets = [each for each in statements if each in ("BEGIN IMMEDIATE", "COMMIT")]
    assert brackets == ["BEGIN IMMEDIATE", "COMMIT"] * 3
    assert not [each for each in statements if "FROM operation_outputs" in each]


async def test_many_at_once_share_their_writes(lab: Lab) -> None:
    """A hundred workflows of ten steps take far fewer writes than steps."""
    await lab.start(long, **QUIET)
    await lab.until_queues_are_read()
    await long(1)
    lab.store.forget()
    results = await asyncio.gather(*(long(10) for _ in range(100)))
    assert set(results) == {45}
    assert lab.store.counts["start"] <= 5
    assert lab.store.counts["record"] <= 60
    assert lab.store.counts["history"] == lab.store.counts["settled"] == 0


async def test_waiting_for_many_workflows_elsewhere_is_one_statement_per_look(
    shared_lab: Lab,
) -> None:
    """However many wait."""
    go = asyncio.Event()

    @workflow(name="slow")
    async def slow() -> str:
        await go.wait()
        return "done"

    runner = await shared_lab.start(slow)
    watcher = await shared_lab.start(slow)
    handles = [await slow.options(engine=runner).start() for _ in range(50)]
    waits = [
        asyncio.ensure_future(watcher.handle(handle.workflow_id, slow).result())
        for handle in handles
    ]
    await eventually(lambda: shared_lab.store.counts["settled"] >= 2)
    asked = shared_lab.store.batches("settled")
    assert len(asked[-1]) == 50
    go.set()
    assert set(await asyncio.gather(*waits)) == {"done"}


async def test_a_thousand_waits_need_no_thread_and_no_statement_each(memory_lab: Lab) -> None:
    """Sleeps and results of workflows that run here ask nobody."""

    @workflow(name="sleeper")
    async def sleeper() -> str:
        await sleep(3_600)
        return "woke"

    @workflow(name="parent")
    async def parent() -> list[str]:
        return await gather(*(sleeper() for _ in range(500)))

    await memory_lab.start(sleeper, parent, threads=8)
    handle = await parent.start()
    await eventually(lambda: len(memory_lab.clock.sleepers(3_000)) == 500)
    memory_lab.store.forget()
    memory_lab.clock.leap(3_600)
    assert await handle == ["woke"] * 500
    assert memory_lab.store.counts["settled"] == 0


@pytest.mark.timeout(240)
async def test_a_recovered_run_of_ten_thousand_steps_reads_its_history_once_and_runs_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One history read in a few pages, no look-up per step, no write but the outcome."""
    ran: list[int] = []
    steps = 10_000

    @step(name="add")
    async def add(number: int) -> int:
        ran.append(number)
        return number

    @workflow(name="very_long")
    async def very_long() -> int:
        return sum(await gather(*(add(number) for number in range(steps))))

    with logged_connections(monkeypatch) as statements:
        await lab.start(very_long)
        await very_long.options(id="w")()
        assert sorted(ran) == list(range(steps))
        ran.clear()
        statements.clear()
        lab.store.forget()
        assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert (ran, await lab.output("w")) == ([], str(sum(range(steps))))
    counts = lab.store.counts
    assert (counts["history"], counts["record"], counts["finish"]) == (1, 0, 1)
    assert len([each for each in statements if "operation_outputs" in each]) <= 20


async def test_a_claim_of_many_runs_reads_their_histories_together(lab: Lab) -> None:
    """One claim and one history read for all of them."""
    await lab.start(one_step)
    ids = [f"w-{number}" for number in range(40)]
    for workflow_id in ids:
        await one_step.options(id=workflow_id)()
    await lab.backdoor.run("DELETE FROM workflow_output")
    lab.store.forget()
    await lab.backdoor.run(
        "UPDATE workflow_status SET status = 'ENQUEUED', owner_xid = NULL,"
        " started_at_epoch_ms = NULL, queue_name = '_perdure_internal_queue'"
    )
    for workflow_id in ids:
        await lab.until(workflow_id)
    assert lab.store.counts["history"] == 1
    assert sorted(lab.store.batches("history")[0]) == sorted(ids)


async def test_an_idle_engine_says_nothing_beside_its_heartbeat(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No claim, no poll, no look while there is nothing to do."""
    beats: list[Beat] = []
    on_beat = Kernel.on_beat

    def counting(self: Kernel, beat: Beat, at_s: float) -> None:
        beats.append(beat)
        on_beat(self, beat, at_s)

    monkeypatch.setattr(Kernel, "on_beat", counting)
    await lab.start(one_step)
    await one_step()

    async def says_nothing() -> bool:
        lab.store.forget()
        beats.clear()
        await eventually(lambda: len(beats) >= 5)
        return not lab.store.calls

    # What the start, the run and the first heartbeats gave it to do is over some time.
    await eventually(says_nothing)


@pytest.mark.parametrize("shared_lab", ["sqlite"], indirect=True)
async def test_a_process_looks_at_nothing_because_of_its_own_commits(
    shared_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though a run of it sleeps: what was committed to the file was not committed by others."""
    answers: list[asyncio.Future[None]] = []
    ask = Writer.look

    def noting(self: Writer) -> asyncio.Future[None]:
        answers.append(ask(self))
        return answers[-1]

    engine = await shared_lab.start(sleeper, one_step, **QUIET)
    await shared_lab.until_queues_are_read()
    await sleeper.start()
    await shared_lab.until_asleep(80_000)
    hints: list[str] = []
    monkeypatch.setattr(engine.kernel, "on_hint", hints.append)
    monkeypatch.setattr(Writer, "look", noting)
    shared_lab.store.forget()
    for asked in range(1, 4):
        await one_step()
        await eventually(lambda: len(answers) >= asked and answers[-1].done())  # noqa: B023 - awaited here
    await settle()
    assert hints == []
    assert set(shared_lab.store.counts) == {"start", "record", "finish"}
