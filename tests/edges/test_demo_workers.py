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

from perdure.api.client import Client
from perdure.cli.demo import crew
from perdure.cli.demo.crew import Crew
from perdure.cli.demo.display import Lines
from perdure.cli.demo.service import APPLICATION, posts
from perdure.cli.demo.session import _Announcer
from perdure.cli.demo.tally import Tally
from perdure.errors import SchemaMissing
from tests.edges import archives
from tests.edges.program import perdure
from tests.support.backdoor import SQLITE_PREFIX, backdoor_to
from tests.support.process import ChildProcess, alive, process_state
from tests.support.waiting import eventually

FILES = 1200
"""Work for long enough that every process has its share of it."""

GONE_S = 10.0
"""Within which a worker is gone after the program that started it."""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


async def settled_by(url: str) -> Counter[int]:
    """How many files each process settled, by its number in its start."""
    try:
        async with Client(url, name=APPLICATION) as client:
            found = client.workflows.iterate(names=["demo.archive_file"], states=["SUCCESS"])
            rows = [row async for row in found]
    except SchemaMissing:
        return Counter()
    return Counter(number_of(row.executor_id or "") for row in rows)


async def all_serve(child: ChildProcess, url: str, processes: int) -> list[int]:
    """The process ids of the workers, once every process serves the archive with work to share.

    The queue is held until then: a process that is slow to start finds its share of the files.
    """
    pids = worker_pids(child, processes)
    leases = "perdure_leases" if url.startswith(SQLITE_PREFIX) else "leases"
    async with backdoor_to(url) as behind, Client(url, name=APPLICATION) as client:

        async def serve() -> bool:
            return len(await behind.rows(f"SELECT boot_id FROM {leases}")) == processes

        (queue,) = await client.queues.list()
        await client.queues.pause(queue.name)
        await eventually(serve)
        await client.queues.resume(queue.name)
    return pids


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
    with ChildProcess(*command) as child:
        second, third = await all_serve(child, url, 3)

        async def all_have_worked() -> bool:
            return (await settled_by(url)).keys() == {1, 2, 3}

        await eventually(all_have_worked)
        assert child.running, "there is work left"
        os.kill(second, signal.SIGKILL)
        await child.reaches("worker 2 ended by signal 9; the others go on with its files")
        printed = child.succeed(deadline_s=120)
        assert not alive(third)
    assert archives.archived(out) == archives.recorded(out) == archives.contents(folder)
    files = await settled_by(url)
    assert files.total() == FILES
    assert line(printed, "processes") == (
        f"this one {files[1]:,} files, worker 2 {files[2]:,} files, worker 3 {files[3]:,} files"
    )


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
    with ChildProcess(*command) as child:
        workers = await all_serve(child, url, 3)

        async def worked() -> bool:
            return (await settled_by(url))[3] > 0

        await eventually(worked)
        assert child.running, "there is work left"
        os.kill(child.pid, signal.SIGKILL)  # this process alone, not those it started
        await eventually(lambda: not any(map(alive, workers)), GONE_S)
        assert "Traceback" not in child.errors
    before = (await settled_by(url)).total()
    assert before < FILES
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
    with ChildProcess("-m", "perdure.cli", "demo", folder, "--out", out, "-w", "2") as child:
        (worker,) = await all_serve(child, url, 2)

        async def worked() -> bool:
            return (await settled_by(url))[2] > 0

        await eventually(worked)
        child.interrupt()
        assert child.wait() == 130
        assert "stopped; the same command goes on" in child.errors
        assert "Traceback" not in child.errors
        assert not any("ended by" in each for each in child.lines), "it did not die, it stopped"
        assert not alive(worker)
    async with Client(url, name=APPLICATION) as client:
        assert await client.workflows.list(states=["PENDING"]) == [], "all is given back"
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
