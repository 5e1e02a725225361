"""When a process looks for work: what wakes it, what it takes, and what it leaves alone.

The heartbeats of most tests here are so rare that nothing is found by one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from perdure import AwaitedWorkflowCancelled, Engine, Queue, RateLimit, sleep, workflow
from perdure.api.workflow import Workflow
from perdure.engine import dispatcher
from perdure.model.lease import Beat
from perdure.ports.store.hints import EVERYTHING
from tests.support.engines import Lab, settle
from tests.support.waiting import eventually

QUIET = {"heartbeat": 1_000, "lease": 10_000}
"""No heartbeat comes while a test lasts."""


class Gatekeeper:
    """Bodies that wait until they are let go, and how many of them are inside."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.begun: list[Any] = []
        self._passes = asyncio.Semaphore(0)

    async def pass_through(self, name: str, what: Any = None) -> None:
        """Be inside until there is a pass, or the gate is open."""
        self.begun.append(what)
        self.inside[name] += 1
        self.most[name] = max(self.most[name], self.inside[name])
        await self._passes.acquire()
        self.inside[name] -= 1

    def let(self, number: int) -> None:
        """Let so many go."""
        for _ in range(number):
            self._passes.release()

    def open(self) -> None:
        """Let all go, also those still to come."""
        self.let(1000)

    async def until_inside(self, name: str, number: int) -> None:
        """Wait until exactly so many are inside."""
        await eventually(lambda: self.inside[name] == number)


@pytest.fixture
def gate() -> Gatekeeper:
    """A closed gate."""
    return Gatekeeper()


async def test_an_enqueue_wakes_the_process_itself(lab: Lab) -> None:
    """No heartbeat and no poll is needed."""

    @workflow(name="job")
    async def job(number: int) -> int:
        return number

    await lab.start(job, queues=[Queue("q")], **QUIET)
    handle = await job.options(queue="q").start(7)
    assert await handle.result(timeout=20) == 7


async def test_an_enqueue_wakes_another_process(shared_lab: Lab) -> None:
    """By a hint on Postgres, by the change of the file on SQLite."""

    @workflow(name="job")
    async def job(number: int) -> int:
        return number

    worker = await shared_lab.start(job, queues=[Queue("q")], **QUIET)
    await shared_lab.until_queues_are_read()
    submitter = await shared_lab.start(job, queues=[Queue("q")], listen=[], **QUIET)
    handle = await job.options(queue="q", engine=submitter).start(7)
    row = await shared_lab.until(handle.workflow_id)
    assert row["executor_id"] == worker.executor_id


async def test_what_is_heard_of_queues_of_others_costs_no_look(memory_lab: Lab) -> None:
    """But for the first time: it may be one of our own that was registered just now."""

    @workflow(name="job")
    async def job() -> None:
        """Who runs nothing looks for nothing."""

    await memory_lab.start(job, **QUIET)
    await memory_lab.until_queues_are_read()
    kernel = memory_lab.engine.kernel
    reads = memory_lab.store.counts["queues"]
    for name in "xyxxyy":
        kernel.on_hint(f"somebody+{name}")
        await eventually(lambda: not kernel.queues.is_stale)
        await settle()
    assert memory_lab.store.counts["queues"] == reads + 2
    kernel.on_hint(EVERYTHING)
    kernel.on_hint("somebody+x")
    assert kernel.queues.is_stale


async def test_a_freed_slot_is_refilled_at_once(lab: Lab, gate: Gatekeeper) -> None:
    """With `worker_concurrency`: nobody waits for a poll, and never are more inside."""

    @workflow(name="job")
    async def job(number: int) -> None:
        await gate.pass_through("job", number)

    await lab.start(job, queues=[Queue("q", worker_concurrency=2)], **QUIET)
    handles = await job.options(queue="q").start_many([(number,) for number in range(8)])
    await gate.until_inside("job", 2)
    for done in range(1, 7):
        gate.let(1)
        await eventually(lambda done=done: len(gate.begun) == done + 2)
        assert gate.inside["job"] == 2
    gate.open()
    for handle in handles:
        await handle.result(timeout=20)
    assert gate.most["job"] == 2
    assert gate.begun == list(range(8))


async def test_a_process_holds_no_more_rows_than_it_may_run(lab: Lab, gate: Gatekeeper) -> None:
    """Rows beyond `worker_concurrency` stay ENQUEUED for others."""

    @workflow(name="job")
    async def job() -> None:
        await gate.pass_through("job")

    await lab.start(job, queues=[Queue("q", worker_concurrency=2)], heartbeat=0.05, lease=10)
    handles = await job.options(queue="q").start_many([()] * 6)
    await gate.until_inside("job", 2)
    states = Counter([(await lab.status(each.workflow_id))["status"] for each in handles])
    assert states == {"PENDING": 2, "ENQUEUED": 4}
    gate.open()


async def test_global_concurrency_holds_over_processes(shared_lab: Lab, gate: Gatekeeper) -> None:
    """And a slot freed in one process is taken at once, here or there, without a heartbeat."""

    @workflow(name="job")
    async def job(number: int) -> None:
        await gate.pass_through("job", number)

    queue = Queue("q", global_concurrency=3)
    first = await shared_lab.start(job, queues=[queue], **QUIET)
    await shared_lab.start(job, queues=[queue], **QUIET)
    handles = await job.options(queue="q", engine=first).start_many([(n,) for n in range(12)])
    await gate.until_inside("job", 3)
    for done in range(1, 10):
        gate.let(1)
        await eventually(lambda done=done: len(gate.begun) == done + 3)
    gate.open()
    for handle in handles:
        await shared_lab.until(handle.workflow_id)
    assert gate.most["job"] == 3
    assert sorted(gate.begun) == list(range(12))


async def test_a_process_that_waits_for_room_is_told_of_it(
    shared_lab: Lab, gate: Gatekeeper
) -> None:
    """Where the one that had the place cannot take the next workflow: it has another function."""

    @workflow(name="mine")
    async def mine() -> None:
        await gate.pass_through("mine")

    @workflow(name="yours")
    async def yours() -> None:
        await gate.pass_through("yours")

    queue = Queue("q", global_concurrency=1)
    first = await shared_lab.start(mine, queues=[queue], **QUIET)
    second = await shared_lab.start(yours, queues=[queue], **QUIET)
    one = await mine.options(queue="q", engine=first).start()
    await gate.until_inside("mine", 1)
    other = await yours.options(queue="q", engine=second).start()
    await eventually(lambda: _marks(second)["q"].is_blocked)
    gate.open()
    await shared_lab.until(one.workflow_id)
    await shared_lab.until(other.workflow_id)


async def test_a_rate_goes_on_when_its_window_does(lab: Lab) -> None:
    """Woken by the instant at which there is room again; in each window at most the limit."""

    @workflow(name="job")
    async def job() -> None: ...

    limit = RateLimit(3, period=0.4)
    await lab.start(job, queues=[Queue("q", rate_limit=limit)], **QUIET)
    handles = await job.options(queue="q").start_many([()] * 8)
    for handle in handles:
        await handle.result(timeout=20)
    starts = sorted(
        [(await lab.status(each.workflow_id))["started_at_epoch_ms"] for each in handles]
    )
    for index in range(len(starts) - 3):
        assert starts[index + 3] - starts[index] >= 400


async def test_a_delayed_workflow_starts_when_it_is_due(lab: Lab) -> None:
    """“a delayed workflow starts within 20 ms of its due time on an idle process”, give or take
    what a busy test machine adds, which may need several tries to show it."""

    @workflow(name="job")
    async def job() -> None: ...

    await lab.start(job, queues=[Queue("q")], **QUIET)
    late_ms: list[int] = []
    while not late_ms or (late_ms[-1] > 500 and len(late_ms) < 20):
        handle = await job.options(queue="q", delay=0.3).start()
        await handle.result(timeout=20)
        row = await lab.status(handle.workflow_id)
        late_ms.append(row["started_at_epoch_ms"] - row["delay_until_epoch_ms"])
    assert 0 <= min(late_ms) <= 500
    far = await job.options(queue="q", delay=3_600).start()
    assert (await lab.status(far.workflow_id))["status"] == "DELAYED"


async def test_a_deadline_passes_in_the_queue(lab: Lab) -> None:
    """A workflow that nobody may begin ends at the instant of its deadline."""

    @workflow(name="job")
    async def job() -> None: ...

    @workflow(name="parent")
    async def parent() -> str:
        handle = await job.options(queue="q").start()
        return handle.workflow_id

    engine = await lab.start(job, parent, queues=[Queue("q")], **QUIET)
    await engine.queues.pause("q")
    child = await _in_time(parent, 0.4, 20)
    row = await lab.until(child)
    assert row["status"] == "CANCELLED"
    assert row["completed_at"] >= row["workflow_deadline_epoch_ms"]


async def test_nothing_is_claimed_from_a_paused_queue(lab: Lab) -> None:
    """Until it is resumed, which needs no heartbeat either."""

    @workflow(name="job")
    async def job() -> None: ...

    engine = await lab.start(job, queues=[Queue("q"), Queue("other")], **QUIET)
    await engine.queues.pause("q")
    held = await job.options(queue="q").start()
    free = await job.options(queue="other").start()
    await free.result(timeout=20)
    assert (await lab.status(held.workflow_id))["status"] == "ENQUEUED"
    await engine.queues.resume("q")
    await held.result(timeout=20)


async def test_a_changed_limit_is_followed_while_the_process_runs(
    lab: Lab, gate: Gatekeeper
) -> None:
    """`worker_concurrency` 1 → 3."""

    @workflow(name="job")
    async def job() -> None:
        await gate.pass_through("job")

    engine = await lab.start(job, queues=[Queue("q", worker_concurrency=1)], **QUIET)
    handles = await job.options(queue="q").start_many([()] * 4)
    await gate.until_inside("job", 1)
    await engine.queues.update("q", worker_concurrency=3)
    await gate.until_inside("job", 3)
    gate.open()
    for handle in handles:
        await handle.result(timeout=20)
    assert gate.most["job"] == 3


async def test_a_process_takes_on_what_it_can_run(lab: Lab, gate: Gatekeeper) -> None:
    """“an unlimited queue is claimed in bounded batches as the process can run them”; those that
    only wait take no room."""

    @workflow(name="job")
    async def job() -> None:
        await gate.pass_through("job")

    @workflow(name="sleeper")
    async def sleeper() -> None:
        await sleep(hours=1)

    engine = await lab.start(job, sleeper, queues=[Queue("q")], max_running=8, **QUIET)
    await sleeper.options(queue="q").start_many([()] * 30)
    runs = engine.kernel.runner.runs
    await eventually(lambda: sum(run.only_waits for run in runs.values()) == 30)
    handles = await job.options(queue="q").start_many([()] * 20)
    await gate.until_inside("job", 8)
    gate.open()
    for handle in handles:
        await handle.result(timeout=20)
    assert gate.most["job"] <= 8


async def test_an_idle_process_looks_for_nothing(lab: Lab) -> None:
    """Besides the heartbeat no statement is made while nothing happens."""

    @workflow(name="job")
    async def job() -> None: ...

    limited, parted = Queue("limited", global_concurrency=1), Queue("p", partition_concurrency=1)
    await lab.start(job, queues=[Queue("q"), limited, parted], heartbeat=0.05, lease=10)
    await (await job.options(queue="q").start()).result(timeout=20)

    async def looks_for_nothing() -> bool:
        lab.store.forget()
        await _beats(lab, 5)
        return not set(lab.store.counts) - {"lost"}

    # What the start, the run and the first heartbeats gave it to do is over some time.
    await eventually(looks_for_nothing)


async def test_a_full_queue_is_not_asked_at_every_heartbeat(lab: Lab, gate: Gatekeeper) -> None:
    """“back-off also when blocked by a limit”."""

    @workflow(name="job")
    async def job() -> None:
        await gate.pass_through("job")

    queue = Queue("q", global_concurrency=1, base_polling_interval=600, max_polling_interval=600)
    await lab.start(job, queues=[queue], heartbeat=0.02, lease=10)
    handles = await job.options(queue="q").start_many([()] * 3)
    await gate.until_inside("job", 1)

    async def does_not_ask() -> bool:
        lab.store.forget()
        await _beats(lab, 10)
        return not lab.store.counts["claim_shared"]

    # On a file it looks once more, some time after the commit of its own claim.
    await eventually(does_not_ask)
    gate.open()
    for handle in handles:
        await handle.result(timeout=20)


async def test_one_busy_queue_does_not_starve_another(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each queue has its share of every claim, whatever waits in the others."""
    monkeypatch.setattr(dispatcher, "CLAIM_BATCH", 4)
    order: list[str] = []

    @workflow(name="job")
    async def job(queue: str) -> None:
        order.append(queue)

    engine = await lab.start(job, queues=[Queue("busy"), Queue("calm")], max_running=4, **QUIET)
    await engine.queues.pause("busy")
    await engine.queues.pause("calm")
    await job.options(queue="busy").start_many([("busy",)] * 40)
    last = await job.options(queue="calm").start("calm")
    claiming = lab.store.hold("claim")
    await engine.queues.resume("busy")
    await claiming.reached()
    await engine.queues.resume("calm")
    claiming.open()
    await last.result(timeout=20)
    await eventually(lambda: len(order) == 41)
    assert order.index("calm") < 20


async def _in_time(each: Workflow[[], str], *timeouts_s: float) -> str:
    """Its result under the first of these deadlines in which a busy machine gets it done."""
    for timeout_s in timeouts_s:
        with suppress(AwaitedWorkflowCancelled):
            return await each.options(timeout=timeout_s)()
    raise AssertionError("it did not end in time")


def _marks(engine: Engine) -> Mapping[str, dispatcher.Mark]:
    """What the engine remembers of its queues: nothing tells outside when it waits for room."""
    return engine.kernel._dispatcher._marks  # noqa: SLF001 - see above


async def _beats(lab: Lab, number: int) -> None:
    """Wait until the newest engine has heard so many heartbeats more."""
    kernel = lab.engine.kernel
    heard = 0
    original = kernel.on_beat

    def count(beat: Beat, at_s: float) -> None:
        nonlocal heard
        heard += 1
        original(beat, at_s)

    kernel.on_beat = count  # type: ignore[method-assign]
    await eventually(lambda: heard >= number)
    kernel.on_beat = original  # type: ignore[method-assign]
