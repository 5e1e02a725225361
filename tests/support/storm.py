"""The exactness storm: processes of three versions on queues with every kind of limit, killed and
stopped at random, until all work is done; then an observer says whether every limit was kept.

`python -m tests.support.storm --workflows 5000 --seed 7 --store postgres` starts everything it
needs, prints what each queue did, and ends with 1 if anything was wrong or a limit was not used as
far as it allows.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from perdure import Engine
from tests.support.backdoor import Backdoor
from tests.support.database import (
    SQLITE_PREFIX,
    Database,
    PostgresDatabase,
    SqliteDatabase,
    migrate,
)
from tests.support.ownership import Entry, watched_ownership
from tests.support.postgres import PostgresServer, disk
from tests.support.process import ChildProcess
from tests.support.storm_observer import Figures, Left, Verdict, judge
from tests.support.storm_plan import PROCESSES_EACH, QUEUES, VERSIONS, Job, jobs_of
from tests.support.storm_program import LEASE_S, job

FULL_DEADLINE_S = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How bad a storm is: how many workflows of which mean duration, how often a process is hit.

    A process that is hit is killed, or stopped for up to `longest_stop_s`; 0 seconds between hits
    means that none is.
    """

    workflows: int
    seed: int
    mean_s: float
    between_hits_s: float
    longest_stop_s: float = 2.5 * LEASE_S
    deadline_s: float = FULL_DEADLINE_S


@dataclass(slots=True)
class Place:
    """One of the processes of the fleet; another takes it when that one is killed."""

    name: str
    version: str
    process: ChildProcess | None = None
    starts: int = 0
    is_hit: bool = False


@dataclass(slots=True)
class Fleet:
    """The processes, on one database."""

    url: str
    stack: ExitStack
    places: list[Place] = field(
        default_factory=lambda: [
            Place(f"{version}-{number}", version)
            for version in VERSIONS
            for number in range(PROCESSES_EACH)
        ]
    )
    hits: Counter[str] = field(default_factory=Counter)

    async def start(self, place: Place) -> None:
        """Start a process; returns when it serves."""
        place.starts += 1
        process = self.stack.enter_context(
            ChildProcess(
                "-m",
                "tests.support.storm_program",
                self.url,
                place.version,
                f"{place.name}-{place.starts}",
            )
        )
        place.process = process
        await process.reaches("ready")

    async def kill(self, place: Place) -> None:
        """Kill a process, and start another in its place."""
        self.hits["killed"] += 1
        running(place).kill()
        await self.start(place)
        place.is_hit = False

    async def stop(self, place: Place, seconds: float) -> None:
        """Let a process stand still for a while."""
        self.hits["stopped"] += 1
        running(place).pause()
        await asyncio.sleep(seconds)
        running(place).resume()
        place.is_hit = False


class Outcome(NamedTuple):
    """What a storm showed, and how often a process was killed or stopped in it."""

    verdict: Verdict
    hits: Counter[str]


def running(place: Place) -> ChildProcess:
    """The process there; nobody ends one but `Fleet.kill`."""
    process = place.process
    assert process is not None
    assert process.running, f"{place.name} ended by itself:\n{process.errors}"
    return process


async def storm(database: Database, weather: Weather, folder: Path) -> Outcome:
    """One storm on an empty database, and what it showed."""
    chance = random.Random(weather.seed)
    jobs = jobs_of(weather.workflows, weather.mean_s, chance)
    effects = folder / "effects"
    backdoor = database.backdoor()
    try:
        async with watched_ownership(backdoor, database.kind) as log:
            with ExitStack() as stack:
                fleet = Fleet(database.url, stack)
                await asyncio.gather(*(fleet.start(place) for place in fleet.places))
                await enqueue(database.url, jobs, effects)
                await rage(fleet, weather, chance, backdoor)
                for place in fleet.places:
                    running(place)
            left = await found(backdoor, await log.entries(), effects)
            return Outcome(judge(jobs, left), fleet.hits)
    finally:
        await backdoor.close()


async def enqueue(url: str, jobs: list[Job], effects: Path) -> None:
    """Put all workflows into their queues, by a process that serves none of them."""
    alike: defaultdict[tuple[str, str, str | None], list[Job]] = defaultdict(list)
    for each in jobs:
        alike[each.queue, each.version, each.partition_key].append(each)
    async with Engine(url, workflows=[job], queues=QUEUES, listen=[], version="v0") as engine:
        await asyncio.gather(
            *(
                job.options(
                    queue=queue, version=version, partition_key=key, engine=engine
                ).start_many(
                    [(str(effects), each.id, each.pause_s, each.fails) for each in group],
                    ids=[each.id for each in group],
                )
                for (queue, version, key), group in alike.items()
            )
        )


async def rage(fleet: Fleet, weather: Weather, chance: random.Random, backdoor: Backdoor) -> None:
    """Hit processes until all work is done, or for as long as that may take."""
    end_s = time.monotonic() + weather.deadline_s
    async with asyncio.TaskGroup() as hits:
        while await left_open(backdoor) and time.monotonic() < end_s:
            if not weather.between_hits_s:
                await asyncio.sleep(1)
                continue
            await asyncio.sleep(chance.expovariate(1 / weather.between_hits_s))
            place = chance.choice(fleet.places)
            is_kill, stop_s = chance.random() < 0.5, chance.uniform(0.1, weather.longest_stop_s)
            if not place.is_hit:
                place.is_hit = True
                hits.create_task(fleet.kill(place) if is_kill else fleet.stop(place, stop_s))


async def left_open(backdoor: Backdoor) -> int:
    """How many workflows are not at their end."""
    rows = await backdoor.rows(
        "SELECT count(*) AS n FROM workflow_status"
        " WHERE status IN ('ENQUEUED', 'DELAYED', 'PENDING')"
    )
    return int(rows[0]["n"])


async def found(backdoor: Backdoor, entries: list[Entry], effects: Path) -> Left:
    """What the database holds at the end."""

    async def by_id(sql: str) -> dict[str, Any]:
        return {row["id"]: row["value"] for row in await backdoor.rows(sql)}

    return Left(
        entries,
        effects,
        await by_id("SELECT workflow_uuid AS id, status AS value FROM workflow_status"),
        await by_id("SELECT workflow_uuid AS id, output AS value FROM workflow_output"),
        await by_id(
            "SELECT workflow_uuid AS id, count(*) AS value FROM operation_outputs GROUP BY 1"
        ),
    )


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workflows", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--store", choices=["postgres", "sqlite"], default="postgres")
    parser.add_argument(
        "--mean", type=float, default=0.8, help="seconds a workflow takes, on average"
    )
    parser.add_argument(
        "--between-hits", type=float, default=3.0, help="seconds, on average; 0: none"
    )
    parser.add_argument(
        "--least-filled", type=float, default=0.8, help="the share of each limit that must be used"
    )
    given = parser.parse_args()
    seed = random.randrange(10**6) if given.seed is None else given.seed
    say(f"seed {seed}: {given.workflows} workflows on {given.store}")
    weather = Weather(
        workflows=given.workflows,
        seed=seed,
        mean_s=given.mean,
        between_hits_s=given.between_hits,
    )
    with tempfile.TemporaryDirectory() as folder:
        verdict, hits = asyncio.run(on_own_database(given.store, weather, Path(folder)))
    say(f"processes were killed {hits['killed']} and stopped {hits['stopped']} times")
    unfilled = [
        f"{each.queue}: {each.filled:.0%} of the limit was used, not {given.least_filled:.0%}"
        for each in verdict.figures
        if each.filled is not None and each.filled < given.least_filled
    ]
    report(verdict.figures, [*verdict.problems, *unfilled])
    return 1 if verdict.problems or unfilled else 0


async def on_own_database(kind: str, weather: Weather, folder: Path) -> Outcome:
    """The storm on a database of its own."""
    if kind == "sqlite":
        template = folder / "template.db"
        await migrate(f"{SQLITE_PREFIX}{template}")
        return await storm(SqliteDatabase(template, folder / "perdure.db"), weather, folder)
    with PostgresServer(directory=disk()) as server:
        async with server.databases.fresh() as url:
            await migrate(url)
            return await storm(PostgresDatabase(url), weather, folder)


def report(figures: list[Figures], problems: list[str]) -> None:
    """Print what each queue did, and what was wrong."""
    say("queue        workflows claims at once  least s   took s  filled")
    for each in figures:
        filled = "" if each.filled is None else f"{each.filled:.0%}"
        say(
            f"{each.queue:12} {each.workflows:9} {each.claims:6} {each.most_at_once:7} "
            f"{each.least_s:8.1f} {each.took_s:8.1f} {filled:>7}"
        )
    for problem in problems:
        say(problem)
    say(f"{len(problems)} problems")


def say(line: str) -> None:
    """Print one line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
