"""Programs that tests of the SQLite store run as processes of their own.

`python -m tests.support.sqlite_programs NAME URL …`
"""

import asyncio
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path

from perdure.model.ids import BootId
from perdure.model.lease import NewLease
from perdure.model.workflow import ClaimedRun, Fence, Start
from perdure.ports.store import Store
from perdure.store.sqlite import turnstile
from perdure.store.sqlite.location import companions
from perdure.store.sqlite.lockfile import LockFile
from tests.support import rows
from tests.support.database import MovableClock, build_store

PERIOD_MS = 60_000
BATCH = 1000


def say(line: str) -> None:
    """Print it at once, whole, from whatever thread."""
    os.write(1, f"{line}\n".encode())


async def owner(url: str, boot: BootId) -> tuple[Store, NewLease]:
    """An open store with a lease."""
    store = build_store(url, "app", MovableClock())
    await store.open()
    settings = rows.queue()
    await store.register_queue(
        settings.name, rows.VERSION, lambda standing, _: None if standing else settings
    )
    lease = rows.lease(boot, PERIOD_MS)
    link = store.heartbeat_link()
    await link.open(lease)
    return store, lease


async def drain(url: str, boot: BootId, ids: list[str]) -> None:
    """Claim, record and finish until all of these have ended; says which it ran."""
    store, lease = await owner(url, boot)
    while len((await store.settled([rows.wid(text) for text in ids])).outcomes) < len(ids):
        for run in await store.claim(rows.claim(lease.executor_id, limit=3)):
            fence = Fence(run.workflow_id, run.owner)
            await store.record([rows.checkpoint(fence)])
            await store.finish([rows.finish(fence)])
            say(f"ran {run.workflow_id}")
        await asyncio.sleep(0.001)
    await store.close()


def drain_in_threads(url: str, boot: str, threads: str, *ids: str) -> None:
    """So many loops in so many threads, each with a store of its own."""
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            asyncio.run(drain(url, BootId(f"{boot}-{number}"), list(ids)))
        except BaseException as error:
            failed.append(error)
            raise

    workers = [threading.Thread(target=work, args=(number,)) for number in range(int(threads))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.exit(1 if failed else 0)


async def drain_shared(url: str, boot: str, seed: str, *ids: str) -> None:
    """Claim under the limits of the queue, hold each for a moment and finish it, until all ended.

    Says from when to when it surely held each, on a clock that all processes of the machine share.
    """
    chance = random.Random(seed)
    store, lease = await owner(url, BootId(boot))
    wanted = [rows.wid(text) for text in ids]
    running: set[asyncio.Task[None]] = set()

    async def hold(run: ClaimedRun) -> None:
        begun_ns = time.monotonic_ns()
        await asyncio.sleep(chance.random() * 0.004)
        ended_ns = time.monotonic_ns()
        await store.finish([rows.finish(Fence(run.workflow_id, run.owner))])
        say(f"held {run.workflow_id} {begun_ns} {ended_ns}")

    while len((await store.settled(wanted)).outcomes) < len(wanted):
        claim = await store.claim_shared(rows.shared_claim(lease.executor_id, (rows.load(),)))
        for run in claim.runs:
            task = asyncio.create_task(hold(run))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.sleep(0.001)
    await asyncio.gather(*running)
    await store.close()


async def hear(url: str, boot: str) -> None:
    """Say what is heard, and when, on a clock that all processes of the machine share."""
    store = build_store(url, "app", MovableClock())
    await store.open()
    lease = rows.lease(BootId(boot), PERIOD_MS)
    link = store.heartbeat_link()
    link.listen(lambda hint: say(f"heard {hint} {time.monotonic_ns()}"))
    await link.open(lease)
    await link.beat(lease, (rows.QUEUE,), (rows.KEY,))
    say("listening")
    await asyncio.Event().wait()


async def write_batches(url: str, boot: str) -> None:
    """Record batches of steps of one run for ever; says which one is surely on the disk."""
    store, lease = await owner(url, BootId(boot))
    run = rows.direct("the-run")
    await store.start([Start(run)], lease.executor_id)
    number = 0
    while True:
        first = number * BATCH + 1
        await store.record([rows.checkpoint(run, first + step) for step in range(BATCH)])
        number += 1
        say(f"done {number}")


async def die_with_a_child(url: str, boot: str) -> None:
    """Hold a lease, fork a child that lives on, and die."""
    await owner(url, BootId(boot))
    if os.fork() == 0:
        say("child lives")
        signal.pause()
    else:
        os.kill(os.getpid(), signal.SIGKILL)


def hold_the_file(url: str, seconds: str) -> None:
    """Keep the write lock that long."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=60, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("holding")
    threading.Event().wait(float(seconds))
    connection.execute("ROLLBACK")
    connection.close()


def hold_the_turnstile(url: str) -> None:
    """Take the turnstile and keep it."""
    folder = companions(Path(url.removeprefix("sqlite:///")))
    file = LockFile(folder / turnstile.NAME, create=True)
    say(f"holding {file.try_lock()}")
    threading.Event().wait()


async def leave_without_closing(url: str, boot: str) -> None:
    """Write something and end, with store and link still open."""
    store, lease = await owner(url, BootId(boot))
    await store.start([Start(rows.direct())], lease.executor_id)
    await store.now_ms()
    say("leaving")


def main(name: str, url: str, *arguments: str) -> None:
    """Run the program of that name."""
    if name == "drain":
        drain_in_threads(url, *arguments)
    elif name == "share":
        asyncio.run(drain_shared(url, *arguments))
    elif name == "hear":
        asyncio.run(hear(url, *arguments))
    elif name == "write":
        asyncio.run(write_batches(url, *arguments))
    elif name == "fork":
        asyncio.run(die_with_a_child(url, *arguments))
    elif name == "leave":
        asyncio.run(leave_without_closing(url, *arguments))
    elif name == "hold":
        hold_the_file(url, *arguments)
    elif name == "turn":
        hold_the_turnstile(url)


if __name__ == "__main__":
    main(*sys.argv[1:])
