"""A process that stands still with a queue's lock in its hands.

`python -m tests.support.storm_holder_program URL QUEUE` serves the queue, on Postgres, and stops
itself at its first claim: it has locked the queue and not looked yet at what its limits leave.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from perdure import Engine
from perdure.store.postgres import shared_claims
from tests.support.storm_program import HEARTBEAT_S, LEASE_S, job


async def main(url: str, queue: str) -> None:
    claim = shared_claims._Claim  # noqa: SLF001 - no gate of the store's own leads to here
    lock = claim.lock

    async def lock_and_stand_still(self: Any) -> tuple[list[str], set[str]]:
        found = await lock(self)
        if found[0]:
            claim.lock = lock  # type: ignore[method-assign]
            print("locked", *found[0], flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        return found

    claim.lock = lock_and_stand_still  # type: ignore[method-assign]
    async with Engine(
        url, workflows=[job], listen=[queue], heartbeat=HEARTBEAT_S, lease=LEASE_S, grace=0
    ):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
