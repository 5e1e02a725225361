"""A loop whose tasks begin at once, as Python 3.12 and later can have it, changes nothing."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from perdure import gather, run_step, sleep, workflow
from perdure.errors import UnscopedTask
from tests.support.engines import Lab
from tests.support.workflows import child, look

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no eager tasks")


@workflow(name="eager")
async def eager() -> list[Any]:
    handle = await child.start("x")
    got: list[Any] = list(await gather(look(), child("y"), sleep(0.001), handle.result()))
    got += await asyncio.gather(run_step("a", lambda: 1), run_step("b", lambda: 2))

    async def helper() -> None:
        await look()

    with pytest.raises(UnscopedTask):
        await asyncio.create_task(helper())
    return got


async def test_a_workflow_runs_and_replays_on_a_loop_with_eager_tasks(lab: Lab) -> None:
    """Ids, results and refusals are the same."""
    factory: Any = getattr(asyncio, "eager_task_factory", None)
    asyncio.get_running_loop().set_task_factory(factory)
    await lab.start(eager, child)
    assert await eager.options(id="w")() == [None, "Y", None, "X", 1, 2]
    before = await lab.links("w")
    assert [step_id for step_id, _, _ in before] == [1, 2, 3, 4, 5, 6, 7, 8]
    await lab.rerun("w")
    assert await lab.links("w") == before
    await lab.engine.stop()
