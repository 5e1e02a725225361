"""The example of the README: a step, a durable sleep, and an id that names one workflow.

Run it twice: the second run prints the recorded result at once.
"""

import asyncio

from perdure import Engine, sleep, step, workflow


@step(max_attempts=5)  # retried with exponential back-off and jitter
async def transcode(file: str) -> str:
    return f"{file}.mp4"


@workflow
async def convert(file: str) -> str:
    out = await transcode(file)
    await sleep(seconds=1)  # durable: survives restarts
    return out


async def main() -> None:
    async with Engine("sqlite:///media.db") as engine:
        handle = await convert.options(id="convert-intro").start("intro")
        print(await handle.result())


asyncio.run(main())
