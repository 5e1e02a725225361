"""A process of a fleet: runs workflows until it is ended, and tells what they do.

`python -m tests.acceptance.fleet_program URL EFFECTS [ID...]` starts a workflow of each id.
"""

from __future__ import annotations

import asyncio
import sys

from perdure import Engine, sleep, step, workflow
from tests.acceptance.kill_program import note

TURNS = 4


@step(name="turn")
async def turn(effects: str, word: str) -> str:
    note(effects, word)
    print("turn", word, flush=True)
    return word


@workflow(name="turns")
async def turns(effects: str, word: str, pause_s: float) -> list[str]:
    words = []
    for number in range(TURNS):
        words.append(await turn(effects, f"{word} {number}"))
        await sleep(pause_s)
    return words


async def main(url: str, effects: str, ids: list[str], pause_s: float) -> None:
    async with Engine(url, workflows=[turns], heartbeat=0.2, lease=2, grace=0):
        print("ready", flush=True)
        handles = [await turns.options(id=each).start(effects, each, pause_s) for each in ids]
        for handle in handles:
            print("result", handle.workflow_id, len(await handle), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[4:], float(sys.argv[3])))
