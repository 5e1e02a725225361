"""What Postgres refuses a running engine: privileges taken away, long locks, sessions ended."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from perdure import Engine, WorkflowState, sleep, step, workflow
from perdure.api import engine as engine_module
from perdure.engine.time import Trip
from perdure.errors import DatabaseRejected, DatabaseUnavailable
from perdure.logic.liveness import Judge
from perdure.model.lease import Beat, LeaseSeen
from tests.support.database import PostgresDatabase, build_store
from tests.support.deaths import crash
from tests.support.engines import RELEASED_S, Lab
from tests.support.waiting import eventually

DAY = 86_400

effects: Counter[str] = Counter()
gates: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    effects.clear()
    gates.clear()
    gates["two"] = asyncio.Event()


@step(name="effect")
async def effect(word: str) -> str:
    effects[word] += 1
    if word in gates:
        await gates[word].wait()
    return word


@workflow(name="three")
async def three() -> str:
    return " ".join([await effect(word) for word in ("one", "two", "three")])


@workflow(name="naps")
async def naps() -> str:
    await sleep(DAY)
    return "rested"


class Role:
    """A role of the server that an engine connects as, and what it may do."""

    def __init__(self, url: str) -> None:
        self._owner = url
        self.name = f"perdure_test_{secrets.token_hex(4)}"
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        self.url = urlunsplit(parts._replace(netloc=f"{self.name}:secret@{host}"))

    async def create(self) -> None:
        """With what an application needs that may not change the schema."""
        await self.run(f"CREATE ROLE {self.name} LOGIN PASSWORD 'secret'")
        for schema in ("dbos", "perdure"):
            await self.run(f"GRANT USAGE ON SCHEMA {schema} TO {self.name}")
            await self.grant(f"ALL TABLES IN SCHEMA {schema}")

    async def grant(self, what: str) -> None:
        await self.run(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {what} TO {self.name}")

    async def revoke(self, what: str) -> None:
        await self.run(f"REVOKE SELECT, INSERT, UPDATE, DELETE ON {what} FROM {self.name}")

    async def run(self, statement: str) -> None:
        connection = await asyncpg.connect(self._owner)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    async def drop(self) -> None:
        await self.run(f"DROP OWNED BY {self.name} CASCADE; DROP ROLE {self.name}")


@pytest.fixture
async def role(postgres_database: PostgresDatabase) -> AsyncIterator[Role]:
    role = Role(postgres_database.url)
    await role.create()
    yield role
    await role.drop()


async def started(lab: Lab, role: Role) -> Engine:
    """An engine that connects as that role."""
    url, lab.url = lab.url, role.url
    try:
        return await lab.start(three, naps, migrate=False, lease=0.5)
    finally:
        lab.url = url


@pytest.mark.usefixtures("long_release")
async def test_a_table_taken_away_from_a_running_engine_is_no_outcome(
    role: Role, postgres_lab: Lab
) -> None:
    """The run is released and tried again until the privilege is back; whoever waits hears why."""
    lab = postgres_lab
    engine = await started(lab, role)
    handle = await three.options(id="w", engine=engine).start()
    waiting = asyncio.ensure_future(handle.result())
    await eventually(lambda: effects["two"])
    await role.revoke("dbos.operation_outputs")
    gates["two"].set()
    with pytest.raises(Exception, match=r"permission denied for table operation_outputs"):
        await waiting
    row = await lab.until("w", WorkflowState.DELAYED)
    assert (row["recovery_attempts"], row["owner_xid"]) == (1, None)
    assert await lab.history("w") == [(1, "effect")]
    await role.grant("dbos.operation_outputs")
    lab.clock.leap(RELEASED_S)
    row = await lab.until("w")
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 2)
    assert await lab.output("w") == '"one two three"'
    assert effects == {"one": 1, "two": 2, "three": 1}, "only what could not be recorded repeats"


async def test_an_engine_that_may_do_nothing_more_goes_on_when_it_may_again(
    role: Role, postgres_lab: Lab
) -> None:
    """Not even the lease can be renewed; nothing is stuck, and nothing failed."""
    lab = postgres_lab
    engine = await started(lab, role)
    await naps.options(id="n", engine=engine).start()
    await lab.until_asleep(DAY - 1)
    handle = await three.options(id="w", engine=engine).start()
    waiting = asyncio.ensure_future(handle.result())
    await eventually(lambda: effects["two"])
    for schema in ("dbos", "perdure"):
        await role.revoke(f"ALL TABLES IN SCHEMA {schema}")
    gates["two"].set()
    with pytest.raises(Exception, match=r"permission denied|no outcome yet"):
        await waiting
    assert await lab.state("w") == "PENDING"
    for schema in ("dbos", "perdure"):
        await role.grant(f"ALL TABLES IN SCHEMA {schema}")
    row = await lab.until("w")
    assert (row["status"], await lab.output("w")) == ("SUCCESS", '"one two three"')
    assert effects["one"] == 1
    await lab.until("n", WorkflowState.PENDING)
    lab.clock.leap(DAY)
    assert (await lab.until("n"))["status"] == "SUCCESS"


async def test_a_start_that_is_refused_says_so_at_once(role: Role, postgres_lab: Lab) -> None:
    lab = postgres_lab
    engine = await started(lab, role)
    await role.revoke("dbos.workflow_status")
    with pytest.raises(DatabaseRejected, match="permission denied for table workflow_status"):
        await three.options(id="w", engine=engine).start()
    await role.grant("dbos.workflow_status")
    assert await lab.find("w") is None


async def is_started(engine: Engine) -> bool:
    """Whether it could be: some statement of a start may take a busy machine longer than it may."""
    with suppress(DatabaseUnavailable):
        await engine.start()
    return engine.is_running


@pytest.mark.parametrize("table", ["operation_outputs", "workflow_status", "workflow_output"])
async def test_a_lock_that_outlasts_the_statement_timeout_delays_a_run(
    postgres_lab: Lab, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """The statement is given up and tried again, until the lock is gone; the effect is not."""
    lab = postgres_lab
    monkeypatch.setattr(
        engine_module,
        "build_store",
        lambda config, clock: lab.wrap(build_store(config.url, config.name, clock, deadline_s=0.3)),
    )
    engine = lab.built(three)
    await eventually(lambda: is_started(engine))
    handle = await three.options(id="w").start()
    waiting = asyncio.ensure_future(handle.result())
    await eventually(lambda: effects["two"])
    method = "finish" if table == "workflow_output" else "record"
    tries = lab.store.counts[method]
    lock = f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"
    async with lab.backdoor.transaction(lock):  # type: ignore[attr-defined]
        gates["two"].set()
        await eventually(lambda: lab.store.counts[method] >= tries + 3)
        assert not waiting.done()
    assert await waiting == "one two three"
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 1)
    assert row["executor_id"] == engine.executor_id
    assert effects == {"one": 1, "two": 1, "three": 1}


async def test_sessions_ended_all_through_a_recovery_leave_no_run_behind(
    postgres_lab: Lab,
) -> None:
    """Takeover, claim, history, records: whatever is under way, it is done again and once."""
    lab, ids = postgres_lab, [f"w{number}" for number in range(30)]
    doomed = await lab.start(three)
    for each in ids:
        await three.options(id=each, engine=doomed).start()
    await eventually(lambda: effects["two"] == len(ids))
    await crash(doomed)
    gates["two"].set()
    # It loses its own sessions, and judges nobody for a lease period after each time.
    engine = await lab.start(three, lease=0.3)
    waiting = asyncio.ensure_future(asyncio.gather(*(engine.handle(each, three) for each in ids)))
    ended = 0
    while not waiting.done():
        (found,) = await lab.rows(
            "SELECT count(pg_terminate_backend(pid)) AS n FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        ended += found["n"]
        await asyncio.wait([waiting], timeout=0.05)
        if ended > 40:
            break
    assert await waiting == ["one two three"] * len(ids)
    rows = await lab.rows("SELECT DISTINCT recovery_attempts AS n FROM workflow_status")
    assert [row["n"] for row in rows] == [2]
    assert effects == {"one": 30, "two": 60, "three": 30}


async def test_the_end_of_a_heartbeat_s_session_takes_nothing_from_a_living_process(
    postgres_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is free at once, so the session is made anew at once, not at its next heartbeat: who
    looks twice does not see the lock free both times."""
    lab = postgres_lab
    convicted = noted_convictions(monkeypatch)
    living = await lab.start(naps, heartbeat=1_000, lease=10_000)
    other = await lab.start(naps, heartbeat=1_000, lease=10_000)
    before = living.executor_id
    await naps.options(id="n", engine=living).start()
    lease = "FROM leases WHERE boot_id = ?", str(before).rpartition("/")[2]
    for _ in range(8):
        ended = await lab.rows(
            f"SELECT backend_pid, pg_terminate_backend(backend_pid) AS ended {lease[0]}", lease[1]
        )
        assert [row["ended"] for row in ended] == [True]
        await look_around(other)

        async def is_anew(pid: int = ended[0]["backend_pid"]) -> bool:
            (row,) = await lab.rows(f"SELECT backend_pid {lease[0]}", lease[1])
            return row["backend_pid"] not in (None, pid)

        await eventually(is_anew)
        await look_around(other)
        await look_around(other)
    row = await lab.status("n")
    assert (row["status"], row["executor_id"], row["recovery_attempts"]) == ("PENDING", before, 1)
    assert living.executor_id == before
    assert convicted == []


def noted_convictions(monkeypatch: pytest.MonkeyPatch) -> list[LeaseSeen]:
    """Whom any process takes for dead from now on."""
    convicted: list[LeaseSeen] = []
    consider = Judge.consider

    def noting(self: Judge, beat: Beat, at_s: float) -> list[LeaseSeen]:
        dead = consider(self, beat, at_s)
        convicted.extend(dead)
        return dead

    monkeypatch.setattr(Judge, "consider", noting)
    return convicted


async def look_around(engine: Engine) -> None:
    """Let its next heartbeat come now, and wait until it was heard."""
    kernel, heard = engine.kernel, asyncio.Event()
    on_beat = kernel.on_beat

    def hearing(beat: Beat, trip: Trip) -> None:
        on_beat(beat, trip)
        heard.set()

    kernel.on_beat = hearing  # type: ignore[method-assign]
    heartbeat: Any = kernel._heartbeat  # noqa: SLF001 - nobody else wakes it
    heartbeat._thread_loop.call_soon_threadsafe(heartbeat._wake.set)  # noqa: SLF001 - as above
    await heard.wait()
    kernel.on_beat = on_beat  # type: ignore[method-assign]
