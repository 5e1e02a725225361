"""Forks: below the point everything is as it was, from there on everything is done again."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import LastStep, Queue, get_event, read_stream, sleep, workflow
from tests.support import tours
from tests.support.engines import Lab
from tests.support.tours import (
    DAY,
    LOSERS,
    TOUR,
    do,
    major,
    minor,
    ran,
    reporter,
    taken,
    talker,
    tour,
)
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()
    tours.bad.clear()


async def streamed(workflow_id: str) -> list[Any]:
    """What is in the stream `s` of an ended workflow."""
    return [value async for value in read_stream(workflow_id, "s")]


async def test_a_tour_can_go_on_from_each_of_its_steps(lab: Lab) -> None:
    """“a point inside a scope”: of gather, map, select and timeout, nested ones too. No step below
    the point is run again, every one from there on is, and the result is the same."""
    engine = await lab.start(tour)
    assert await tour.options(id="w")() == TOUR
    words = await taken(lab, "w")
    before = await lab.steps("w")
    points = range(1, before[-1]["function_id"] + 2, 1 if lab.kind == "memory" else 4)
    forks = [await engine.workflows.fork("w", point, id=f"f{point}") for point in points]
    assert [await fork.result() for fork in forks] == [TOUR] * len(points)
    for point in points:
        again = ran[f"f{point}"]
        kept = {word for step_id, word in words.items() if step_id < point}
        assert kept.isdisjoint(again), point
        assert {*words.values()} - kept - LOSERS <= {*again}, point
        assert len(again) == len({*again}), point
    assert await lab.steps("w") == before


async def test_a_fork_of_a_fork_goes_on_too(memory_lab: Lab) -> None:
    """“forked_from its source”: a point of what the first one recorded anew."""
    lab = memory_lab
    engine = await lab.start(tour)
    await tour.options(id="w")()
    half = (await lab.steps("w"))[-1]["function_id"] // 2
    await (await engine.workflows.fork("w", half, id="f")).result()
    words = await taken(lab, "f")
    last = await engine.workflows.fork("f", "do", id="g")
    assert await last.result() == TOUR
    assert ran["g"] == ["end"]
    assert {*await taken(lab, "g")} == {*words}


async def test_a_sleep_below_the_point_is_over(lab: Lab) -> None:
    """Its end is recorded; a later one is slept afresh."""

    @workflow(name="naps")
    async def naps() -> str:
        await sleep(DAY)
        await do("between")
        await sleep(2 * DAY)
        return await do("end")

    engine = await lab.start(naps)
    await naps.options(id="w").start()
    await lab.until_asleep(DAY - 60)
    lab.clock.leap(DAY)
    await lab.until_asleep_for(2 * DAY - 60, 2 * DAY)
    fork = await engine.workflows.fork("w", 3, id="f")
    await eventually(lambda: len(lab.clock.sleepers(2 * DAY - 60)) == 2)
    assert ran == {"w": ["between"]}
    lab.clock.leap(2 * DAY)
    assert await fork.result() == "end"
    assert ran == {"w": ["between", "end"], "f": ["end"]}


async def test_a_fork_has_a_mailbox_events_and_streams_of_its_own(lab: Lab) -> None:
    """What was received, published and appended below the point stands; messages are not copied,
    and what is sent to the source reaches its forks on demand."""
    engine = await lab.start(talker)
    await talker.options(id="w").start()
    for word in ("one", "two"):
        await engine.send("w", word)
    assert await engine.handle("w").result() == ["one", "two"]
    await engine.send("w", "nobody's")
    fork = await engine.workflows.fork("w", 5, id="f")
    await lab.until_attempts("f", 1)
    assert await get_event("f", "k") == "one"
    await engine.send("w", "three", to_forks=True)
    assert await fork.result() == ["one", "three"]
    assert await get_event("f", "k") == "three"
    assert await streamed("f") == ["one", "three"]
    assert await get_event("w", "k") == "two"
    assert await streamed("w") == ["one", "two"]


async def test_a_fork_shows_what_stood_before_its_step_until_it_runs(lab: Lab) -> None:
    """B072: an event set before and after the point, and stream values on both sides of it."""
    engine = await lab.start(talker, queues=[Queue("held")])
    await engine.queues.pause("held")
    await talker.options(id="w").start()
    for word in ("one", "two"):
        await engine.send("w", word)
    await engine.handle("w").result()
    for point, event, values in ((3, None, []), (4, "one", []), (7, "one", ["one"])):
        fork_id = f"f{point}"
        await engine.workflows.fork("w", point, id=fork_id, queue="held")
        await engine.workflows.cancel(fork_id)
        found = await engine.workflows.events(fork_id)
        assert [row.value for row in found] == ([] if event is None else [f'"{event}"'])
        assert await streamed(fork_id) == values


async def test_steps_that_append_do_so_once_in_a_fork(lab: Lab) -> None:
    """A value from inside a step is there once, whether its step was copied or runs again."""
    engine = await lab.start(reporter)
    await reporter.options(id="w")(["a", "b", "c"])
    fork = await engine.workflows.fork("w", 2, id="f")
    assert await fork.result() == ["a", "b", "c"]
    assert ran["f"] == ["b", "c"]
    assert await streamed("f") == ["a", "b", "c"]


async def test_a_fork_adopts_the_child_that_its_source_started(lab: Lab) -> None:
    """“without one the fork adopts the source's own child”, and does not run it again; “children
    replaced as asked” waits for the other."""
    engine = await lab.start(major, minor)
    assert await major.options(id="w")("c") == ["between", "c", "end"]
    await minor.options(id="mine")("m")
    adopting = await engine.workflows.fork("w", 2, id="f")
    replacing = await engine.workflows.fork("w", 2, id="g", children={"w-1": "mine"})
    assert await adopting.result() == ["between", "c", "end"]
    assert await replacing.result() == ["between", "m", "end"]
    fresh = await engine.workflows.fork("w", id="h")
    assert await fresh.result() == ["between", "c", "end"]
    assert ran["w-1"] == ["c"]
    assert ran["h-1"] == ["c"]
    assert (await lab.links("f"))[0][2] == "w-1"


async def test_a_batch_is_repaired_from_where_each_failed(lab: Lab) -> None:
    """“The last step that failed”: each of its own, all in one call."""
    engine = await lab.start(major, minor)
    tours.bad.update(["x", "y"])
    for word in ("x", "y"):
        with pytest.raises(Exception, match=word):
            await minor.options(id=word)(word)
    tours.bad.clear()
    forks = await engine.workflows.fork_many(["y", "x"], LastStep.FAILED)
    assert [await fork.result() for fork in forks] == ["y", "x"]
    assert [await lab.state(word) for word in ("x", "y")] == ["ERROR", "ERROR"]
