"""A process whose loop ends with workflows still running in it, and that lives on.

`python -m tests.acceptance.loop_program URL in|out`: leaves the engine's block, or never stops it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading

from perdure import Engine, sleep, step, workflow
from tests.support.waiting import eventually

recorded: list[str] = []


@step(name="begin")
async def begin(word: str) -> str:
    return word


@workflow(name="works")
async def works(word: str) -> str:
    recorded.append(await begin(word))
    if word == "sleeps":
        await sleep(86_400)
    else:
        await asyncio.Event().wait()
    return "never"


async def main(url: str, *, leaves_the_block: bool) -> None:
    engine = Engine(url, workflows=[works], heartbeat=0.1, grace=0)
    if leaves_the_block:
        async with engine:
            await start(engine)
            # As a Ctrl-C reaches the main coroutine.
            raise asyncio.CancelledError
    await engine.start()
    await start(engine)


async def start(engine: Engine) -> None:
    for word in ("sleeps", "idles"):
        await works.options(id=word, engine=engine).start(word)
    await eventually(lambda: len(recorded) == 2)


if __name__ == "__main__":
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(main(sys.argv[1], leaves_the_block=sys.argv[2] == "in"))
    print("loop ended", flush=True)
    threading.Event().wait()
