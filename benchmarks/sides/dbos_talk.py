"""The reference's side of the questions about talking: in a virtual environment with `dbos` 3.4.0.

`python dbos_talk.py QUESTION URL ARGUMENTS-AS-JSON`
"""

import asyncio
import logging
import os
import statistics
import time
from pathlib import Path

from answering import Answer, answer
from dbos import DBOS, DBOSClient
from dbos_worker import departure, launch
from lockstep import Lockstep, elapsed_ms
from workers import workers

WORKER = Path(__file__).with_name("dbos_worker.py")
LINE = "line"
ENOUGH_OF_SLOW = 20
"""On SQLite each value takes a second."""
LONGEST_S = 60.0
ASKED = Lockstep()
ARRIVED = Lockstep()


@DBOS.workflow()
async def hears(count: int) -> list[float]:
    took_ms = []
    for number in range(count):
        ASKED.reach(number)
        took_ms.append(elapsed_ms(await DBOS.recv_async("t", LONGEST_S)))
        ARRIVED.reach(number)
    return took_ms


@DBOS.workflow()
async def says(count: int) -> None:
    for number in range(count):
        await ASKED.until(number)
        await DBOS.set_event_async(f"k{number}", time.monotonic())


def values(url: str, arguments: dict[str, int]) -> int:
    count = arguments["values"]
    return min(count, ENOUGH_OF_SLOW) if url.startswith("sqlite") else count


async def send_recv(url: str, arguments: dict[str, int]) -> float:
    launch(url, listen=[])
    count = values(url, arguments)
    handle = await DBOS.start_workflow_async(hears, count)
    for number in range(count):
        await ASKED.until(number)
        await DBOS.send_async(handle.workflow_id, time.monotonic(), "t")
        await ARRIVED.until(number)
    return statistics.median(await handle.get_result())


async def event(url: str, arguments: dict[str, int]) -> float:
    launch(url, listen=[])
    count = values(url, arguments)
    handle = await DBOS.start_workflow_async(says, count)
    took_ms = []
    for number in range(count):
        ASKED.reach(number)
        key = f"k{number}"
        took_ms.append(elapsed_ms(await DBOS.get_event_async(handle.workflow_id, key, LONGEST_S)))
    return statistics.median(took_ms)


async def result_notice(url: str, arguments: dict[str, int]) -> float:
    dbos = launch(url, listen=[])
    await dbos.register_queue_async(LINE, polling_interval_sec=0.01)
    with workers(1, WORKER, url):
        # Its queues are looked for once a second.
        await asyncio.sleep(2)
        took_ms = []
        for number in range(arguments["values"]):
            handle = await dbos.enqueue_workflow_async(LINE, departure, number)
            took_ms.append(elapsed_ms(await handle.get_result()))
        return statistics.median(took_ms)


async def client_call(url: str, arguments: dict[str, int]) -> float:
    dbos = launch(url, listen=[])
    await dbos.register_queue_async(LINE, polling_interval_sec=0.01)
    with workers(1, WORKER, url):
        # Its queues are looked for once a second.
        await asyncio.sleep(2)
        client = DBOSClient(system_database_url=url)
        took_ms = []
        for _ in range(arguments["values"]):
            begun_s = time.monotonic()
            handle = await client.enqueue_async({"workflow_name": "noop", "queue_name": LINE})
            await handle.get_result()
            took_ms.append(elapsed_ms(begun_s))
        return statistics.median(took_ms)


ANSWERS: dict[str, Answer] = {
    "send-recv": send_recv,
    "sqlite-send-recv": send_recv,
    "event": event,
    "sqlite-event": event,
    "result-notice": result_notice,
    "client-call": client_call,
}


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    answer(ANSWERS)
    # Its threads would keep the process.
    os._exit(0)
