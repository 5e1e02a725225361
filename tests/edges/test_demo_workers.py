"""`perdure demo --workers N`: several processes share an archive, and any of them may be killed."""

from __future__ import annotations

import io
import json
import os
import re
import signal
from collections import Counter
from pathlib import Path

import pytest

from perdure import RateLimit
from perdure.api.client import Client
from perdure.cli.demo import crew
from perdure.cli.demo.crew import Crew
from perdure.cli.demo.display import Lines
from perdure.cli.demo.places import places, prepare
from perdure.cli.demo.service import APPLICATION, archive_engine, archive_queue, posts
from perdure.cli.demo.session import _Announcer
from perdure.cli.demo.tally import Tally
from perdure.logic.phrases import plural
from tests.edges import archives
from tests.edges.program import perdure
from tests.support.backdoor import SQLITE_PREFIX, backdoor_to
from tests.support.process import ChildProcess, alive, process_state
from tests.support.waiting import eventually

FILES = 800
"""Enough that every process has its share of them."""

FAST = FILES // 4
"""So many of them may be begun as fast as may be once every process has worked."""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


async def settled_by(url: str, state: str = "SUCCESS") -> Counter[int]:
    """How many files each process settled, by its number in its start; or has in another state."""
    async with Client(url, name=APPLICATION) as client:
        found = client.workflows.iterate(names=["demo.archive_file"], states=[state])
        rows = [row async for row in found]
    return Counter(number_of(row.executor_id or "") for row in rows)


async def hold(folder: Path, out: Path, url: str) -> None:
    """Make the archive's queue, paused: nobody begins before the test lets them."""
    where = places(folder, out, url)
    prepare(where)
    (post,) = posts(where.database, where.queue, 1)
    async with archive_engine(post, [], [archive_queue(where.queue, 3)]) as engine:
        await engine.queues.pause(where.queue)


async def all_work(child: ChildProcess, url: str, processes: int) -> list[int]:
    """The process ids of the workers of a program whose queue is held, once all of them worked.

    Until then files are begun slowly, so that a process that is late finds its share of them; then
    a part of them as fast as may be, and the others after `let_end`.
    """
    pids = worker_pids(child, processes)
    leases = "perdure_leases" if url.startswith(SQLITE_PREFIX) else "leases"
    async with backdoor_to(url) as behind, Client(url, name=APPLICATION) as client:

        async def serve() -> bool:
            return len(await behind.rows(f"SELECT boot_id FROM {leases}")) == processes

        async def have_worked() -> bool:
            return (await settled_by(url)).keys() == set(range(1, processes + 1))

        (queue,) = await client.queues.list()
        await eventually(serve)
        await client.queues.update(queue.name, rate_limit=RateLimit(2, 0.1))
        await client.queues.resume(queue.name)
        await eventually(have_worked)
        await client.queues.update(queue.name, rate_limit=RateLimit(FAST, 3600))
    return pids


async def let_end(url: str) -> None:
    """Let the files that are left be begun as well."""
    async with Client(url, name=APPLICATION) as client:
        (queue,) = await client.queues.list()
        await client.queues.update(queue.name, rate_limit=None)


def number_of(executor_id: str) -> int:
    found = re.fullmatch(r"demo-[0-9a-f]{8}-(\d+)/.+", executor_id)
    assert found is not None, executor_id
    return int(found[1])


def worker_pids(child: ChildProcess, workers: int) -> list[int]:
    """The process ids of the workers of a program, which it has just started."""
    return [
        int(child.wait_for(f"worker {number} is process").split()[-1])
        for number in range(2, workers + 1)
    ]


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_worker_is_killed_and_the_others_finish(
    tmp_path: Path, out: Path, shared_database_url: str
) -> None:
    url = shared_database_url
    folder = archives.tree(tmp_path / "folder", FILES)
    command = ("-m", "perdure.cli", "demo", folder, "--out", out, "-d", url, "--workers", "3")
    await hold(folder, out, url)
    with ChildProcess(*command) as child:
        pids = await all_work(child, url, 3)
        number = await busy_worker(url)
        os.kill(pids[number - 2], signal.SIGKILL)
        await child.reaches(f"worker {number} ended by signal 9; the others go on with its files")
        await let_end(url)
        printed = child.succeed(deadline_s=120)
        assert not any(map(alive, pids))
    assert archives.archived(out) == archives.recorded(out) == archives.contents(folder)
    files = await settled_by(url)
    assert files.total() == FILES
    names = {1: "this one", 2: "worker 2", 3: "worker 3"}
    shares = [f"{name} {plural(files[number], 'file')}" for number, name in names.items()]
    assert line(printed, "processes") == ", ".join(shares)


async def busy_worker(url: str) -> int:
    """The number of a worker that has files under way, of any once it is too late for that."""
    busy: Counter[int] = Counter()

    async def found() -> bool:
        busy.update(await settled_by(url, "PENDING"))
        return busy[2] or busy[3] or (await settled_by(url)).total() >= FAST // 2

    await eventually(found)
    return 2 if busy[2] >= busy[3] else 3


def line(printed: list[str], title: str) -> str:
    (found,) = [each for each in printed if each.startswith(title)]
    return found.removeprefix(title).strip()


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_the_program_is_killed_its_workers_go_and_the_next_start_goes_on(
    tmp_path: Path, out: Path, shared_database_url: str
) -> None:
    url = shared_database_url
    folder = archives.tree(tmp_path / "folder", FILES)
    command = ("-m", "perdure.cli", "demo", folder, "--out", out, "-d", url, "--workers", "3")
    await hold(folder, out, url)
    with ChildProcess(*command) as child:
        workers = await all_work(child, url, 3)
        assert child.running, "there is work left"
        os.kill(child.pid, signal.SIGKILL)  # this process alone, not those it started
        await eventually(lambda: not any(map(alive, workers)))
        assert "Traceback" not in child.errors
    before = (await settled_by(url)).total()
    assert before < FILES
    await let_end(url)
    with ChildProcess(*command, "--json") as child:
        document = json.loads("\n".join(child.succeed(deadline_s=120)))
    assert archives.archived(out) == archives.recorded(out) == archives.contents(folder)
    assert document["recorded_before"] == before
    assert sum(each["files"] for each in document["processes"]) == FILES
    assert document["files_per_second"] > 0
    assert (await settled_by(url)).total() == FILES


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_ctrl_c_stops_all_processes_in_order(tmp_path: Path, out: Path) -> None:
    """A terminal sends it to the whole group; the workers stop because the program does."""
    folder = archives.tree(tmp_path / "folder", FILES)
    url = f"sqlite:///{out}/perdure.db"
    await hold(folder, out, url)
    with ChildProcess("-m", "perdure.cli", "demo", folder, "--out", out, "-w", "2") as child:
        (worker,) = await all_work(child, url, 2)
        child.interrupt()
        assert child.wait() == 130
        assert "stopped; the same command goes on" in child.errors
        assert "Traceback" not in child.errors
        assert not any("ended by" in each for each in child.lines), "it did not die, it stopped"
        assert not alive(worker)
    async with Client(url, name=APPLICATION) as client:
        assert await client.workflows.list(states=["PENDING"]) == [], "all is given back"
    await let_end(url)
    with ChildProcess("-m", "perdure.cli", "demo", folder, "--out", out, "-w", "2") as child:
        child.succeed(deadline_s=120)
    assert archives.archived(out) == archives.recorded(out) == archives.contents(folder)


async def test_a_worker_that_does_not_stop_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(crew, "PATIENCE_S", 0.1)
    tally = Tally()
    _, post = posts(f"sqlite:///{tmp_path}/some.db", "demo-queue", 2)
    with capsys.disabled(), (tmp_path / "shown").open("w") as shown:
        async with Crew(tally, Lines(shown)) as workers:
            await workers.start([post])
            pid = int((tmp_path / "shown").read_text().split()[-1])
            os.kill(pid, signal.SIGSTOP)
            await eventually(lambda: process_state(pid) == "T")
    assert not alive(pid)


def test_a_worker_whose_program_is_gone_before_it_began_ends() -> None:
    with ChildProcess("-m", "perdure.cli.demo.worker") as worker:
        assert worker.succeed() == []
        assert worker.errors == ""


def test_what_cannot_be_shared_is_refused(tmp_path: Path, out: Path) -> None:
    ran = perdure("demo", tmp_path, "--out", out, "-d", "memory:", "--workers", "2")
    assert ran.code == 2
    assert "--workers 2 needs a database that several processes can open" in ran.err
    assert not out.exists()
    assert perdure("demo", tmp_path, "--out", out, "--workers", "0").code == 2


def test_the_tally_counts_what_all_processes_settle() -> None:
    tally = Tally()
    assert tally.settled(5) == 5
    tally.plan(12)
    tally.settle(100)
    tally.settle_elsewhere(2, 2, 50)
    tally.settle_elsewhere(2, 3, 80)
    tally.settle_elsewhere(3, 1, 10)
    assert (tally.files, tally.size, tally.settled(5)) == (5, 190, 10)
    tally.hear(11)
    assert tally.settled(5) == 11
    assert tally.settled(50) == 12


def test_the_plan_says_once_what_earlier_starts_recorded() -> None:
    tally, shown = Tally(), io.StringIO()
    announcer = _Announcer(tally, 220, Lines(shown))
    announcer.look()
    tally.plan(401)
    for _ in range(2):
        announcer.look()
    assert shown.getvalue() == "220 files were already recorded, archiving the remaining 181\n"
