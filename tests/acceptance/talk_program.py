"""A process whose workflows listen and speak, until it is ended.

`python -m tests.acceptance.talk_program URL MOST [collect|report|stream] [ID]` starts a workflow of
that kind, or joins it; without a kind it serves what there is. When it has told MOST things it
stands still, so that whoever is to kill it comes in time, however late; 0 is any number of them.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from perdure import (
    Engine,
    close_stream,
    get_event,
    recv,
    set_event,
    step,
    workflow,
    write_stream,
)

MESSAGES = 60
TOPICS: tuple[str | None, ...] = (None, "", "t")
VALUES = 40

told: list[str] = []
most = 0


@step(name="tell")
async def tell(what: str) -> None:
    """Print a line that a test waits for, and leave it time to kill."""
    print(what, flush=True)
    told.append(what)
    if len(told) == most:
        await asyncio.Event().wait()
    await asyncio.sleep(0.02)


@workflow(name="collects")
async def collects() -> list[Any]:
    """All messages of three topics, in turns."""
    found = []
    for number in range(MESSAGES):
        found.append(await recv(TOPICS[number % 3], timeout=600))
        await tell(f"took {number}")
    return found


@workflow(name="reports")
async def reports() -> Any:
    """Publish a question, and wait for somebody's answer to it."""
    await set_event("question", "ready?")
    await tell("asked")
    return await get_event("answers", "answer", timeout=600)


@step(name="part")
async def part(number: int) -> None:
    """One value of the stream, written by a step."""
    await write_stream("s", number)


@workflow(name="streams")
async def streams() -> None:
    """Values by the body and by steps, in turns."""
    for number in range(0, VALUES, 2):
        await write_stream("s", number)
        await part(number + 1)
        await tell(f"wrote {number}")
    await close_stream("s")


KINDS: dict[str, Any] = {"collect": collects, "report": reports, "stream": streams}


async def main(url: str, kind: str | None, workflow_id: str | None) -> None:
    """Run until somebody ends the process."""
    listed = [collects, reports, streams]
    async with Engine(url, workflows=listed, heartbeat=0.2, grace=0) as engine:
        print("ready", engine.executor_id, flush=True)
        if kind is not None:
            handle = await KINDS[kind].options(id=workflow_id).start()
            print("result", await handle.result(), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    most = int(sys.argv[2])
    arguments = [*sys.argv[3:], None, None]
    asyncio.run(main(sys.argv[1], arguments[0], arguments[1]))
