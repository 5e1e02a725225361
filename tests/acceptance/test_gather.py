"""Several durable calls at once: `gather`, and what asyncio's own tools may and may not do."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from perdure import current, gather, run_step, select, sleep, step, workflow
from perdure.errors import CallSpent, ForeignCancellation, UnscopedTask, WrongPlace
from tests.support.engines import Lab
from tests.support.workflows import look

EVERY_ORDER = list(itertools.permutations("abc"))


class Ordered:
    """Steps that end in an order the test chooses."""

    def __init__(self) -> None:
        self.order = list("abc")
        self.ended: list[str] = []
        self._next = asyncio.Condition()

        @step(name="named")
        async def named(word: str) -> str:
            async with self._next:
                await self._next.wait_for(lambda: self.order[len(self.ended)] == word)
                self.ended.append(word)
                self._next.notify_all()
            if word.isupper():
                raise ValueError(word)
            return word

        self.step = named


@pytest.mark.parametrize("order", EVERY_ORDER, ids="".join)
async def test_ids_follow_the_source_whatever_ends_first(
    memory_lab: Lab, order: tuple[str, ...]
) -> None:
    """Results come in the order of the calls, and a replay in any other order finds its own."""
    steps = Ordered()

    @workflow(name="fans_out")
    async def fans_out() -> list[str]:
        return await gather(*(steps.step(word) for word in "abc"))

    await memory_lab.start(fans_out)
    steps.order = list(order)
    assert await fans_out.options(id="w")() == ["a", "b", "c"]
    assert steps.ended == list(order)
    rows = await memory_lab.steps("w")
    assert [(row["function_id"], row["output"]) for row in rows] == [
        (1, '"a"'),
        (2, '"b"'),
        (3, '"c"'),
    ]
    await memory_lab.cut("w", 2)
    steps.order, steps.ended = ["c", "b", ""], []
    assert (await memory_lab.rerun("w"))["status"] == "SUCCESS"
    assert await memory_lab.output("w") == '["a","b","c"]'
    assert steps.ended == ["c", "b"]


async def test_a_gather_of_calls_takes_no_id_of_its_own(lab: Lab) -> None:
    """Steps, sleeps, children and results are gathered as they stand."""

    @workflow(name="small")
    async def small(word: str) -> str:
        return word

    @workflow(name="mixes")
    async def mixes() -> list[Any]:
        handle = await small.start("handle")
        got: list[Any] = list(
            await gather(
                run_step("one", lambda: 1), sleep(0.001), sleep(0), small("run"), handle.result()
            )
        )
        await look()
        return got

    await lab.start(mixes, small)
    assert await mixes.options(id="m")() == [1, None, None, "run", "handle"]
    assert await lab.history("m") == [
        (1, "small"),
        (2, "one"),
        (3, "DBOS.sleep"),
        (4, "small"),
        (5, "DBOS.getResult"),
        (6, "DBOS.getResult"),
        (7, "look"),
    ]
    assert (await lab.rerun("m"))["status"] == "SUCCESS"


async def test_it_waits_for_all_and_raises_the_failure_of_the_lowest_index(lab: Lab) -> None:
    """Whichever failed first in time; the rest is recorded all the same."""
    steps = Ordered()
    steps.order = list("CbaB")

    @workflow(name="fails")
    async def fails() -> str:
        try:
            await gather(steps.step("a"), steps.step("B"), steps.step("C"), steps.step("b"))
        except ValueError as error:
            return str(error)
        return "none"

    await lab.start(fails)
    assert await fails.options(id="w")() == "B"
    assert steps.ended == list("CbaB")
    outcomes = [(row["function_id"], row["error"] is None) for row in await lab.steps("w")]
    assert outcomes == [(1, True), (2, False), (3, False), (4, True)]
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == '"B"'


async def test_failures_may_be_returned_in_their_place(lab: Lab) -> None:
    """`return_exceptions` gives values and errors side by side."""
    steps = Ordered()
    steps.order = list("Ba")

    @workflow(name="collects")
    async def collects() -> list[str]:
        got = await gather(steps.step("a"), steps.step("B"), return_exceptions=True)
        return [repr(each) for each in got]

    await lab.start(collects)
    assert await collects.options(id="w")() == ["'a'", "ValueError('B')"]


async def test_a_stray_cancelled_error_is_that_steps_failure_and_others_go_on(lab: Lab) -> None:
    """Nobody asked for it: it is an outcome, and `gather` still waits for the rest."""
    go = asyncio.Event()

    @step(name="stray")
    async def stray() -> None:
        asyncio.get_running_loop().call_soon(go.set)
        raise asyncio.CancelledError("from a library")

    @step(name="slow")
    async def slow() -> str:
        await go.wait()
        await asyncio.sleep(0.01)
        return "done"

    @workflow(name="both")
    async def both() -> list[str]:
        got = await gather(stray(), slow(), return_exceptions=True)
        return [type(each).__name__ if isinstance(each, BaseException) else each for each in got]

    await lab.start(both)
    first = await both.options(id="w")()
    assert first[1] == "done"
    stray_row, slow_row = await lab.steps("w")
    assert json.loads(stray_row["error"])["name"] == "CancelledError"
    assert slow_row["output"] == '"done"'
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert json.loads(await lab.output("w") or "") == first


async def test_a_stray_cancelled_error_of_the_body_is_its_outcome(lab: Lab) -> None:
    """The workflow fails; it is not interrupted, and not tried again."""

    @workflow(name="stray")
    async def stray() -> None:
        raise asyncio.CancelledError("from a library")

    await lab.start(stray)
    handle = await stray.options(id="w").start()
    assert (await lab.until("w"))["status"] == "ERROR"
    assert (await lab.error("w") or {})["name"] == "CancelledError"
    with pytest.raises(Exception, match="from a library"):
        await handle


async def test_what_is_no_branch_is_refused(memory_lab: Lab) -> None:
    """A durable call or a coroutine; a function of several steps has to be called, or mapped."""

    async def several() -> None:
        await look()

    @workflow(name="tries")
    async def tries() -> None:
        wrong: Any
        for wrong in (several, 5, asyncio.get_running_loop().create_future()):
            with pytest.raises(WrongPlace, match=r"durable calls .* and coroutines"):
                await gather(wrong)

    await memory_lab.start(tries)
    await tries.options(id="t")()
    assert await memory_lab.steps("t") == []


async def test_an_empty_gather_and_one_outside_a_workflow(memory_lab: Lab) -> None:
    """Nothing to wait for is an empty list; outside, calls are plain."""
    assert await gather() == []
    assert await gather(run_step("one", lambda: 1), sleep(0.001)) == [1, None]

    @workflow(name="empty")
    async def empty() -> list[int]:
        return await gather()

    await memory_lab.start(empty)
    assert await empty() == []


@pytest.mark.parametrize("together", [gather, select])
async def test_the_same_call_twice_is_refused(
    memory_lab: Lab, together: Callable[..., Awaitable[Any]]
) -> None:
    """A call happens once; nothing has begun, so that it still can."""

    @workflow(name="twice")
    async def twice() -> None:
        call = look()
        with pytest.raises(CallSpent, match=r"was given .*look.* twice"):
            await together(call, call)
        await call

    await memory_lab.start(twice)
    await twice.options(id="t")()
    assert await memory_lab.history("t") == [(1, "look")]


@pytest.mark.parametrize("order", EVERY_ORDER, ids="".join)
async def test_asyncio_gather_over_calls_is_replayable(
    memory_lab: Lab, order: tuple[str, ...]
) -> None:
    """The calls took their ids where they were built; helper tasks only drive them."""
    steps = Ordered()
    steps.order = list(order)

    @workflow(name="bare")
    async def bare() -> list[str]:
        calls = [steps.step(word) for word in "abc"]
        return list(await asyncio.gather(*calls, return_exceptions=True))

    await memory_lab.start(bare)
    assert await bare.options(id="w")() == ["a", "b", "c"]
    assert [row["output"] for row in await memory_lab.steps("w")] == ['"a"', '"b"', '"c"']
    assert (await memory_lab.rerun("w"))["status"] == "SUCCESS"
    assert await memory_lab.output("w") == '["a","b","c"]'


async def test_asyncio_wait_for_all_over_calls_is_replayable(memory_lab: Lab) -> None:
    """ALL_COMPLETED, in tasks of asyncio."""
    steps = Ordered()
    steps.order = list("cab")

    @workflow(name="waits")
    async def waits() -> list[str]:
        tasks = [asyncio.ensure_future(steps.step(word)) for word in "abc"]
        await asyncio.wait(tasks)
        return [task.result() for task in tasks]

    await memory_lab.start(waits)
    assert await waits.options(id="w")() == ["a", "b", "c"]
    assert (await memory_lab.rerun("w"))["status"] == "SUCCESS"


async def test_calls_driven_in_another_order_than_built_keep_their_ids(lab: Lab) -> None:
    """Build a, b, c; drive c, b, a."""

    @workflow(name="backwards")
    async def backwards() -> list[str | None]:
        async def where() -> str:
            return f"step {current().step_id}"

        first, second, third = (run_step(name, where) for name in ("a", "b", "c"))
        return [await third, await second, await first]

    await lab.start(backwards)
    assert await backwards.options(id="w")() == ["step 3", "step 2", "step 1"]
    assert await lab.history("w") == [(1, "a"), (2, "b"), (3, "c")]
    assert (await lab.rerun("w"))["status"] == "SUCCESS"


async def test_a_call_built_in_a_task_of_asyncio_is_refused(lab: Lab) -> None:
    """Its id would depend on scheduling; the refusal names `gather` and takes no id."""

    async def helper() -> None:
        await look()

    @workflow(name="spawns")
    async def spawns() -> None:
        with pytest.raises(UnscopedTask, match=r"perdure\.gather"):
            await asyncio.create_task(helper())
        with pytest.raises(UnscopedTask):
            await asyncio.gather(helper())
        with pytest.raises(ExceptionGroup) as group:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(helper())
        assert isinstance(group.value.exceptions[0], UnscopedTask)
        await look()

    await lab.start(spawns)
    await spawns.options(id="s")()
    assert await lab.history("s") == [(1, "look")]


async def test_a_call_built_in_a_thread_of_the_body_is_refused(memory_lab: Lab) -> None:
    """A thread has no place in the order; the refusal comes at once, as nothing awaits there."""

    @workflow(name="threads")
    async def threads() -> None:
        with pytest.raises(UnscopedTask, match="thread"):
            await asyncio.to_thread(look)
        await look()

    await memory_lab.start(threads)
    await threads.options(id="t")()
    assert await memory_lab.history("t") == [(1, "look")]


@pytest.mark.parametrize("how", ["timeout", "wait_for", "cancel"])
async def test_a_call_cancelled_by_something_unrecorded_ends_the_replayable_part(
    lab: Lab, how: str
) -> None:
    """The next durable call raises, naming the durable way; the run is tried again later."""
    raised: list[str] = []

    async def cancel_it() -> None:
        call = sleep(3_600)
        if how == "timeout":
            async with asyncio.timeout(0.01):
                await call
        elif how == "wait_for":
            await asyncio.wait_for(call, 0.01)
        else:
            task = asyncio.ensure_future(call)
            asyncio.get_running_loop().call_later(0.01, task.cancel)
            await task

    @workflow(name="races")
    async def races() -> str:
        with pytest.raises((TimeoutError, asyncio.CancelledError)):
            await cancel_it()
        try:
            await look()
        except ForeignCancellation as error:
            raised.append(str(error))
        return "went on"

    await lab.start(races)
    # However slow the machine, it is not tried again while this looks at it.
    lab.store.hold("sweep")
    handle = await races.options(id="w").start()
    with pytest.raises(ForeignCancellation):
        await handle
    assert len(raised) == 1
    assert "'DBOS.sleep' was cancelled" in raised[0]
    assert "timeout=" in raised[0]
    row = await lab.status("w")
    assert (row["status"], await lab.output("w")) == ("DELAYED", None)
    assert "look" not in [name for _, name in await lab.history("w")]


async def test_a_call_finished_before_it_could_be_cancelled_is_just_done(memory_lab: Lab) -> None:
    """A timeout that does not strike is no trouble."""

    @workflow(name="quick")
    async def quick() -> str:
        async with asyncio.timeout(60):
            await look()
        return await asyncio.wait_for(run_step("fast", lambda: "fast"), 60)

    await memory_lab.start(quick)
    assert await quick.options(id="q")() == "fast"
    assert await memory_lab.history("q") == [(1, "look"), (2, "fast")]


async def test_a_body_that_ends_settles_the_calls_it_began(lab: Lab) -> None:
    """Nothing it started runs or is recorded after its outcome."""
    began, ends = asyncio.Event(), []

    @step(name="left")
    async def left() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("left")

    @workflow(name="leaves")
    async def leaves() -> str:
        leaves_behind.append(asyncio.ensure_future(left()))
        await began.wait()
        return "ended"

    leaves_behind: list[asyncio.Future[None]] = []
    await lab.start(leaves)
    assert await leaves.options(id="w")() == "ended"
    assert ends == ["left"]
    assert leaves_behind[0].done()
    assert await lab.steps("w") == []


async def test_a_call_driven_after_its_body_ended_does_nothing(lab: Lab) -> None:
    """A helper task that begins it too late is refused, before any effect."""
    effects: list[int] = []
    go = asyncio.Event()
    late: list[asyncio.Task[Any]] = []

    async def later(call: Any) -> None:
        await go.wait()
        await call

    @workflow(name="leaves")
    async def leaves() -> str:
        late.append(asyncio.create_task(later(run_step("effect", lambda: effects.append(1)))))
        return "ended"

    await lab.start(leaves)
    assert await leaves.options(id="w")() == "ended"
    go.set()
    await asyncio.wait(late)
    assert late[0].exception() is not None
    assert (effects, await lab.steps("w")) == ([], [])
