"""Steps and branches that tests of concurrency need."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from perdure import step
from tests.support.engines import Lab

FOREVER = 1e6


@step
async def say(word: str) -> str:
    """The word."""
    return word


@step
async def hold() -> None:
    """Take for ever."""
    await asyncio.sleep(FOREVER)


@step
async def break_down(word: str) -> str:
    """Fail."""
    raise ValueError(word)


async def words(name: str, count: int) -> str:
    """Several steps."""
    for number in range(count):
        await say(f"{name}{number}")
    return name


async def outputs(lab: Lab, workflow_id: str) -> dict[int, tuple[str, Any]]:
    """The names and values recorded under each id."""
    return {
        row["function_id"]: (row["function_name"], json.loads(row["output"] or "null"))
        for row in await lab.steps(workflow_id)
    }
