"""Several processes on one SQLite file, some of which die or will not let go."""

import asyncio
import random
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from perdure.model.answer import AnswerKind
from perdure.model.lease import LeaseSeen, LockState
from perdure.model.management import Cancel
from perdure.model.queue import Rate
from perdure.model.workflow import Start
from perdure.ports.store import Store
from perdure.ports.store.hints import TALK
from tests.support import rows
from tests.support.database import MovableClock, build_store, migrate
from tests.support.process import ChildProcess
from tests.support.sqlite_programs import BATCH
from tests.support.waiting import eventually

PROGRAMS = ("-m", "tests.support.sqlite_programs")


class Judge:
    """A process start in this process that looks at the others."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.lease = rows.lease(period_ms=60_000)
        self.link = store.heartbeat_link()

    async def suspicion(self, boot: str) -> LeaseSeen | None:
        beat = await self.link.beat(self.lease, (rows.QUEUE,), (rows.KEY,))
        return next((seen for seen in beat.suspects if seen.boot_id == boot), None)


@pytest.fixture
async def me(sqlite_url: str) -> AsyncIterator[Judge]:
    await migrate(sqlite_url)
    store = build_store(sqlite_url, "app", MovableClock())
    await store.open()
    judge = Judge(store)
    await judge.link.open(judge.lease)
    yield judge
    await judge.link.close()
    await store.close()


def connect(url: str) -> sqlite3.Connection:
    return sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30, isolation_level=None)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("held_s", [None, "3"])
async def test_every_job_of_a_fleet_runs_once(
    sqlite_url: str, me: Judge, held_s: str | None
) -> None:
    """Three processes of four threads each, and one that keeps the file locked for seconds."""
    ids = [f"job-{number}" for number in range(300)]
    with ExitStack() as stack:
        fleet = [
            stack.enter_context(
                ChildProcess(*PROGRAMS, "drain", sqlite_url, f"boot-{number}", "4", *ids)
            )
            for number in range(3)
        ]
        items = [Start(rows.enqueued(text)) for text in ids]
        await asyncio.gather(*(me.store.start([i], me.lease.executor_id) for i in items))
        if held_s is not None:
            holder = stack.enter_context(ChildProcess(*PROGRAMS, "hold", sqlite_url, held_s))
            await holder.reaches("holding")
        printed = [await asyncio.to_thread(child.succeed, 200) for child in fleet]
        assert [child.errors for child in fleet] == [""] * 3
    ran = [line.removeprefix("ran ") for lines in printed for line in lines]
    assert sorted(ran) == sorted(ids)
    assert all(len(steps) == 1 for steps in (await me.store.history(ids)).values())  # type: ignore[arg-type]
    connection = connect(sqlite_url)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(6))
async def test_a_kill_leaves_all_of_a_batch_or_nothing(
    sqlite_url: str, me: Judge, seed: int
) -> None:
    """SIGKILL at any moment: what was answered is there, and no batch is there in part."""
    chance = random.Random(seed)
    boot = rows.boot_id()
    with ChildProcess(*PROGRAMS, "write", sqlite_url, boot) as child:
        await child.reaches(f"done {chance.randint(1, 8)}")
        await asyncio.sleep(chance.random() * 0.02)
        child.kill()
        # All that it said has been read by then.
        child.wait()
        answered = [line for line in child.lines if line.startswith("done")]
    recorded = [step.step_id for step in (await me.store.history([rows.wid("the-run")]))["the-run"]]  # type: ignore[index]
    assert recorded == list(range(1, len(recorded) + 1))
    assert len(recorded) % BATCH == 0
    assert len(answered) <= len(recorded) // BATCH <= len(answered) + 1


async def test_a_forked_child_keeps_no_lock_of_a_dead_parent(sqlite_url: str, me: Judge) -> None:
    boot = rows.boot_id()
    with ChildProcess(*PROGRAMS, "fork", sqlite_url, boot) as child:
        await child.reaches("child lives")

        async def is_free() -> bool:
            seen = await me.suspicion(boot)
            return seen is not None and seen.lock is LockState.FREE

        await eventually(is_free)
        await eventually(lambda: not child.running)
        seen = await me.suspicion(boot)
        assert seen is not None
        assert (await me.store.take_over(seen, 10)).finished


async def test_a_takeover_removes_the_dead_boots_lock(
    sqlite_url: str, me: Judge, tmp_path: Path
) -> None:
    boot = rows.boot_id()
    folder = tmp_path / "perdure.db.perdure"
    with ChildProcess("-m", "tests.support.lease_holder", sqlite_url, boot) as child:
        await child.reaches("held True")
        assert (folder / f"{boot}.lock").exists()
        child.kill()

        async def is_suspect() -> bool:
            return await me.suspicion(boot) is not None

        await eventually(is_suspect)
        seen = await me.suspicion(boot)
        assert seen is not None
        assert (await me.store.take_over(seen, 10)).finished
    assert sorted(file.name for file in folder.iterdir()) == sorted(
        [f"{me.lease.boot_id}.lock", "turnstile"]
    )


async def test_a_process_that_closes_nothing_ends_all_the_same(sqlite_url: str, me: Judge) -> None:
    boot = rows.boot_id()
    with ChildProcess(*PROGRAMS, "leave", sqlite_url, boot) as child:
        assert child.succeed() == ["leaving"]
        seen = await me.suspicion(boot)
        assert seen is not None
        assert seen.lock is LockState.FREE
        assert (await me.store.take_over(seen, 10)).moved == 1


async def test_a_stopped_process_at_the_turnstile_stops_nobody(sqlite_url: str, me: Judge) -> None:
    with ChildProcess(*PROGRAMS, "turn", sqlite_url) as child:
        await child.reaches("holding True")
        child.pause()
        (answer,) = await me.store.start([Start(rows.direct())], me.lease.executor_id)
        assert answer.kind is AnswerKind.WRITTEN


async def test_a_busy_writer_lets_others_have_their_turn(sqlite_url: str, me: Judge) -> None:
    """One process writes without pause; another's lone writes get through all the same."""
    with ChildProcess(*PROGRAMS, "write", sqlite_url, rows.boot_id()) as child:
        await child.reaches("done 1")
        for _ in range(20):
            (answer,) = await me.store.start([Start(rows.direct())], me.lease.executor_id)
            assert answer.kind is AnswerKind.WRITTEN
        assert child.running


def most_at_once(lines: list[str]) -> int:
    """Of how many workflows it was said that they were held at one instant."""
    changes: list[tuple[int, int]] = []
    for line in lines:
        _, _, begun, ended = line.split()
        changes += [(int(begun), 1), (int(ended), -1)]
    at_once = most = 0
    # At one instant, what ends comes before what begins.
    for _, change in sorted(changes):
        at_once += change
        most = max(most, at_once)
    return most


async def run_fleet(me: Judge, url: str, ids: list[str]) -> list[str]:
    """Let three processes drain the queue; what they said."""
    await me.store.start([Start(rows.enqueued(text)) for text in ids], me.lease.executor_id)
    with ExitStack() as stack:
        fleet = [
            stack.enter_context(
                ChildProcess(*PROGRAMS, "share", url, rows.boot_id(), str(number), *ids)
            )
            for number in range(3)
        ]
        said = [await asyncio.to_thread(child.succeed, 200) for child in fleet]
        # Least of all that the file is locked.
        assert [child.errors for child in fleet] == [""] * 3
    return [line for lines in said for line in lines]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("limit", [1, 3])
async def test_processes_never_run_more_than_the_limit(
    sqlite_url: str, me: Judge, limit: int
) -> None:
    settings = rows.queue(concurrency=limit)
    await me.store.register_queue(rows.QUEUE, rows.VERSION, lambda *_: settings)
    ids = [f"job-{number}" for number in range(120)]
    said = await run_fleet(me, sqlite_url, ids)
    assert sorted(line.split()[1] for line in said) == sorted(ids)
    assert most_at_once(said) <= limit


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_processes_never_start_more_than_the_rate(sqlite_url: str, me: Judge) -> None:
    limit, period_ms = 5, 100
    settings = rows.queue(rate=Rate(limit, period_ms / 1000))
    await me.store.register_queue(rows.QUEUE, rows.VERSION, lambda *_: settings)
    ids = [f"job-{number}" for number in range(60)]
    await run_fleet(me, sqlite_url, ids)
    ended = await me.store.list_workflows(rows.by_ids(*map(rows.wid, ids)))
    started = sorted(row.started_at_ms or 0 for row in ended)
    assert len(started) == len(ids)
    assert all(
        after - before >= period_ms for before, after in zip(started, started[limit:], strict=False)
    )


async def test_a_process_is_woken_by_the_commit_of_another(sqlite_url: str, me: Judge) -> None:
    """Long before its next heartbeat; a machine that is busy may need several tries to show it."""
    latencies_s: list[float] = []
    with ChildProcess(*PROGRAMS, "hear", sqlite_url, rows.boot_id()) as child:
        await child.reaches("listening")
        for _ in range(20):
            before = len(heard(child))
            workflow = rows.enqueued()
            await me.store.start([Start(workflow)], me.lease.executor_id)
            committed_ns = time.monotonic_ns()
            await eventually(lambda: len(heard(child)) > before)  # noqa: B023 - awaited here
            latencies_s.append((int(heard(child)[before].split()[2]) - committed_ns) / 1e9)
            await me.store.manage(Cancel((workflow.workflow_id,)))
        assert {line.split()[1] for line in heard(child)} == {f"+{rows.QUEUE}"}
    assert min(latencies_s) < 0.05


def heard(child: ChildProcess) -> list[str]:
    """What it heard of work; that others committed at all it hears after every commit."""
    lines = [line for line in child.lines if line.startswith("heard")]
    return [line for line in lines if line.split()[1] != TALK]
