"""A worker process of the reference: serves its queues until it is ended.

`python dbos_worker.py URL` prints `ready` when it does.
"""

import asyncio
import logging
import sys
import threading
import time
from typing import Any

from dbos import DBOS
from lockstep import elapsed_ms, length_s


def launch(url: str, *, listen: list[str] | None = None) -> Any:
    """The reference, running; it serves all queues, or those named."""
    dbos = DBOS(
        config={
            "name": "bench-app",
            "system_database_url": url,
            "log_level": "ERROR",
            "application_version": "bench",
        }
    )
    if listen is not None:
        dbos.listen_queues(listen)
    dbos.launch()
    return dbos


@DBOS.workflow(name="noop")
async def noop() -> None:
    return


@DBOS.workflow(name="arrival")
async def arrival(sent_s: float) -> float:
    """How long it took to get here."""
    return elapsed_ms(sent_s)


@DBOS.workflow(name="departure")
async def departure(number: int) -> float:
    """When it ended."""
    await asyncio.sleep(length_s(number))
    return time.monotonic()


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    launch(sys.argv[1])
    print("ready", flush=True)
    threading.Event().wait()
