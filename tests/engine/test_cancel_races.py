"""A cancel that meets an answer: the run ends, and its rows say what really happened."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from perdure import gather, sleep, step, workflow
from perdure.errors import AwaitedWorkflowCancelled, WorkflowError
from tests.support.engines import Lab, settle
from tests.support.races import rounds
from tests.support.workflows import child, look

TIMEOUTS = rounds(150)
STARTS = rounds(60)


@pytest.mark.parametrize("first", ["answer", "cancel"])
@pytest.mark.parametrize(
    ("method", "call"),
    [("record", look), ("record", lambda: sleep(3_600)), ("start", lambda: child.start("x"))],
    ids=["step", "sleep", "start"],
)
async def test_a_call_cancelled_in_the_tick_of_its_answer_does_not_hang_its_run(
    memory_lab: Lab, method: str, call: Any, first: str
) -> None:
    """The answer is known by then, so the run need not wait for it."""
    tasks: list[asyncio.Future[Any]] = []

    @workflow(name="races")
    async def races() -> str:
        tasks.append(asyncio.ensure_future(call()))
        await asyncio.wait(tasks)
        return "ended"

    await memory_lab.start(races, child)
    handle = await races.options(id="w").start()
    gate = memory_lab.store.hold(method, after=True)
    await gate.reached()
    turns = [gate.open, tasks[0].cancel]
    for turn in turns if first == "answer" else reversed(turns):
        asyncio.get_running_loop().call_soon(turn)
    assert await handle.result(timeout=20) == "ended"
    assert tasks[0].cancelled()
    assert len(await memory_lab.steps("w")) == 1


@pytest.mark.parametrize("sent", [False, True], ids=["unsent", "sent"])
async def test_a_cancelled_calls_write_is_withdrawn_unless_it_was_sent(
    memory_lab: Lab, sent: bool
) -> None:
    """Unsent it is never made; sent, the run's end waits until its answer is known."""
    begun, tasks = asyncio.Event(), []

    @workflow(name="holds_the_lane")
    async def holds_the_lane() -> None:
        await look()

    @workflow(name="drops")
    async def drops() -> str:
        begun.set()
        tasks.append(asyncio.ensure_future(look()))
        await asyncio.wait(tasks)
        return "ended"

    await memory_lab.start(holds_the_lane, drops)
    gate = memory_lab.store.hold("record")
    first = await (drops if sent else holds_the_lane).options(id="first").start()
    await gate.reached()
    if not sent:
        await drops.options(id="second").start()
        await begun.wait()
        await settle()
    tasks[0].cancel()
    if sent:
        await settle(20)
        assert await memory_lab.state("first") == "PENDING"
    else:
        assert (await memory_lab.until("second"))["status"] == "SUCCESS"
    gate.open()
    await first
    assert len(await memory_lab.steps("first")) == 1
    assert await memory_lab.steps("second") == []


async def test_timeouts_that_strike_about_the_end_of_a_call_leave_consistent_runs(
    lab: Lab,
) -> None:
    """What the body saw is what is recorded, and every run comes to an end."""
    chance = random.Random(7)
    outcomes: dict[str, str] = {}

    @step(name="short")
    async def short() -> str:
        await asyncio.sleep(chance.uniform(0, 0.004))
        return "value"

    @workflow(name="tight")
    async def tight(number: int) -> str:
        calls: list[Any] = [short, lambda: sleep(0.002), lambda: child("x")]
        # Some of each kind are in time, and some late, on any machine.
        limits_s = {0: 0.0, 1: 60.0}
        limit_s = limits_s.get(number // 3 % 10, chance.uniform(0, 0.008))
        try:
            async with asyncio.timeout(limit_s):
                await calls[number % 3]()
        except TimeoutError:
            return "timeout"
        return "value"

    await lab.start(tight, child)
    handles = [await tight.options(id=f"w-{number}").start(number) for number in range(TIMEOUTS)]
    for handle in handles:
        outcomes[handle.workflow_id] = await handle.result(timeout=30)
    assert set(outcomes.values()) == {"timeout", "value"}
    for number in range(0, TIMEOUTS, 3):
        recorded = len(await lab.steps(f"w-{number}"))
        assert recorded == 1 or outcomes[f"w-{number}"] == "timeout"


async def test_a_parent_cancelled_anywhere_in_a_start_leaves_no_stray_child(lab: Lab) -> None:
    """Every child there is has the derived id and its parent's link."""
    chance = random.Random(8)

    @workflow(name="starts")
    async def starts() -> None:
        await gather(*(child.start(f"{number}") for number in range(5)))

    await lab.start(starts, child)
    for number in range(STARTS):
        handle = await starts.options(id=f"p-{number}").start()
        await asyncio.sleep(chance.uniform(0, 0.004))
        await handle.cancel()
    await lab.until_nothing_runs()
    for number in range(STARTS):
        parent = f"p-{number}"
        rows = await lab.rows(
            "SELECT workflow_uuid AS id FROM workflow_status WHERE parent_workflow_id = ?", parent
        )
        links = {link for _, _, link in await lab.links(parent)}
        assert {row["id"] for row in rows} == links
        assert links <= {f"{parent}-{step_id}" for step_id in range(1, 6)}


async def test_a_cancelled_task_around_a_sleep_leaves_no_stray_timer(memory_lab: Lab) -> None:
    """No exception reaches the loop's handler later, and nothing sleeps on."""
    strays: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: strays.append(context))

    @workflow(name="gives_up")
    async def gives_up() -> str:
        task = asyncio.ensure_future(sleep(3_600))
        await memory_lab.until_asleep(3_000)
        task.cancel()
        await asyncio.wait([task])
        return "gave up"

    await memory_lab.start(gives_up)
    assert await gives_up() == "gave up"
    assert memory_lab.clock.sleepers(3_000) == []
    await settle()
    assert strays == []


@pytest.mark.usefixtures("long_release")
async def test_the_next_call_of_a_run_whose_call_was_cancelled_raises_every_time(
    memory_lab: Lab,
) -> None:
    """The fault is sticky: a body that swallows it records nothing more."""
    raised: list[type[BaseException]] = []

    @workflow(name="swallows")
    async def swallows() -> str:
        task = asyncio.ensure_future(sleep(3_600))
        await memory_lab.until_asleep(3_000)
        task.cancel()
        await asyncio.wait([task])
        for _ in range(3):
            try:
                await look()
            except WorkflowError as error:
                raised.append(type(error))
        return "swallowed"

    await memory_lab.start(swallows)
    with pytest.raises(WorkflowError):
        await swallows.options(id="w")()
    assert [each.__name__ for each in raised] == ["ForeignCancellation"] * 3
    assert await memory_lab.history("w") == [(1, "DBOS.sleep")]
    assert await memory_lab.state("w") == "DELAYED"


async def test_who_waits_hears_of_a_cancel_elsewhere_while_a_step_still_runs(lab: Lab) -> None:
    """The end of the execution here is not waited for: the row has its outcome."""
    begun, go = asyncio.Event(), asyncio.Event()

    @step(name="stubborn")
    async def stubborn() -> None:
        begun.set()
        await go.wait()

    @workflow(name="runs")
    async def runs() -> None:
        await stubborn()

    await lab.start(runs)
    handle = await runs.options(id="r").start()
    await begun.wait()
    await lab.cancel_elsewhere("r")
    with pytest.raises(AwaitedWorkflowCancelled):
        await handle.result(timeout=20)
    go.set()
    await lab.until_nothing_runs()
