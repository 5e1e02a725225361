"""Between a claim and its history: bodies begin at once, and durable calls wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from perdure import Queue, gather, step, timeout, workflow
from perdure.errors import DatabaseRejected
from tests.support.engines import Lab, settle
from tests.support.waiting import eventually

DAY = 86_400


async def plainly(call: Callable[[], Awaitable[Any]]) -> Any:
    """Call the step."""
    return await call()


async def in_a_scope(call: Callable[[], Awaitable[Any]]) -> Any:
    """Call it in a branch."""

    async def branch() -> Any:
        return await call()

    return (await gather(branch()))[0]


async def in_time(call: Callable[[], Awaitable[Any]]) -> Any:
    """Call it under a limit."""
    return await timeout(call(), DAY)


@pytest.mark.parametrize("calls", [plainly, in_a_scope, in_time])
async def test_a_body_begins_while_its_history_is_read_and_waits_for_it(
    lab: Lab, calls: Callable[..., Awaitable[Any]]
) -> None:
    """What is recorded is replayed, however late it is known."""
    begun: list[str] = []
    ran: list[str] = []

    @step(name="counted")
    async def counted() -> int:
        ran.append("counted")
        return len(ran)

    @workflow(name="late")
    async def late() -> int:
        begun.append("late")
        return int(await calls(counted))

    await lab.start(late)
    await late.options(id="w")()
    gate = lab.store.hold("history")
    await lab.backdoor.run("DELETE FROM workflow_output")
    await lab.hand_back("w")
    await gate.reached()
    await eventually(lambda: len(begun) == 2)
    await settle()
    assert (ran, await lab.state("w")) == (["counted"], "PENDING")
    gate.open()
    assert (await lab.until("w"))["status"] == "SUCCESS"
    assert (ran, await lab.output("w")) == (["counted"], "1")


async def test_a_body_without_durable_calls_needs_no_history(lab: Lab) -> None:
    """Its outcome is written before the history is there."""

    @workflow(name="short")
    async def short() -> str:
        return "over"

    await lab.start(short, queues=[Queue("q")])
    gate = lab.store.hold("history")
    handle = await short.options(id="w", queue="q").start()
    await gate.reached()
    assert await handle.result(timeout=20) == "over"
    gate.open()


async def test_runs_whose_history_cannot_be_read_are_given_back(lab: Lab) -> None:
    """No step of them begins, nothing is recorded, and the attempt does not count."""
    ran: list[str] = []

    @step(name="counted")
    async def counted() -> None:
        ran.append("counted")

    @workflow(name="unread")
    async def unread() -> None:
        await counted()

    await lab.start(unread, queues=[Queue("q")])
    lab.store.fail("history", DatabaseRejected("the history is out of reach"))
    await unread.options(id="w", queue="q").start()
    row = await lab.until("w")
    assert (row["status"], row["recovery_attempts"], ran) == ("SUCCESS", 1, ["counted"])
    assert lab.store.counts["release"] == 1
