"""Runs whose workflow was cancelled, resumed, rewound or deleted by somebody else hear of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from perdure import Client, Queue, WorkflowHandle, current, recv, sleep, step, workflow
from perdure.api.management import Workflows
from perdure.engine import polling, sweeper
from perdure.engine.hints import HintKind
from perdure.engine.kernel import Kernel
from perdure.ports.store.hints import TALK
from tests.support.engines import Lab, settle
from tests.support.held import AT_ITS_END, AT_ONCE, Held, held_in, sleeper
from tests.support.waiting import eventually
from tests.support.workflows import child

TAKEN: dict[str, Callable[[Workflows], Awaitable[Any]]] = {
    "cancelled": lambda on: on.cancel("w"),
    "resumed": lambda on: on.resume("w", queue="nobodys"),
    "deleted": lambda on: on.delete("w"),
}


@pytest.fixture
def never_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines do not look by themselves whether their runs are still theirs: only hints help."""
    monkeypatch.setattr(sweeper, "OWNERSHIP_POLL_S", 1_000.0)


def hints_heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What engines hear from now on."""
    heard: list[str] = []
    on_hint = Kernel.on_hint

    def noting(self: Kernel, text: str) -> None:
        heard.append(text)
        on_hint(self, text)

    monkeypatch.setattr(Kernel, "on_hint", noting)
    return heard


FAR = pytest.mark.parametrize("shared_lab", ["postgres"], indirect=True)
"""Where processes hear hints that name workflows."""

ON_A_FILE = pytest.mark.parametrize("shared_lab", ["sqlite"], indirect=True)
"""Where they only notice that others committed something."""


@pytest.mark.usefixtures("never_looking")
@pytest.mark.parametrize("how", TAKEN)
@pytest.mark.parametrize("kind", AT_ONCE)
async def test_a_run_here_that_waits_ends_at_once(memory_lab: Lab, how: str, kind: str) -> None:
    """Whoever takes it away tells the runs of its own process itself."""
    held = Held()
    await held_in(memory_lab, held, kind, queues=[Queue("nobodys")], listen=[])
    await TAKEN[how](memory_lab.engine.workflows)
    await eventually(lambda: "w" not in memory_lab.engine.kernel.runner.runs)
    assert held.after == []
    # A thread notes that it was told when it comes to it.
    await eventually(lambda: held.told == ([True] if kind == "preemptible_thread" else []))


@pytest.mark.usefixtures("never_looking")
@pytest.mark.parametrize("how", TAKEN)
async def test_a_run_elsewhere_that_sleeps_ends_at_once(shared_lab: Lab, how: str) -> None:
    """By a hint of whoever did it, here a client."""
    held = Held()
    await held_in(shared_lab, held, "sleeping", queues=[Queue("nobodys")], listen=[])
    runs = shared_lab.engine.kernel.runner.runs
    async with Client(shared_lab.url) as client:
        await TAKEN[how](client.workflows)
        await eventually(lambda: not runs)
    assert shared_lab.clock.sleepers(80_000) == []
    assert held.after == []


@pytest.mark.usefixtures("never_looking")
@pytest.mark.parametrize("kind", [kind for kind in AT_ONCE if kind != "sleeping"])
async def test_whatever_a_cancelled_run_elsewhere_waits_for(shared_lab: Lab, kind: str) -> None:
    """It ends at once, by a hint of another engine."""
    held = Held()
    await held_in(shared_lab, held, kind)
    runs = shared_lab.engine.kernel.runner.runs
    other = await shared_lab.start(child)
    assert await other.workflows.cancel("w") == ["w"]
    await eventually(lambda: "w" not in runs)
    assert held.after == []
    # A thread notes that it was told when it comes to it.
    await eventually(lambda: held.told == ([True] if kind == "preemptible_thread" else []))


@ON_A_FILE
@pytest.mark.usefixtures("never_looking")
@pytest.mark.parametrize(("kind", "looks"), [("sleeping", 1), ("running", 0)])
async def test_however_much_others_commit_few_looks_are_taken(
    shared_lab: Lab, monkeypatch: pytest.MonkeyPatch, kind: str, looks: int
) -> None:
    """One for as long as the rest after it lasts, and none at runs that could not end at once."""
    monkeypatch.setattr(sweeper, "LEAST_REST_S", 1_000.0)
    held = Held()
    await held_in(shared_lab, held, kind)
    heard = hints_heard(monkeypatch)
    shared_lab.store.forget()
    async with Client(shared_lab.url) as client:
        for number in range(5):
            await client.send("w", "a message")
            await eventually(lambda: len(heard) > number)  # noqa: B023 - awaited here
    await settle()
    assert set(heard) == {TALK}
    assert shared_lab.store.counts["lost"] == looks
    held.go.set()


@ON_A_FILE
@pytest.mark.usefixtures("never_looking")
async def test_what_is_cancelled_while_it_rests_is_found_after_that(
    shared_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However soon after another commit."""
    monkeypatch.setattr(sweeper, "LEAST_REST_S", 0.3)
    engine = await shared_lab.start(sleeper)
    store = shared_lab.store
    await sleeper.options(id="s").start()
    await shared_lab.until_asleep(80_000)
    async with Client(shared_lab.url) as client:
        await client.send("s", "not for long")
        await eventually(lambda: store.counts["lost"])
        await client.workflows.cancel("s")
        await eventually(lambda: not engine.kernel.runner.runs)


@FAR
@pytest.mark.usefixtures("never_looking")
async def test_many_at_once_are_told_of_in_one_hint(shared_lab: Lab) -> None:
    """And every process looks at all that it runs."""
    engine = await shared_lab.start(sleeper)
    ids = [f"s{number}" for number in range(120)]
    for each in ids:
        await sleeper.options(id=each, engine=engine).start()
    other = await shared_lab.start(child)
    shared_lab.store.forget()
    assert await other.workflows.cancel(ids) == ids
    await eventually(lambda: not engine.kernel.runner.runs)
    announced = [call.args[0] for call in shared_lab.store.calls if call.method == "announce"]
    assert [text[8:] for hints in announced for text in hints if text[8] == HintKind.TAKEN] == [
        HintKind.TAKEN
    ]


@pytest.mark.parametrize("kind", AT_ITS_END)
async def test_a_step_that_may_not_be_stopped_ends_by_itself(memory_lab: Lab, kind: str) -> None:
    """Its attempt is not abandoned, nothing of it is recorded, and nothing comes after it."""
    held = Held()
    await held_in(memory_lab, held, kind)
    await memory_lab.engine.workflows.cancel("w")
    assert list(memory_lab.engine.kernel.runner.runs) == ["w"]
    held.go.set()
    await memory_lab.until_nothing_runs()
    assert (held.after, await memory_lab.steps("w")) == ([], [])


async def test_a_whole_tree_stops(lab: Lab) -> None:
    """Its preemptible steps at once, and their tokens fire; what waits in a queue never begins."""
    told: list[bool] = []
    begun = asyncio.Event()

    @step(preemptible=True)
    def leaf_step() -> None:
        loop.call_soon_threadsafe(begun.set)
        told.append(current().cancellation.wait(20))

    @workflow(name="leaf")
    async def leaf() -> None:
        await leaf_step()

    @workflow(name="middle")
    async def middle() -> None:
        await leaf()

    @workflow(name="root")
    async def root() -> None:
        await child.options(queue="nobodys").start("x")
        await middle()

    loop = asyncio.get_running_loop()
    engine = await lab.start(
        root, middle, leaf, child, queues=[Queue("nobodys")], listen=[], heartbeat=0.1
    )
    handle = await root.options(id="r").start()
    await begun.wait()
    assert await engine.workflows.cancel("r", children=True) == ["r", "r-1", "r-2", "r-2-1"]
    await lab.until_nothing_runs()
    await eventually(lambda: told == [True])
    for each in ("r", "r-1", "r-2", "r-2-1"):
        assert await lab.state(each) == "CANCELLED"
    with pytest.raises(Exception, match="'r' was cancelled"):
        await handle


async def test_a_parent_outlives_its_cancelled_child(lab: Lab) -> None:
    """Awaiting it raises an ordinary error; without `children` the others are left alone."""

    @workflow(name="parent")
    async def parent() -> str:
        try:
            await sleeper()
        except Exception as error:  # noqa: BLE001 - that it is an ordinary one is the point
            return type(error).__name__
        return "slept"

    @workflow(name="grand")
    async def grand() -> str:
        return await parent()

    engine = await lab.start(grand, parent, sleeper)
    handle = await grand.options(id="g").start()
    await lab.until_asleep(80_000)
    assert await engine.workflows.cancel("g-1-1") == ["g-1-1"]
    assert await handle.result(timeout=20) == "AwaitedWorkflowCancelled"


async def test_a_cancelled_receiver_takes_nothing(lab: Lab) -> None:
    """What comes later stays for who resumes it."""

    @workflow(name="receives")
    async def receives() -> Any:
        return await recv(timeout=80_000)

    engine = await lab.start(receives)
    await receives.options(id="w").start()
    await lab.until_asleep(70_000)
    await engine.workflows.cancel("w")
    await lab.until_nothing_runs()
    await engine.send("w", "late")
    assert await lab.state("w") == "CANCELLED"
    (handle,) = await engine.workflows.resume("w")
    assert await handle.result(timeout=20) == "late"


@pytest.mark.usefixtures("never_looking")
async def test_a_wait_for_what_is_cancelled_elsewhere_ends_at_once(
    shared_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same hint."""
    monkeypatch.setattr(polling, "FIRST_PAUSE_S", 500.0)
    monkeypatch.setattr(polling, "LONGEST_PAUSE_S", 500.0)
    engine = await shared_lab.start(child, queues=[Queue("nobodys")], listen=[])
    handle: WorkflowHandle[str] = await child.options(id="c", queue="nobodys").start("x")
    waiting = asyncio.ensure_future(handle.result())
    await eventually(lambda: engine.kernel.waiter.waited_for(handle.workflow_id))
    async with Client(shared_lab.url) as client:
        await client.workflows.cancel("c")
        with pytest.raises(Exception, match="'c' was cancelled"):
            await asyncio.wait_for(waiting, 20)


async def test_what_is_resumed_forked_or_rewound_is_begun_at_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dispatcher of its queue is told: no heartbeat is waited for."""
    engine = await lab.start(child, sleeper, queues=[Queue("line")], heartbeat=60, lease=300)
    on = engine.workflows
    assert await child.options(id="c")("x") == "X"
    await sleeper.options(id="s").start()
    await lab.until_asleep(80_000)
    await on.cancel("s")
    await lab.until_nothing_runs()
    for queue in (None, "line"):
        (resumed,) = await on.resume("s", queue=queue)
        await lab.until_asleep(80_000)
        assert await on.cancel(resumed.workflow_id) == ["s"]
        await lab.until_nothing_runs()
        fork = await on.fork("c", queue=queue)
        assert await fork.result(timeout=20) == "X"
        assert await (await on.rewind("c", queue=queue)).result(timeout=20) == "X"


async def test_an_old_execution_ends_nothing_that_goes_on(lab: Lab) -> None:
    """Resumed while a step runs: the step ends, and the new execution has the last word."""
    held, words = Held(), iter(("old", "new"))

    @step(name="slow")
    async def slow() -> str:
        word = next(words)
        if word == "old":
            held.begun.set()
            await eventually(held.go.is_set)
        return word

    @workflow(name="w")
    async def works() -> str:
        return await slow()

    engine = await lab.start(works)
    await works.options(id="w").start()
    await eventually(held.begun.is_set)
    (handle,) = await engine.workflows.resume("w")
    assert await handle.result(timeout=20) == "new"
    held.go.set()
    await lab.until_nothing_runs()
    assert [row["output"] for row in await lab.steps("w")] == ['"new"']


async def test_a_run_that_ends_while_it_is_cancelled_tells_one_story(lab: Lab) -> None:
    """Whoever is first: its answer is what the row says."""

    @workflow(name="short")
    async def short() -> str:
        await sleep(0.001)
        return "done"

    engine = await lab.start(short)
    for number in range(40):
        handle = await short.options(id=f"w{number}").start()
        await asyncio.sleep(number * 0.0002)
        cancelled = await engine.workflows.cancel(f"w{number}")
        try:
            outcome = await handle.result(timeout=20)
        except Exception as error:  # noqa: BLE001 - it is compared with the row
            outcome = type(error).__name__
        state = await lab.state(f"w{number}")
        assert (outcome, state) == (
            ("AwaitedWorkflowCancelled", "CANCELLED") if cancelled else ("done", "SUCCESS")
        )
