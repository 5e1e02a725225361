"""A process that stands at a boundary of each of its workflows, until it is killed.

`python -m tests.acceptance.crash_program URL EFFECTS` starts a workflow for each boundary of a body
of three steps: at its entry, in each step after its effect, and after each step's record.
"""

from __future__ import annotations

import asyncio
import sys

from perdure import Engine, step, workflow
from tests.acceptance.kill_program import note

BOUNDARIES = ("entry", "in 1", "after 1", "in 2", "after 2", "in 3", "after 3")

standing = True
"""Whether this process is the one that never gets past a boundary."""


async def at(effects: str, boundary: str, here: str) -> None:
    """Say where the workflow stands, if that is its boundary, and stay there."""
    if standing and boundary == here:
        print("stands", boundary, flush=True)
        await asyncio.Event().wait()


@step(name="part")
async def part(effects: str, boundary: str, number: int) -> int:
    note(effects, f"{boundary}: step {number}")
    await at(effects, boundary, f"in {number}")
    return number * 10


@workflow(name="parts")
async def parts(effects: str, boundary: str) -> list[int]:
    note(effects, f"{boundary}: body")
    await at(effects, boundary, "entry")
    results = []
    for number in (1, 2, 3):
        results.append(await part(effects, boundary, number))
        await at(effects, boundary, f"after {number}")
    return results


async def main(url: str, effects: str) -> None:
    async with Engine(url, workflows=[parts], heartbeat=0.2, migrate=False) as engine:
        for boundary in BOUNDARIES:
            await parts.options(id=boundary, engine=engine).start(effects, boundary)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
