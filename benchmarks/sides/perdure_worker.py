"""A worker process: serves every queue of a database until it is ended.

`python perdure_worker.py URL` prints `ready` when it does.
"""

import asyncio
import logging
import sys
import time

from perdure import Engine, workflow


@workflow(name="noop")
async def noop() -> None:
    return


@workflow(name="arrival")
async def arrival(sent_s: float) -> float:
    """The milliseconds since then, on the clock that all processes of a machine share."""
    return (time.monotonic() - sent_s) * 1000


async def serve(url: str) -> None:
    async with Engine(url, workflows=[noop, arrival]):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    logging.disable(logging.INFO)
    asyncio.run(serve(sys.argv[1]))
