"""A process that holds a lease and beats, until it is killed.

`python -m tests.support.lease_holder URL BOOT_ID [close]`: prints `held True` or `held False`; with
`close` it gives the link up, but not the lease, and ends.
"""

import asyncio
import sys

from perdure.model.ids import BootId
from tests.support import rows
from tests.support.database import MovableClock, build_store


async def main(url: str, boot: BootId, *, stay: bool) -> None:
    store = build_store(url, "app", MovableClock())
    await store.open()
    lease = rows.lease(boot)
    link = store.heartbeat_link()
    held = await link.open(lease)
    sys.stdout.write(f"held {held}\n")
    sys.stdout.flush()
    while stay:
        await link.beat(lease, (rows.QUEUE,), (rows.KEY,))
        await asyncio.sleep(0.2)
    await link.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], BootId(sys.argv[2]), stay=sys.argv[3:] != ["close"]))
