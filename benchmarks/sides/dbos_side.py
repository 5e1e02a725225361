"""The reference's side: runs in a virtual environment with `dbos` 3.4.0.

`python dbos_side.py QUESTION URL ARGUMENTS-AS-JSON`
"""

import asyncio
import logging
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from answering import Answer, answer
from counter import Counter
from dbos import DBOS
from memory import resident_kib

AT_A_TIME = 200
"""How many starts are under way at once, so that not their peak is measured but what stays."""


def launch(url: str) -> Any:
    DBOS(config={"name": "bench-app", "system_database_url": url, "log_level": "ERROR"})
    return DBOS


async def rate(url: str, arguments: dict[str, int]) -> float:
    dbos = launch(url)
    many_steps = _many_steps(dbos)
    dbos.launch()
    count, at_a_time = arguments["workflows"], arguments["at_a_time"]
    steps = arguments.get("steps", 0)
    # The reference needs minutes for what the others do in a second; a rate needs no more.
    count = min(count, 300 if steps else 1500)

    async def run_many(many: int) -> float:
        places = asyncio.Semaphore(at_a_time)

        async def one() -> None:
            async with places:
                await many_steps(steps)

        before = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(many)))
        return time.perf_counter() - before

    await run_many(count // 10)
    figure = count * (steps or 1) / await run_many(count)
    dbos.destroy()
    return figure


def _many_steps(dbos: Any) -> Any:
    @dbos.step()
    async def record(number: int) -> dict[str, int]:
        return {"v": number}

    @dbos.workflow()
    async def many_steps(steps: int) -> str:
        for number in range(steps):
            await record(number)
        return "ok"

    return many_steps


async def step_latency(url: str, arguments: dict[str, int]) -> float:
    return statistics.median(await _timed(url, arguments["steps"])) * 1000


async def sequential_rate(url: str, arguments: dict[str, int]) -> float:
    return arguments["steps"] / sum(await _timed(url, arguments["steps"]))


async def _timed(url: str, steps: int) -> list[float]:
    dbos = launch(url)

    @dbos.step()
    async def record(number: int) -> dict[str, int]:
        return {"v": number}

    @dbos.workflow()
    async def timed_steps(steps: int) -> list[float]:
        latencies = []
        for number in range(steps):
            before = time.perf_counter()
            await record(number)
            latencies.append(time.perf_counter() - before)
        return latencies

    dbos.launch()
    await timed_steps(50)
    latencies = await timed_steps(steps)
    dbos.destroy()
    return latencies


async def two_steps(url: str, arguments: dict[str, int]) -> float:
    dbos = launch(url)
    many_steps = _many_steps(dbos)
    dbos.launch()
    for _ in range(20):
        await many_steps(2)
    latencies = []
    for _ in range(min(arguments["workflows"], 200)):
        before = time.perf_counter()
        await many_steps(2)
        latencies.append(time.perf_counter() - before)
    dbos.destroy()
    return statistics.median(latencies) * 1000


async def statements(url: str, _: dict[str, int]) -> float:
    """Between two quiet moments, the poll of an idle process subtracted."""
    counted = Counter(url)
    dbos = launch(url)
    many_steps = _many_steps(dbos)
    dbos.launch()
    await many_steps(1)
    await asyncio.sleep(2)
    start = counted.total()
    await asyncio.sleep(4)
    idle = counted.total() - start
    before = counted.total()
    for _ in range(100):
        await many_steps(1)
    spent = counted.total() - before
    dbos.destroy()
    return max(spent - idle / 4, 0) / 100


async def idle(url: str, arguments: dict[str, int]) -> float:
    counted = Counter(url)
    dbos = launch(url)
    many_steps = _many_steps(dbos)
    dbos.launch()
    await many_steps(1)
    await asyncio.sleep(2)
    before = counted.total()
    await asyncio.sleep(arguments["seconds"])
    figure = (counted.total() - before) / arguments["seconds"]
    dbos.destroy()
    return figure


async def sleepers(url: str, arguments: dict[str, int]) -> tuple[float, float]:
    dbos = launch(url)

    @dbos.workflow()
    async def sleeper() -> None:
        await dbos.sleep_async(3600)

    many_steps = _many_steps(dbos)
    dbos.launch()
    for _ in range(20):
        await many_steps(1)
    memory, before = resident_kib(), time.perf_counter()
    # A tenth of the number: the time is proportional, and memory is per workflow.
    count = arguments["workflows"] // 10
    places = asyncio.Semaphore(AT_A_TIME)

    async def start() -> None:
        async with places:
            await dbos.start_workflow_async(sleeper)

    await asyncio.gather(*(start() for _ in range(count)))
    await asyncio.sleep(1)
    seconds = (time.perf_counter() - before - 1) * 10
    return (resident_kib() - memory) / count, seconds


async def memory_of_sleepers(url: str, arguments: dict[str, int]) -> float:
    return (await sleepers(url, arguments))[0]


async def start_of_sleepers(url: str, arguments: dict[str, int]) -> float:
    return (await sleepers(url, arguments))[1]


def import_ms() -> float:
    program = (
        "import time; before = time.perf_counter(); import dbos;"
        "print((time.perf_counter() - before) * 1000)"
    )
    times = [
        float(
            subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
        )
        for _ in range(5)
    ]
    return min(times)


async def time_of_import(_: str, __: dict[str, int]) -> float:
    return await asyncio.to_thread(import_ms)


ANSWERS: dict[str, Answer] = {
    "steps": rate,
    "workflows": rate,
    "sqlite-workflows": rate,
    "step-latency": step_latency,
    "sqlite-steps": sequential_rate,
    "two-steps": two_steps,
    "statements": statements,
    "idle": idle,
    "sleepers": memory_of_sleepers,
    "sleepers-start": start_of_sleepers,
    "import": time_of_import,
}


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    answer(ANSWERS)
    # Sleeping workflows would keep its threads, and so the process, for their hour.
    os._exit(0)
