"""The heartbeat thread goes on: after a stalled loop, after a fault of the link."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import workflow
from perdure.errors import DatabaseUnavailable
from tests.support.engines import Lab


@workflow(name="runs")
async def runs() -> str:
    return "done"


async def goes_on(lab: Lab) -> None:
    """Work that only a heartbeat shows is still found and done."""
    assert (await lab.rerun("w"))["status"] == "SUCCESS"


async def test_a_loop_that_answers_while_the_link_is_closed_is_noticed(memory_lab: Lab) -> None:
    """A stall that ends at the moment it is noticed does not silence the process for ever."""
    await memory_lab.start(runs, stall=60)
    await runs.options(id="w")()
    memory_lab.clock.leap(3_600)
    await goes_on(memory_lab)


@pytest.mark.parametrize(
    "fault", [RuntimeError("a bug of ours"), DatabaseUnavailable("cut")], ids=["bug", "cut"]
)
async def test_a_link_that_fails_is_replaced(memory_lab: Lab, fault: Exception) -> None:
    """Whatever one heartbeat raises, another follows on a fresh link."""
    await memory_lab.start(runs)
    await runs.options(id="w")()
    store: Any = memory_lab.store.inner
    link_type = type(store.heartbeat_link())
    beat, failed = link_type.beat, asyncio.Event()
    loop = asyncio.get_running_loop()

    async def failing(self: Any, *args: Any) -> Any:
        link_type.beat = beat
        loop.call_soon_threadsafe(failed.set)
        raise fault

    link_type.beat = failing
    try:
        await failed.wait()
    finally:
        link_type.beat = beat
    await goes_on(memory_lab)


async def test_an_outage_does_not_fill_the_log(
    memory_lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of its kinds of trouble is named, but not ten times a second."""
    await memory_lab.start(runs)
    await runs.options(id="w")()
    store: Any = memory_lab.store.inner
    link_type = type(store.heartbeat_link())
    beat, failures, enough = link_type.beat, 0, asyncio.Event()
    loop = asyncio.get_running_loop()

    async def failing(self: Any, *args: Any) -> Any:
        nonlocal failures
        failures += 1
        if failures == 20:
            link_type.beat = beat
            loop.call_soon_threadsafe(enough.set)
        raise DatabaseUnavailable("away")

    link_type.beat = failing
    await enough.wait()
    said = [record.getMessage() for record in caplog.records if "away" in record.getMessage()]
    assert said == [f"heartbeat: away (try {number}); reconnecting" for number in (1, 10)]
    await goes_on(memory_lab)
