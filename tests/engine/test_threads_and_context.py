"""Threads and context variables: what is carried where, and what never leaks."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Awaitable

import pytest

from perdure import current, gather, run_step, sleep, step, workflow
from perdure.api.logs import ContextFilter
from perdure.engine.context import PLACE
from perdure.errors import WorkflowError
from tests.support.engines import Lab
from tests.support.waiting import eventually

USER: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")


async def test_two_hundred_interleaved_workflows_each_see_themselves(lab: Lab) -> None:
    """After every await, in body, step, thread step and child; nothing is left outside."""

    def here() -> str | None:
        return current().workflow_id

    @step(name="in_loop")
    async def in_loop() -> str | None:
        await asyncio.sleep(0)
        return here()

    @workflow(name="inner")
    async def inner() -> str | None:
        await sleep(0.001)
        return here()

    @workflow(name="outer")
    async def outer() -> list[str | None]:
        mine = here()
        seen = [await in_loop(), await run_step("thread", here)]
        await asyncio.sleep(0)
        seen.append(here())
        seen += await gather(in_loop(), run_step("thread", here))
        assert await inner() == f"{mine}-5"
        return [*seen, here()]

    await lab.start(outer, inner)
    USER.set("caller")
    ids = [f"w-{number}" for number in range(200)]
    results = await asyncio.gather(*(outer.options(id=each)() for each in ids))
    for workflow_id, seen in zip(ids, results, strict=True):
        assert seen == [workflow_id] * 6
    assert here() is None
    assert PLACE.get() is None


async def test_nothing_of_a_callers_context_is_seen_in_a_workflow(memory_lab: Lab) -> None:
    """A recovered run could not see it either."""

    @workflow(name="looks")
    async def looks() -> list[str]:
        async def user() -> str:
            return USER.get()

        return [USER.get(), await run_step("user", user)]

    await memory_lab.start(looks)
    token = USER.set("caller")
    assert await looks.options(id="w")() == ["nobody", "nobody"]
    USER.reset(token)


async def test_what_a_body_sets_is_seen_in_its_steps_and_nowhere_else(memory_lab: Lab) -> None:
    """In async steps and in threads; not in its children, its siblings or its caller."""

    def user() -> str:
        return USER.get()

    async def user_async() -> str:
        return USER.get()

    @workflow(name="inner")
    async def inner() -> str:
        return USER.get()

    @workflow(name="sets")
    async def sets(name: str) -> list[str]:
        USER.set(name)
        seen = [await run_step("thread", user), await run_step("loop", user_async)]
        return [*seen, await inner()]

    await memory_lab.start(sets, inner)
    first, second = await asyncio.gather(sets("ann"), sets("bob"))
    assert (first, second) == (["ann", "ann", "nobody"], ["bob", "bob", "nobody"])
    assert USER.get() == "nobody"


async def test_what_a_thread_step_sets_does_not_leak_back(memory_lab: Lab) -> None:
    """Nor into the next step that runs in the same thread."""

    def sets() -> str:
        USER.set("thread")
        return USER.get()

    @workflow(name="runs")
    async def runs() -> list[str]:
        set_there = await run_step("sets", sets)
        return [set_there, USER.get(), await run_step("looks", USER.get)]

    await memory_lab.start(runs, threads=1)
    assert await runs() == ["thread", "nobody", "nobody"]


async def test_a_def_step_never_blocks_the_loop_and_many_run_at_the_same_time(
    memory_lab: Lab,
) -> None:
    """All of them meet at a barrier in their threads while the loop goes on."""
    barrier, turns = threading.Barrier(5), [0]

    @step(name="meets")
    def meets() -> bool:
        barrier.wait(20)
        return threading.current_thread() is not threading.main_thread()

    @workflow(name="all_at_once")
    async def all_at_once() -> list[bool]:
        return await gather(*(meets() for _ in range(5)))

    async def tick() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    await memory_lab.start(all_at_once)
    ticking = asyncio.create_task(tick())
    assert await all_at_once() == [True] * 5
    ticking.cancel()
    assert turns[0] > 10


async def test_threads_are_bounded_and_named(memory_lab: Lab) -> None:
    """More blocking steps than threads wait for their turn."""
    names: set[str] = set()

    def note() -> None:
        names.add(threading.current_thread().name)

    @workflow(name="many")
    async def many() -> None:
        await gather(*(run_step("note", note) for _ in range(50)))

    await memory_lab.start(many, threads=2)
    await many()
    assert len(names) <= 2
    assert all(name.startswith("perdure-step") for name in names)


async def test_a_lambda_that_returns_an_awaitable_is_awaited(memory_lab: Lab) -> None:
    """`run_step(name, lambda: client.get(url))` does what it looks like."""

    async def fetch(word: str) -> str:
        await asyncio.sleep(0)
        return f"{word} in step {current().step_id}"

    class Client:
        async def __call__(self, word: str) -> str:
            return await fetch(word)

    @workflow(name="fetches")
    async def fetches() -> list[str]:
        return [
            await run_step("lambda", lambda: fetch("a")),
            await run_step("callable", Client(), "b"),
        ]

    await memory_lab.start(fetches)
    assert await fetches() == ["a in step 1", "b in step 2"]
    assert await run_step("plain", lambda: asyncio.sleep(0, "outside")) == "outside"


async def test_a_thread_that_outlives_its_engine_holds_up_nothing(shared_lab: Lab) -> None:
    """Its token fires; its late result is nobody's; the run is released."""
    release, ended, tokens = threading.Event(), threading.Event(), []

    @step(name="blocking")
    def blocking() -> str:
        tokens.append(current().cancellation)
        release.wait(20)
        ended.set()
        return "late"

    @workflow(name="runs")
    async def runs() -> str:
        return await blocking()

    engine = await shared_lab.start(runs)
    await runs.options(id="w").start()
    await eventually(lambda: tokens)
    async with asyncio.timeout(10):
        await engine.stop()
    assert tokens[0].is_cancelled
    assert await shared_lab.state("w") == "ENQUEUED"
    release.set()
    await eventually(ended.is_set)
    assert await shared_lab.steps("w") == []


async def test_log_records_made_in_a_workflow_can_be_marked(
    memory_lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    """Workflow and step, in the body and in the thread of a step; '-' outside."""
    log = logging.getLogger("application")

    def note() -> None:
        log.warning("here")

    @workflow(name="logs")
    async def logs() -> None:
        note()
        await run_step("thread", note)

    await memory_lab.start(logs)
    with caplog.filtering(ContextFilter()):
        await logs.options(id="w")()
        note()
    marks = [vars(record) for record in caplog.records if record.name == "application"]
    assert [(mark["workflow_id"], mark["step_id"]) for mark in marks] == [
        ("w", "-"),
        ("w", 1),
        ("-", "-"),
    ]


async def test_a_call_left_to_a_task_does_not_begin_once_the_body_has_ended(lab: Lab) -> None:
    """It is told of which workflow it was, as often as it asks, and nothing of it is recorded."""
    over = asyncio.Event()
    refusals: list[asyncio.Future[None]] = []

    @workflow(name="leaves")
    async def leaves() -> str:
        async def later(call: Awaitable[None]) -> None:
            await over.wait()
            await call

        refusals.extend(asyncio.ensure_future(later(sleep(0.001))) for _ in range(2))
        return "left"

    await lab.start(leaves)
    assert await leaves.options(id="w")() == "left"
    over.set()
    for refusal in refusals:
        with pytest.raises(WorkflowError, match="'w' has ended; a durable call begins") as raised:
            await refusal
        assert raised.value.workflow_id == "w"
    assert await lab.steps("w") == []
