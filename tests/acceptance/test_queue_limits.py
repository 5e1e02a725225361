"""What limits, priorities and partitions of a queue do to what is begun."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from typing import Any

import pytest

from perdure import ConfigurationError, Queue, RateLimit, workflow
from perdure.api.workflow import Workflow
from perdure.errors import DatabaseRejected
from tests.support.engines import Lab, settle
from tests.support.logged import logged
from tests.support.waiting import eventually
from tests.support.workflows import child


class Crowd:
    """The bodies inside at a time, in all and for each key; they leave when the gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.begun: list[Any] = []
        self.inside: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()

    def workflow(self) -> Workflow[[Any, str], Any]:
        """A workflow that enters, waits for the gate, and leaves."""

        @workflow(name="enters")
        async def enters(what: Any, key: str) -> Any:
            self.begun.append(what)
            for each in {key, "all"}:
                self.inside[each] += 1
                self.peak[each] = max(self.peak[each], self.inside[each])
            await self.gate.wait()
            for each in {key, "all"}:
                self.inside[each] -= 1
            return what

        return enters

    async def until_inside(self, number: int) -> None:
        """Wait until so many are inside."""
        await eventually(lambda: self.inside["all"] == number)


@pytest.fixture
def crowd() -> Crowd:
    """A crowd in front of a closed gate."""
    return Crowd()


async def looked_again(lab: Lab) -> None:
    """Wait until the process began something else, and so has looked for all it can begin."""
    await lab.engine.queues.register(Queue("aside"))
    await child.options(queue="aside")("x")


@pytest.mark.parametrize("limit", ["worker_concurrency", "global_concurrency"])
async def test_no_more_run_than_the_limit_allows(lab: Lab, crowd: Crowd, limit: str) -> None:
    """The peak is the limit, and all are done in the end."""
    enters = crowd.workflow()
    await lab.start(enters, child, queues=[Queue("q", **{limit: 3})])
    handles = await enters.options(queue="q").start_many([(n, "") for n in range(5)])
    await crowd.until_inside(3)
    await looked_again(lab)
    assert crowd.inside["all"] == 3
    crowd.gate.set()
    assert [await handle.result(timeout=30) for handle in handles] == list(range(5))
    assert crowd.peak["all"] == 3


async def test_one_at_a_time_is_a_line(lab: Lab, crowd: Crowd) -> None:
    """First come, first served."""
    crowd.gate.set()
    enters = crowd.workflow()
    await lab.start(enters, queues=[Queue("q", worker_concurrency=1)])
    bound = enters.options(queue="q")
    handles = [await bound.start(number, "") for number in range(8)]
    for handle in handles:
        await handle.result(timeout=30)
    assert crowd.begun == list(range(8))
    assert crowd.peak["all"] == 1


async def test_what_has_no_priority_comes_first_then_the_smallest(lab: Lab, crowd: Crowd) -> None:
    """Whatever order they were enqueued in; equals in the order they came."""
    crowd.gate.set()
    enters = crowd.workflow()
    engine = await lab.start(enters, queues=[Queue("q", worker_concurrency=1)])
    await engine.queues.pause("q")
    order: list[int | None] = [9, None, 5, 1, 2**31 - 1, 1, None, 5]
    handles = [
        await enters.options(queue="q", priority=priority).start([priority, place], "")
        for place, priority in enumerate(order)
    ]
    await engine.queues.resume("q")
    for handle in handles:
        await handle.result(timeout=30)
    assert crowd.begun == [
        [None, 1],
        [None, 6],
        [1, 3],
        [1, 5],
        [5, 2],
        [5, 7],
        [9, 0],
        [2**31 - 1, 4],
    ]


async def test_a_backlog_from_before_the_queue_was_registered_is_begun_in_order(
    lab: Lab, crowd: Crowd
) -> None:
    crowd.gate.set()
    enters = crowd.workflow()
    engine = await lab.start(enters)
    for priority in (5, None, 9, 1):
        bound = enters.options(queue="later", priority=priority, allow_unknown_queue=True)
        await bound.start(priority, "")
    await engine.queues.register(Queue("later", worker_concurrency=1))
    await eventually(lambda: len(crowd.begun) == 4)
    assert crowd.begun == [None, 1, 5, 9]


async def test_a_rate_lets_so_many_begin_in_its_time(lab: Lab, crowd: Crowd) -> None:
    crowd.gate.set()
    enters = crowd.workflow()
    await lab.start(enters, child, queues=[Queue("q", rate_limit=RateLimit(2, period=3600))])
    handles = await enters.options(queue="q").start_many([(n, "") for n in range(4)])
    assert [await handle.result(timeout=30) for handle in handles[:2]] == [0, 1]
    await looked_again(lab)
    assert crowd.begun == [0, 1]
    lab.clock.leap(3601)
    assert [await handle.result(timeout=30) for handle in handles[2:]] == [2, 3]


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("option", ["partition_concurrency", "partition_worker_concurrency"])
async def test_a_limit_of_partitions_holds_for_each_key_and_keys_overlap(
    lab: Lab, crowd: Crowd, option: str, limit: int
) -> None:
    enters = crowd.workflow()
    await lab.start(enters, child, queues=[Queue("q", **{option: limit})])
    handles = []
    for key in "abc":
        bound = enters.options(queue="q", partition_key=key)
        handles += await bound.start_many([(key, key) for _ in range(4)])
    await crowd.until_inside(3 * limit)
    await looked_again(lab)
    assert crowd.inside == {"a": limit, "b": limit, "c": limit, "all": 3 * limit}
    crowd.gate.set()
    for handle in handles:
        await handle.result(timeout=30)
    assert crowd.peak == {"a": limit, "b": limit, "c": limit, "all": 3 * limit}


async def test_a_limit_of_the_queue_holds_over_its_partitions(lab: Lab, crowd: Crowd) -> None:
    enters = crowd.workflow()
    queue = Queue("q", partition_concurrency=2, global_concurrency=3)
    await lab.start(enters, child, queues=[queue])
    for key in "abc":
        bound = enters.options(queue="q", partition_key=key)
        await bound.start_many([(key, key), (key, key)])
    await crowd.until_inside(3)
    await looked_again(lab)
    assert crowd.inside["all"] == 3
    assert max(crowd.inside[key] for key in "abc") <= 2


async def test_a_row_without_a_key_on_a_partitioned_queue_is_never_begun(lab: Lab) -> None:
    """Another program may write one; `explain` says what is wrong with it."""
    engine = await lab.start(child, queues=[Queue("q", partition_concurrency=1)])
    await child.options(queue="q", partition_key="k", id="keyed", delay=3600).start("x")
    await lab.backdoor.run(
        "UPDATE workflow_status SET queue_partition_key = NULL, status = 'ENQUEUED'"
        " WHERE workflow_uuid = 'keyed'"
    )
    assert await child.options(queue="q", partition_key="k")("y") == "Y"
    assert await lab.state("keyed") == "ENQUEUED"
    explanation = await engine.workflows.explain("keyed")
    assert explanation.cause == "partition_key_missing"


async def test_who_partitions_a_queue_hears_of_what_waits_without_a_key(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, by a change and by a registration; not of what has keys."""
    engine = await lab.start(child, queues=[Queue("q"), Queue("r"), Queue("s")], listen=[])
    for name in "qr":
        await child.options(queue=name).start("x")
    later = child.options(queue="t", partition_key="k", allow_unknown_queue=True)
    await later.start("x")
    with caplog.at_level(logging.WARNING, "perdure"):
        await engine.queues.update("q", partition_concurrency=1)
        await engine.queues.register(Queue("r", partitioned=True))
        for name in "qr":
            await engine.queues.update(name, partition_concurrency=2)
            await engine.queues.register(Queue(name, partition_concurrency=3))
        for name in "st":
            await engine.queues.register(Queue(name, partitioned=True))
    assert [record.getMessage() for record in logged(caplog)] == [
        f"queue {name!r} is partitioned now, and workflows wait in it that have no partition key: "
        "nothing begins them; cancel them and enqueue them with partition_key="
        for name in "qr"
    ]


async def test_a_queue_stays_partitioned_until_it_is_told_otherwise(lab: Lab) -> None:
    """Callers that give keys, and rows that have them, are not left alone by a lifted limit."""
    engine = await lab.start(child, queues=[Queue("q", partition_concurrency=1)])
    row = await engine.queues.update("q", partition_concurrency=None)
    assert row.settings.partitioned
    assert await child.options(queue="q", partition_key="k")("x") == "X"
    row = await engine.queues.update("q", partitioned=False)
    assert not row.settings.partitioned
    assert await child.options(queue="q")("y") == "Y"
    row = await engine.queues.update("q", partition_rate_limit=RateLimit(5, 1))
    assert row.settings.partitioned
    (stored,) = await lab.rows("SELECT partition_queue FROM queues")
    assert stored["partition_queue"]
    with pytest.raises(ConfigurationError, match="partition"):
        await engine.queues.update("q", partitioned=False)


async def test_a_change_is_judged_by_what_the_queue_becomes(lab: Lab) -> None:
    """A refused one writes nothing; None lifts a limit, and what is not named stays."""
    queue = Queue("q", worker_concurrency=1, global_concurrency=2, rate_limit=RateLimit(5, 1))
    engine = await lab.start(queues=[queue])
    update = engine.queues.update
    with pytest.raises(ConfigurationError, match=r"worker_concurrency=3.*global_concurrency=2"):
        await update("q", worker_concurrency=3)
    with pytest.raises(ConfigurationError, match="unknown options: worker_concurency"):
        await update("q", worker_concurency=3)  # type: ignore[call-arg]
    assert (await engine.queues.get("q")).settings == queue.settings
    row = await update("q", worker_concurrency=3, global_concurrency=3, rate_limit=None)
    assert row.settings == Queue("q", worker_concurrency=3, global_concurrency=3).settings
    row = await update("q", priority_enabled=False, base_polling_interval=0.5)
    assert not row.settings.priority_enabled
    assert (row.settings.base_polling_interval_s, row.settings.limits.worker) == (0.5, 3)
    assert row == await engine.queues.get("q")


async def test_a_raised_limit_binds_a_running_process_from_then_on(lab: Lab, crowd: Crowd) -> None:
    enters = crowd.workflow()
    engine = await lab.start(enters, child, queues=[Queue("q", worker_concurrency=1)])
    await enters.options(queue="q").start_many([(n, "") for n in range(5)])
    await crowd.until_inside(1)
    await looked_again(lab)
    assert crowd.inside["all"] == 1
    await engine.queues.update("q", worker_concurrency=3)
    await crowd.until_inside(3)
    await looked_again(lab)
    assert crowd.peak["all"] == 3


async def test_several_processes_begin_each_workflow_once(shared_lab: Lab) -> None:
    """Three of them drain thirty calls; each body and each step runs once."""
    lab = shared_lab
    begun: Counter[int] = Counter()

    @workflow(name="counts")
    async def counts(number: int) -> int:
        begun[number] += 1
        return number

    engines = [await lab.start(counts, queues=[Queue("q")]) for _ in range(3)]
    bound = counts.options(queue="q", engine=engines[0])
    handles = await bound.start_many([(n,) for n in range(30)])
    assert sorted([await handle.result(timeout=60) for handle in handles]) == list(range(30))
    assert begun == Counter(range(30))


async def test_rows_of_no_version_go_to_the_latest_and_others_to_their_own(
    shared_lab: Lab,
) -> None:
    lab = shared_lab
    old = await lab.start(child, version="v1", queues=[Queue("q")])
    new = await lab.start(child, version="v2")
    await old.queues.pause("q")
    ids = [f"w{number}" for number in range(12)]
    for start in (0, 1):
        bound = child.options(queue="q", engine=(old, new)[start])
        await bound.start_many([(each,) for each in ids[start::2]], ids=ids[start::2])
    unstamped = ids[:6]
    for workflow_id in unstamped:
        await lab.backdoor.run(
            "UPDATE workflow_status SET application_version = NULL WHERE workflow_uuid = ?",
            workflow_id,
        )
    await old.queues.resume("q")
    for place, workflow_id in enumerate(ids):
        row = await lab.until(workflow_id)
        latest = workflow_id in unstamped or place % 2 == 1
        assert row["executor_id"] == (new if latest else old).executor_id
        assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 1)


async def test_a_row_with_its_input_in_the_legacy_column_runs_with_it(lab: Lab) -> None:
    """As older SDKs wrote it."""
    engine = await lab.start(child, queues=[Queue("q")])
    await engine.queues.pause("q")
    handle = await child.options(queue="q", id="w").start("x")
    inputs = json.dumps({"positionalArgs": ["legacy"], "namedArgs": {}})
    await lab.backdoor.run("DELETE FROM workflow_input WHERE workflow_uuid = 'w'")
    await lab.backdoor.run(
        "UPDATE workflow_status SET inputs = ? WHERE workflow_uuid = 'w'", inputs
    )
    await engine.queues.resume("q")
    assert await handle.result(timeout=30) == "LEGACY"


async def test_a_delayed_workflow_keeps_its_place_options_when_it_becomes_due(
    lab: Lab, crowd: Crowd
) -> None:
    """Priority, key and id are those of the call; the same call again joins it meanwhile."""
    crowd.gate.set()
    enters = crowd.workflow()
    queue = Queue("q", partition_concurrency=1, worker_concurrency=1)
    engine = await lab.start(enters, queues=[queue])
    await engine.queues.pause("q")
    bound = enters.options(
        queue="q", delay=60, priority=1, partition_key="k", dedup_id="d", id="late"
    )
    await bound.start("late", "k")
    assert (await bound.start("late", "k")).workflow_id == "late"
    for number in range(2):
        await enters.options(queue="q", priority=2, partition_key="k").start(number, "k")
    lab.clock.leap(61)
    await eventually(lambda: due(lab))
    await engine.queues.resume("q")
    await eventually(lambda: len(crowd.begun) == 3)
    assert crowd.begun == ["late", 0, 1]


async def due(lab: Lab) -> bool:
    """Whether the delayed workflow was moved."""
    return await lab.state("late") == "ENQUEUED"


async def test_a_claim_that_is_refused_for_good_is_tried_again_after_a_pause(
    memory_lab: Lab,
) -> None:
    """Not over and over: what refuses it (privileges, a full disk) takes somebody to mend."""
    lab = memory_lab
    engine = await lab.start(child, queues=[Queue("q")], heartbeat=1000, lease=10_000)
    await engine.queues.pause("q")
    handle = await child.options(queue="q").start("x")
    lab.store.fail("claim", DatabaseRejected("not allowed"), times=1000)
    before, began_s = lab.store.counts["claim"], time.monotonic()
    await engine.queues.resume("q")
    await eventually(lambda: lab.store.counts["claim"] > before)
    await settle(500)
    # A pause is a second at least.
    assert lab.store.counts["claim"] <= before + 2 + (time.monotonic() - began_s)
    lab.store.heal("claim")
    assert await handle.result(timeout=30) == "X"
