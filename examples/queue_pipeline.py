"""Files that go through a queue which processes serve that are stopped, killed and replaced.

This process submits all files and watches; three workers, processes of their own on the same SQLite
file, take them as the queue's limits allow. Stop it at any moment, with Ctrl-C or `kill -9`, and
start it again: it goes on with the files that are left.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Iterator
from itertools import islice

from perdure import Engine, Queue, RateLimit, WorkflowRow, step, workflow

DATABASE = "sqlite:///pipeline.db"
FILES = [f"clip-{number:02}" for number in range(1, 31)]

clips = Queue(
    "clips",
    worker_concurrency=2,  # in one worker
    global_concurrency=4,  # in all of them together
    rate_limit=RateLimit(10, period=1),  # that start in any second
)


@step
async def measure(file: str) -> int:
    """How many frames the file has."""
    await asyncio.sleep(0.1)
    return 25 * len(file)


@step
async def encode(file: str, frames: int) -> str:
    """What takes time."""
    await asyncio.sleep(frames / 1000)
    return f"{file}.mp4"


@workflow
async def convert(file: str) -> str:
    """One file: what is recorded is not done again, whichever worker goes on with it."""
    return await encode(file, await measure(file))


async def serve(name: str) -> None:
    """A worker: serves until its input ends, also because the process that started it is gone."""
    async with Engine(DATABASE, queues=[clips], executor_id=name):
        await asyncio.to_thread(sys.stdin.read)


async def started(name: str) -> Process:
    """A worker in a process of its own; Ctrl-C is for this one, which then stops the workers."""
    print(f"{name} starts")
    return await asyncio.create_subprocess_exec(
        sys.executable, __file__, name, stdin=PIPE, start_new_session=True
    )


async def stopped(worker: Process) -> None:
    """A worker stopped in order: what it runs ends, or goes on elsewhere."""
    if worker.stdin is not None:
        worker.stdin.close()
    await worker.wait()


async def show(engine: Engine) -> None:
    """Have what is left converted, while workers come and go."""
    handles = await convert.options(queue=clips).start_many([(file,) for file in FILES], ids=FILES)
    ends = iter(asyncio.as_completed([handle.result() for handle in handles]))
    # An earlier start may have been killed while the queue was paused.
    await engine.queues.resume(clips.name)
    workers = [await started(f"worker-{number}") for number in (1, 2, 3)]
    try:
        await several(ends, 6)
        await pause(engine)
        await several(ends, 6)
        print("worker-2 is killed: what it ran goes on in another")
        workers[1].kill()
        await several(ends, 6)
        print("worker-1 is stopped, in order")
        await stopped(workers[0])
        workers.append(await started("worker-4"))
        await several(ends, len(FILES))
    finally:
        for worker in workers:
            await stopped(worker)


async def several(ends: Iterator[Awaitable[str]], number: int) -> None:
    """Wait until so many more have ended."""
    for end in islice(ends, number):
        await end


async def pause(engine: Engine) -> None:
    """Nothing more starts from a paused queue; what runs goes on."""
    await engine.queues.pause(clips.name)
    depth = await engine.queues.depth(clips.name)
    print(f"the queue is paused: {depth.enqueued} wait, {depth.pending} still run")
    waiting = await engine.workflows.list(states=["ENQUEUED"], queues=[clips.name], limit=1)
    for row in waiting:
        explanation = await engine.workflows.explain(row.workflow_id)
        print(f"{row.workflow_id}: {explanation.text}")
    await engine.queues.resume(clips.name)


def outcome(rows: list[WorkflowRow]) -> str:
    """What the rows tell of how it went."""
    spans = [(row.started_at_ms or 0, row.completed_at_ms or 0) for row in rows]
    at_once = max(sum(start <= at < end for start, end in spans) for at, _ in spans)
    in_a_second = max(sum(at <= start < at + 1000 for start, _ in spans) for at, _ in spans)
    workers = {(row.executor_id or "").partition("/")[0] for row in rows}
    return (
        f"{len(rows)} files converted by {len(workers)} workers, at most {at_once} at once, at "
        f"most {in_a_second} started in a second"
    )


async def main() -> None:
    async with Engine(DATABASE, queues=[clips], listen=[]) as engine:  # it submits, and runs none
        found = engine.workflows
        if len(await found.list(names=["convert"], states=["SUCCESS"])) < len(FILES):
            await show(engine)
        print(outcome(await found.list(names=["convert"])))


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]) if len(sys.argv) > 1 else main())
