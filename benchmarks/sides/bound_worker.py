"""A worker process of the bound: empties the queue that a notification names.

`python bound_worker.py URL` prints `ready` when it listens.
"""

import asyncio
import sys
from typing import Any

import asyncpg
from bound import FINISH, Group
from bound_queues import CHANNEL, emptied


async def serve(url: str) -> None:
    claims, ends, ear = [await asyncpg.connect(url) for _ in range(3)]
    named: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def hear(*notification: Any) -> None:
        named.set_result(notification[-1])

    await ear.add_listener(CHANNEL, hear)
    print("ready", flush=True)
    await emptied(await named, claims, Group(ends, FINISH))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
