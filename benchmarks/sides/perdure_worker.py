"""A worker process: serves every queue of a database until it is ended.

`python perdure_worker.py URL` prints `ready` when it does.
"""

import asyncio
import logging
import sys
import time

from lockstep import elapsed_ms, length_s, rest

from perdure import Engine, recv, set_event, workflow


@workflow(name="noop")
async def noop() -> None:
    return


@workflow(name="arrival")
async def arrival(sent_s: float) -> float:
    """How long it took to get here."""
    return elapsed_ms(sent_s)


@workflow(name="departure")
async def departure(number: int) -> float:
    """When it ended."""
    await asyncio.sleep(length_s(number))
    return time.monotonic()


@workflow(name="listener")
async def listener(count: int) -> list[float]:
    """How long messages took to get here; each is asked for."""
    took_ms = []
    for number in range(count):
        await set_event(f"asks {number}", value=True)
        took_ms.append(elapsed_ms(await recv("t")))
    return took_ms


@workflow(name="speaker")
async def speaker(count: int) -> None:
    """Publishes when it began to, each time somebody asks for it."""
    for number in range(count):
        await recv("t")
        await rest()
        await set_event(f"k{number}", time.monotonic())


async def serve(url: str) -> None:
    async with Engine(url, workflows=[noop, arrival, departure, listener, speaker]):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    logging.disable(logging.INFO)
    asyncio.run(serve(sys.argv[1]))
