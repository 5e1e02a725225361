"""A process of a fleet: runs workflows until it is ended, and tells what they do.

`python -m tests.acceptance.fleet_program URL EFFECTS SETTINGS-AS-JSON [ID...]` starts a workflow of
each id; `pause_s` is how long each sleeps after a turn. In turn `stands_at`, and in those after it,
this process waits for the gate, a file named as EFFECTS with `.gate`: whoever is to kill or stop it
comes in time, however late. All other settings are options of its engine.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from perdure import Engine, sleep, step, workflow
from tests.acceptance.kill_program import note
from tests.support.waiting import eventually

TURNS = 4

stands_at = TURNS


@step(name="turn")
async def turn(effects: str, word: str, number: int) -> str:
    note(effects, f"{word} {number}")
    print("turn", word, number, flush=True)
    if number >= stands_at:
        await eventually(Path(f"{effects}.gate").exists)
    return word


@workflow(name="turns")
async def turns(effects: str, word: str, pause_s: float) -> list[str]:
    words = []
    for number in range(TURNS):
        words.append(await turn(effects, word, number))
        await sleep(pause_s)
    return words


async def main(url: str, effects: str, ids: list[str], pause_s: float, **options: Any) -> None:
    async with Engine(url, workflows=[turns], heartbeat=0.2, grace=0, **options):
        print("ready", flush=True)
        handles = [await turns.options(id=each).start(effects, each, pause_s) for each in ids]
        for handle in handles:
            print("result", handle.workflow_id, len(await handle), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    its_settings = json.loads(sys.argv[3])
    stands_at = its_settings.pop("stands_at", TURNS)
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[4:], **{"pause_s": 0.0, **its_settings}))
