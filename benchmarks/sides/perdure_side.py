"""This library's side.

`python perdure_side.py QUESTION URL ARGUMENTS-AS-JSON`
"""

import asyncio
import logging
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from answering import Answer, answer
from memory import resident_kib
from statements import Statements

from perdure import Engine, sleep, step, workflow

AT_A_TIME = 200
"""How many starts are under way at once, so that not their peak is measured but what stays."""


@step
async def record(number: int) -> dict[str, int]:
    return {"v": number}


@workflow
async def many_steps(steps: int) -> str:
    for number in range(steps):
        await record(number)
    return "ok"


@workflow
async def timed_steps(steps: int) -> list[float]:
    latencies = []
    for number in range(steps):
        before = time.perf_counter()
        await record(number)
        latencies.append(time.perf_counter() - before)
    return latencies


@workflow
async def sleeper() -> None:
    await sleep(hours=1)


async def run_many(count: int, at_a_time: int, steps: int) -> float:
    places = asyncio.Semaphore(at_a_time)

    async def one() -> None:
        async with places:
            await many_steps(steps)

    before = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(count)))
    return time.perf_counter() - before


async def rate(url: str, arguments: dict[str, int]) -> float:
    count, at_a_time = arguments["workflows"], arguments["at_a_time"]
    steps = arguments.get("steps", 0)
    async with Engine(url):
        await run_many(count // 10, at_a_time, steps)
        return count * (steps or 1) / await run_many(count, at_a_time, steps)


async def step_latency(url: str, arguments: dict[str, int]) -> float:
    async with Engine(url):
        await timed_steps(100)
        return statistics.median(await timed_steps(arguments["steps"])) * 1000


async def sequential_rate(url: str, arguments: dict[str, int]) -> float:
    async with Engine(url):
        await timed_steps(100)
        before = time.perf_counter()
        await timed_steps(arguments["steps"])
        return arguments["steps"] / (time.perf_counter() - before)


async def two_steps(url: str, arguments: dict[str, int]) -> float:
    async with Engine(url):
        await run_many(50, 1, 2)
        latencies = []
        for _ in range(arguments["workflows"]):
            before = time.perf_counter()
            await many_steps(2)
            latencies.append(time.perf_counter() - before)
        return statistics.median(latencies) * 1000


async def statements(url: str, arguments: dict[str, int]) -> float:
    async with Engine(url, heartbeat=600, lease=3600), Statements(url) as counted:
        await run_many(5, 1, 1)
        await asyncio.sleep(1.5)
        before = await counted.total()
        await run_many(arguments["workflows"], 1, 1)
        return await counted.total() - before


async def sleepers(url: str, arguments: dict[str, int]) -> tuple[float, float]:
    async with Engine(url) as engine:
        await run_many(200, 50, 1)
        memory, before = resident_kib(), time.perf_counter()
        count = arguments["workflows"]
        left = iter(range(count))

        async def start() -> None:
            for _ in left:
                await sleeper.start()

        # A few callers, each one start after the other: their own memory is not what is measured.
        await asyncio.gather(*(start() for _ in range(AT_A_TIME)))
        # A benchmark may look: nothing tells when the last of them has begun to wait.
        while sum(run.only_waits for run in engine.kernel.runner.runs.values()) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        seconds = time.perf_counter() - before
        return (resident_kib() - memory) / count, seconds


async def idle(url: str, arguments: dict[str, int]) -> float:
    async with Engine(url), Statements(url) as counted:
        await run_many(5, 1, 1)
        await asyncio.sleep(2)
        before = await counted.total(heartbeats=False)
        await asyncio.sleep(arguments["seconds"])
        return (await counted.total(heartbeats=False) - before) / arguments["seconds"]


def import_ms() -> float:
    program = (
        "import time; before = time.perf_counter(); import perdure;"
        "print((time.perf_counter() - before) * 1000)"
    )
    times = [
        float(
            subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
        )
        for _ in range(5)
    ]
    return min(times)


async def memory_of_sleepers(url: str, arguments: dict[str, int]) -> float:
    return (await sleepers(url, arguments))[0]


async def start_of_sleepers(url: str, arguments: dict[str, int]) -> float:
    return (await sleepers(url, arguments))[1]


async def time_of_import(_: str, __: dict[str, int]) -> float:
    return await asyncio.to_thread(import_ms)


ANSWERS: dict[str, Answer] = {
    "steps": rate,
    "steps-500": rate,
    "workflows": rate,
    "sqlite-workflows": rate,
    "step-latency": step_latency,
    "sqlite-steps": sequential_rate,
    "two-steps": two_steps,
    "statements": statements,
    "sleepers": memory_of_sleepers,
    "sleepers-start": start_of_sleepers,
    "idle": idle,
    "import": time_of_import,
}


if __name__ == "__main__":
    logging.disable(logging.INFO)
    answer(ANSWERS)
