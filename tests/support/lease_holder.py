"""A process that holds a lease and beats, until it is killed.

`python -m tests.support.lease_holder URL BOOT_ID [close|fork]`: prints `held True` or `held False`;
with `close` it gives the link up, but not the lease, and ends. With `fork` it makes a child, which
prints `forked PID` and stays, too.
"""

import asyncio
import os
import signal
import sys

from perdure.model.ids import BootId
from tests.support import rows
from tests.support.database import MovableClock, build_store


async def main(url: str, boot: BootId, mode: str) -> None:
    store = build_store(url, "app", MovableClock())
    await store.open()
    lease = rows.lease(boot)
    link = store.heartbeat_link()
    held = await link.open(lease)
    say(f"held {held}")
    if mode == "fork" and os.fork() == 0:
        say(f"forked {os.getpid()}")
        while True:
            signal.pause()
    while mode != "close":
        await link.beat(lease, (rows.QUEUE,), (rows.KEY,))
        await asyncio.sleep(0.2)
    await link.close()
    await store.close()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], BootId(sys.argv[2]), *(sys.argv[3:] or ["stay"])))
