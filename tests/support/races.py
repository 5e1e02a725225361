"""Letting runners go together, in as many orders as can be.

`PERDURE_RACES` is how often each race is run; by default few enough for every commit.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any


def rounds(usual: int) -> int:
    """How often a race is run, unless the environment says."""
    return int(os.environ.get("PERDURE_RACES", usual))


async def after_turns(turns: int, do: Callable[[], Awaitable[Any]]) -> Any:
    """Do it after that many turns of the loop."""
    for _ in range(turns):
        await asyncio.sleep(0)
    return await do()


async def race(number: int, *runners: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Let them all go at once, each a little later than the others in turn."""
    late = number % len(runners)
    turns = (number // len(runners)) % 40
    return await asyncio.gather(
        *(
            after_turns(turns if index == late else 0, runner)
            for index, runner in enumerate(runners)
        )
    )
