"""A worker process of the reference: serves its queues until it is ended.

`python dbos_worker.py URL` prints `ready` when it does.
"""

import logging
import sys
import threading
import time
from typing import Any

from dbos import DBOS


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
    """The milliseconds since then, on the clock that all processes of a machine share."""
    return (time.monotonic() - sent_s) * 1000


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    launch(sys.argv[1])
    print("ready", flush=True)
    threading.Event().wait()
