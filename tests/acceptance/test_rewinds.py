"""Rewinds: an ended workflow goes on from a step, under its own id, as if that was never done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import (
    LastStep,
    get_event,
    read_stream,
    run_step,
    workflow,
)
from perdure.api.management import workflows
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


async def test_a_tour_can_be_rewound_to_each_of_its_steps(lab: Lab) -> None:
    """Of gather, map, select and timeout, nested ones too: no step below the point is run again,
    every one from there on is, and the result is the same."""
    engine = await lab.start(tour)
    assert await tour.options(id="w")() == TOUR
    created = (await lab.status("w"))["created_at"]
    last = (await lab.steps("w"))[-1]["function_id"]
    for point in range(last + 1, 0, -1 if lab.kind == "memory" else -4):
        words = await taken(lab, "w")
        ran.clear()
        assert await (await engine.workflows.rewind("w", point)).result() == TOUR
        kept = {word for step_id, word in words.items() if step_id < point}
        assert kept.isdisjoint(ran["w"]), point
        assert {*words.values()} - kept - LOSERS <= {*ran["w"]}, point
        assert len(ran["w"]) == len({*ran["w"]}), point
    row = await lab.status("w")
    assert (row["created_at"], row["recovery_attempts"]) == (created, 1)


async def test_messages_events_and_streams_of_a_rewound_workflow(lab: Lab) -> None:
    """Events are what they were, messages received since and strays are gone, stream values
    stay."""
    engine = await lab.start(talker)
    handle = await talker.options(id="w").start()
    for word in ("one", "two"):
        await engine.send("w", word)
    assert await handle.result() == ["one", "two"]
    await engine.send("w", "a stray")
    await engine.workflows.rewind("w", 5)
    await lab.until_asleep(DAY - 60)
    assert await get_event("w", "k") == "one"
    await engine.send("w", "three")
    assert await engine.handle("w").result() == ["one", "three"]
    assert await get_event("w", "k") == "three"
    found = [value async for value in read_stream("w", "s")]
    assert found == ["one", "two", "three"]


async def test_steps_that_append_do_so_again(lab: Lab) -> None:
    """What a step that is run again appends, it appends behind what it had."""
    engine = await lab.start(reporter)
    await reporter.options(id="w")(["a", "b", "c"])
    rewound = await engine.workflows.rewind("w", 2)
    assert await rewound.result() == ["a", "b", "c"]
    assert [value async for value in read_stream("w", "s")] == ["a", "b", "c", "b", "c"]


async def test_a_rewound_parent_adopts_its_child(lab: Lab) -> None:
    """The child has its outcome, and is not run again."""
    engine = await lab.start(major, minor)
    await major.options(id="w")("c")
    rewound = await engine.workflows.rewind("w", 2)
    assert await rewound.result() == ["between", "c", "end"]
    assert ran["w-1"] == ["c"]
    assert ran["w"] == ["between", "end"] * 2
    # Also where the step that started it is run again.
    rewound = await engine.workflows.rewind("w")
    assert await rewound.result() == ["between", "c", "end"]
    assert ran["w-1"] == ["c"]


async def test_a_failed_child_is_repaired_and_then_its_parent(lab: Lab) -> None:
    """The child from its failed step, the parent from where it waited for it."""
    engine = await lab.start(major, minor)
    tours.bad.add("c")
    with pytest.raises(ValueError, match="c"):
        await major.options(id="w")("c")
    tours.bad.clear()
    child = await engine.workflows.rewind("w-1", LastStep.FAILED)
    assert await child.result() == "c"
    parent = await engine.workflows.rewind("w", LastStep.FAILED)
    assert await parent.result() == ["between", "c", "end"]
    assert ran["w"] == ["between", "end"]
    assert ran["w-1"] == ["c", "c"]


async def test_who_waits_for_a_rewound_workflow_gets_its_new_outcome(lab: Lab) -> None:
    """“Whoever waits for it then waits again”: a handle from before too."""
    results = iter(["first", "second"])

    @workflow(name="changing")
    async def changing() -> str:
        return await run_step("next", lambda: next(results))

    engine = await lab.start(changing)
    before = await changing.options(id="w").start()
    assert await before.result() == "first"
    await engine.workflows.rewind("w")
    assert await before.result() == "second"
    assert await engine.handle("w").result() == "second"


async def test_a_cancelled_workflow_is_rewound_while_its_last_step_still_runs(lab: Lab) -> None:
    """The execution that was cancelled can write nothing more, whenever it comes back."""
    begun, go = asyncio.Event(), asyncio.Event()
    lives: list[str] = []

    @workflow(name="slow")
    async def slow() -> list[str]:
        return [await do("once"), await run_step("slowly", slowly)]

    async def slowly() -> str:
        lives.append(f"life {len(lives) + 1}")
        if len(lives) == 1:
            begun.set()
            await go.wait()
            return "late"
        return lives[-1]

    engine = await lab.start(slow)
    await slow.options(id="w").start()
    await begun.wait()
    await engine.workflows.cancel("w")
    rewound = await engine.workflows.rewind("w", 2)
    await eventually(lambda: len(lives) == 2)
    go.set()
    assert await rewound.result() == ["once", "life 2"]
    assert [row["output"] for row in await lab.steps("w")] == ['"once"', '"life 2"']
    assert ran["w"] == ["once"]


async def test_a_version_nobody_runs_waits(memory_lab: Lab) -> None:
    """“`version` is the application version that runs it”; with the running one it goes on."""
    lab = memory_lab
    engine = await lab.start(tour)
    await tour.options(id="w")()
    running = (await lab.status("w"))["application_version"]
    await lab.store.inner.register_version("v2")
    await engine.workflows.rewind("w", version="v2")
    assert await engine.workflows.cancel("w") == ["w"]
    assert (await lab.status("w"))["application_version"] == "v2"
    rewound = await engine.workflows.rewind("w", version=running)
    assert await rewound.result() == TOUR


async def test_a_workflow_rewinds_another_once(lab: Lab) -> None:
    """“From inside a workflow a rewind is a step”: recovered, it rewinds nothing again."""

    @workflow(name="boss")
    async def boss() -> Any:
        return (await workflows().rewind("w", 2)).workflow_id

    engine = await lab.start(reporter, boss)
    await reporter.options(id="w")(["a", "b"])
    assert await boss.options(id="boss")() == "w"
    await engine.handle("w").result()
    await lab.rerun("boss")
    assert ran["w"] == ["a", "b", "b"]
    assert await lab.history("boss") == [(1, "DBOS.rewindWorkflow")]
