"""This library's side of the questions about talking.

`python perdure_talk.py QUESTION URL ARGUMENTS-AS-JSON`
"""

import asyncio
import logging
import statistics
import time
from pathlib import Path

from answering import Answer, answer
from lockstep import Lockstep, elapsed_ms, rest
from perdure_worker import departure, listener, speaker
from statements import Statements
from workers import workers

from perdure import Client, Engine, Queue, get_event, recv, set_event, workflow

WORKER = Path(__file__).with_name("perdure_worker.py")
FEW = 20
"""Statements in a second, when nothing begins."""
ASKED = Lockstep()
ARRIVED = Lockstep()


@workflow
async def hears(count: int) -> list[float]:
    took_ms = []
    for number in range(count):
        ASKED.reach(number)
        took_ms.append(elapsed_ms(await recv("t")))
        ARRIVED.reach(number)
    return took_ms


@workflow
async def says(count: int) -> None:
    for number in range(count):
        await ASKED.until(number)
        await set_event(f"k{number}", time.monotonic())


@workflow
async def waits() -> None:
    await recv("t", timeout=3_600)


@workflow
async def keeps_silent() -> None:
    await recv("t", timeout=3_600)


async def send_recv(url: str, arguments: dict[str, int]) -> float:
    async with Engine(url) as engine:
        handle = await hears.start(arguments["values"])
        for number in range(arguments["values"]):
            await ASKED.until(number)
            await engine.send(handle.workflow_id, time.monotonic(), "t")
            await ARRIVED.until(number)
        return statistics.median(await handle.result())


async def event(url: str, arguments: dict[str, int]) -> float:
    async with Engine(url):
        handle = await says.start(arguments["values"])
        took_ms = []
        for number in range(arguments["values"]):
            ASKED.reach(number)
            took_ms.append(elapsed_ms(await handle.event(f"k{number}")))
        return statistics.median(took_ms)


async def send_recv_across(url: str, arguments: dict[str, int]) -> float:
    """The other process tells by an event that it received."""
    count = arguments["values"]
    async with Engine(url, workflows=[listener], queues=[line := Queue("line")], listen=[]) as here:
        with workers(1, WORKER, url):
            handle = await listener.options(queue=line).start(count)
            for number in range(count):
                await handle.event(f"asks {number}")
                await rest()
                await here.send(handle.workflow_id, time.monotonic(), "t")
            return statistics.median(await handle.result())


async def event_across(url: str, arguments: dict[str, int]) -> float:
    """The other process is asked by a message."""
    count = arguments["values"]
    async with Engine(url, workflows=[speaker], queues=[line := Queue("line")], listen=[]) as here:
        with workers(1, WORKER, url):
            handle = await speaker.options(queue=line).start(count)
            took_ms = []
            for number in range(count):
                await here.send(handle.workflow_id, number, "t")
                took_ms.append(elapsed_ms(await get_event(handle.workflow_id, f"k{number}")))
            return statistics.median(took_ms)


async def result_notice(url: str, arguments: dict[str, int]) -> float:
    async with Engine(url, workflows=[departure], queues=[line := Queue("line")], listen=[]):
        with workers(1, WORKER, url):
            took_ms = []
            for number in range(arguments["values"]):
                handle = await departure.options(queue=line).start(number)
                took_ms.append(elapsed_ms(await handle.result()))
            return statistics.median(took_ms)


async def client_call(url: str, arguments: dict[str, int]) -> float:
    async with Engine(url, queues=[Queue("line")], listen=[]):
        pass
    with workers(1, WORKER, url):
        async with Client(url) as client:
            took_ms = []
            for _ in range(arguments["values"]):
                begun_s = time.monotonic()
                handle = await client.enqueue("noop", queue="line")
                await handle.result()
                took_ms.append(elapsed_ms(begun_s))
                await rest()
            return statistics.median(took_ms)


async def waiters(url: str, arguments: dict[str, int]) -> float:
    half = arguments["waiters"] // 2
    async with Engine(url) as engine, Statements(url) as counted:
        await keeps_silent.options(id="silent").start()
        for _ in range(half):
            await waits.start()
        asking = [asyncio.ensure_future(_asks(f"k{number}")) for number in range(half)]
        # A benchmark may look: nothing tells when the last of them has begun to wait.
        while engine.kernel.talk.signals.waiting < 2 * half:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        # Each looked once for itself.
        await quiet(counted)
        before = await counted.total(heartbeats=False)
        await asyncio.sleep(arguments["seconds"])
        spent = await counted.total(heartbeats=False) - before
        for each in asking:
            each.cancel()
        return spent / arguments["seconds"]


async def quiet(counted: Statements) -> None:
    """Wait until what the beginning brought is done."""
    before = await counted.total()
    while True:
        await asyncio.sleep(1)
        now = await counted.total()
        if now - before <= FEW:
            return
        before = now


async def _asks(key: str) -> None:
    await get_event("silent", key)


ANSWERS: dict[str, Answer] = {
    "send-recv": send_recv,
    "sqlite-send-recv": send_recv,
    "sqlite-send-recv-across": send_recv_across,
    "event": event,
    "sqlite-event": event,
    "sqlite-event-across": event_across,
    "result-notice": result_notice,
    "client-call": client_call,
    "waiters": waiters,
}


if __name__ == "__main__":
    logging.disable(logging.INFO)
    answer(ANSWERS)
