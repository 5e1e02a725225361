"""Time, chance and new ids in a workflow: each look is a step that a replay repeats."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from perdure import gather, now, random, run_step, step, uuid4, workflow
from tests.support.engines import Lab


async def test_what_was_seen_is_seen_again(lab: Lab) -> None:
    """Of its type, under its own name, however often the body runs."""
    seen: list[tuple[datetime, UUID, float]] = []

    @workflow(name="looks")
    async def looks() -> None:
        seen.append((await now(), await uuid4(), await random()))

    await lab.start(looks)
    before = datetime.now(UTC)
    await looks.options(id="w")()
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    (instant, new_id, number), again = seen
    assert again == (instant, new_id, number)
    assert before <= instant <= datetime.now(UTC)
    assert instant.tzinfo is UTC
    assert (new_id.version, 0 <= number < 1) == (4, True)
    assert await lab.history("w") == [
        (1, "Perdure.now"),
        (2, "Perdure.uuid4"),
        (3, "Perdure.random"),
    ]


async def test_each_look_sees_something_else(memory_lab: Lab) -> None:
    """The ids are those of building, as of any call."""

    @workflow(name="looks")
    async def looks() -> list[Any]:
        found = await gather(*(uuid4() for _ in range(3)), *(random() for _ in range(3)))
        return [str(each) for each in found]

    await memory_lab.start(looks)
    assert len(set(await looks.options(id="w")())) == 6
    assert (await memory_lab.rerun("w"))["status"] == "SUCCESS"
    assert len(await memory_lab.history("w")) == 6


async def test_inside_a_step_and_outside_nothing_is_recorded(memory_lab: Lab) -> None:
    @step(name="looks")
    async def looks() -> list[str]:
        return [type(each).__name__ for each in (await now(), await uuid4(), await random())]

    @workflow(name="outer")
    async def outer() -> list[str]:
        return await run_step("looks", looks.fn)

    await memory_lab.start(outer)
    assert await outer.options(id="w")() == ["datetime", "UUID", "float"] == await looks()
    assert await memory_lab.history("w") == [(1, "looks")]
