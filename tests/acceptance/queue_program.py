"""A worker of a fleet: serves queues until it is ended, and tells what it runs.

`python -m tests.acceptance.queue_program URL [SETTINGS-AS-JSON]`; the settings are options of its
engine, and `engines`, how many of them it has, and `rates`, the queues it declares with their rate.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from perdure import Engine, Queue, RateLimit, sleep, step, workflow
from tests.acceptance.kill_program import note
from tests.support.waiting import eventually, wait_until


@step(name="work")
async def work(effects: str, word: str) -> str:
    note(effects, word)
    print("began", word, flush=True)
    return word


@step(name="wait")
async def wait(gate: str) -> None:
    await eventually(Path(gate).exists)


@step(name="block")
def block(gate: str) -> None:
    # All that came before is written: whoever is stopped now has no lock of a SQLite file.
    print("blocks", flush=True)
    wait_until(Path(gate).exists)
    print("went on", flush=True)


@workflow(name="job")
async def job(effects: str, word: str) -> str:
    """One step."""
    return await work(effects, word)


@workflow(name="held")
async def held(effects: str, word: str, gate: str) -> str:
    """The same, until the gate is there."""
    await work(effects, word)
    await wait(gate)
    return word


@workflow(name="stubborn")
async def stubborn(effects: str, word: str, gate: str) -> str:
    """The same in a thread, which nobody can end."""
    await work(effects, word)
    await block(gate)
    return await work(effects, f"{word} again")


@workflow(name="short")
async def short(effects: str, word: str, pause_s: float) -> str:
    """Two steps with a pause between."""
    await work(effects, word)
    await sleep(pause_s)
    return await work(effects, f"{word} again")


@workflow(name="parent")
async def parent(effects: str, word: str, queue: str) -> str:
    """Waits for a child in a queue."""
    await work(effects, word)
    return await job.options(queue=queue)(effects, f"{word} child")


WORKFLOWS = [job, held, stubborn, short, parent]


async def main(url: str, *, engines: int = 1, rates: dict[str, Any], **options: Any) -> None:
    queues = [Queue(name, rate_limit=RateLimit(*rate)) for name, rate in rates.items()]
    rhythm = {"heartbeat": 0.2, "lease": 2, "grace": 0}
    async with AsyncExitStack() as stack:
        for _ in range(engines):
            engine = Engine(url, workflows=WORKFLOWS, queues=queues, **{**rhythm, **options})
            await stack.enter_async_context(engine)
            print("ready", engine.executor_id, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], **{"rates": {}, **json.loads(sys.argv[2])}))
