"""Engines under test: started on each kind of store, looked at from behind their backs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest

from perdure import Engine, WorkflowHandle, WorkflowState
from perdure.api import engine as engine_module
from perdure.api.workflow import Workflow
from perdure.logic import endings
from perdure.logic.retry import Backoff
from perdure.ports.clock import Clock
from perdure.ports.store import Store
from tests.support.backdoor import (
    SQLITE_PREFIX,
    Backdoor,
    MemoryBackdoor,
    PostgresBackdoor,
    Row,
    SqliteBackdoor,
    connect_file,
)
from tests.support.behind import BehindBacks
from tests.support.database import Database
from tests.support.leaps import LeapClock, SteadyIds
from tests.support.waiting import eventually
from tests.support.watched import WatchedStore


class Lab(BehindBacks):
    """A database, the engines a test starts on it, and a way in behind their backs.

    Engines beat fast and stop without grace. Time is real, plus what `clock` is told to leap over.
    Every store is wrapped in a `WatchedStore`; the newest one is `store`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.kind = "postgres" if url.startswith("postgres") else url.split(":", maxsplit=1)[0]
        self.clock = LeapClock()
        self.ids = SteadyIds()
        self.engines: list[Engine] = []
        self.stores: list[WatchedStore] = []
        self._backdoor: Backdoor | None = None

    @property
    def store(self) -> WatchedStore:
        """The store of the engine started last."""
        return self.stores[-1]

    @property
    def engine(self) -> Engine:
        """The engine started last."""
        return self.engines[-1]

    def built(self, *workflows: Workflow[..., Any], **options: Any) -> Engine:
        """An engine that runs these workflows, not started yet."""
        settings: dict[str, Any] = {
            "heartbeat": 0.1,
            "grace": 0.0,
            "stall": 1e9,
            "clock": self.clock,
            "ids": self.ids,
            **options,
        }
        engine = Engine(self.url, workflows=workflows, **settings)
        self.engines.append(engine)
        return engine

    async def start(self, *workflows: Workflow[..., Any], **options: Any) -> Engine:
        """The same, started; it is stopped at the end of the test."""
        engine = self.built(*workflows, **options)
        await engine.start()
        return engine

    def wrap(self, store: Store) -> WatchedStore:
        """Watch a store that an engine is about to use."""
        self.stores.append(WatchedStore(store))
        return self.stores[-1]

    @property
    def backdoor(self) -> Backdoor:
        """Plain SQL on the database."""
        if self._backdoor is None:
            if self.kind == "postgres":
                self._backdoor = PostgresBackdoor(self.url, ("dbos", "perdure"))
            elif self.kind == "sqlite":
                path = self.url.removeprefix(SQLITE_PREFIX)
                self._backdoor = SqliteBackdoor(lambda: connect_file(path))
            else:
                self._backdoor = MemoryBackdoor(lambda: self.stores[0].inner)
        return self._backdoor

    async def close(self) -> None:
        """Stop what was started and give every connection up."""
        for engine in reversed(self.engines):
            await engine.stop()
        if self._backdoor is not None:
            await self._backdoor.close()

    async def until(self, workflow_id: str, *states: WorkflowState) -> Row:
        """The workflow's row once it is in one of the states, by default a terminal one."""

        def is_there(row: Row) -> bool:
            state = WorkflowState(row["status"])
            return state in states if states else state.is_terminal

        return await self._seen(workflow_id, is_there)

    async def rerun(self, workflow_id: str) -> Row:
        """Let the workflow be claimed and executed again on its history, up to its end."""
        attempts = (await self.status(workflow_id))["recovery_attempts"]
        await self.hand_back(workflow_id)

        def is_over(row: Row) -> bool:
            over = row["status"] in TERMINAL or row["status"] == "DELAYED"
            return over and row["recovery_attempts"] > attempts

        return await self._seen(workflow_id, is_over)

    async def _seen(self, workflow_id: str, is_wanted: Callable[[Row], bool]) -> Row:
        """The workflow's row as it was when it was first seen to be so: it may not stay so."""
        found: list[Row] = []

        async def look() -> bool:
            row = await self.find(workflow_id)
            if row is not None and is_wanted(row):
                found.append(row)
            return bool(found)

        await eventually(look)
        return found[0]

    async def until_attempts(self, workflow_id: str, attempts: int) -> None:
        """Wait until the workflow was begun that many times."""

        async def begun() -> bool:
            return int((await self.status(workflow_id))["recovery_attempts"]) >= attempts

        await eventually(begun)

    async def replace(self, *workflows: Workflow[..., Any]) -> None:
        """Deploy other code: the newest engine runs these workflows instead.

        On a database in memory, which a restart would lose, its registry is exchanged.
        """
        if self.kind == "memory":
            registry = self.engine.kernel.registry
            registry._by_key.clear()  # noqa: SLF001 - see above
            registry.register([each.definition for each in workflows])
            return
        await self.engine.stop()
        await self.start(*workflows)

    async def until_asleep(self, at_least: float) -> None:
        """Wait until somebody sleeps on the clock for about that many seconds, or more."""
        await eventually(lambda: self.clock.sleepers(at_least))

    async def until_asleep_for(self, least: float, most: float) -> None:
        """Wait until somebody sleeps on the clock for a time in that range of seconds."""
        await eventually(lambda: [each for each in self.clock.sleepers() if least <= each <= most])

    async def until_queues_are_read(self) -> None:
        """Wait until the newest engine has read the queues, as its first heartbeat tells it to."""
        queues = self.engine.kernel.queues
        # It reads them at its start too, before a late heartbeat is there.
        await eventually(lambda: queues._digest and not queues.is_stale)  # noqa: SLF001 - of a heartbeat

    async def until_nothing_runs(self) -> None:
        """Wait until the newest engine executes nothing."""
        runs = self.engine.kernel.runner.runs
        await eventually(lambda: not runs)


RELEASED_S = 600.0

TERMINAL = {"SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"}


async def open_lab(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lab]:
    """A lab on that database; whatever it started is stopped at the end."""
    lab = Lab(url)
    build: Callable[[Any, Clock], Store] = engine_module.build_store
    monkeypatch.setattr(
        engine_module, "build_store", lambda config, clock: lab.wrap(build(config, clock))
    )
    try:
        yield lab
    finally:
        await lab.close()


@pytest.fixture(params=["sqlite", "memory", "postgres"])
async def lab(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Lab]:
    """A lab on each kind of store."""
    async for each in open_lab(_url(request), monkeypatch):
        yield each


@pytest.fixture(params=["sqlite", "postgres"])
async def shared_lab(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Lab]:
    """A lab on each store that outlives an engine and that several can share."""
    async for each in open_lab(_url(request), monkeypatch):
        yield each


def _url(request: pytest.FixtureRequest) -> str:
    """An empty database whose schema is made, which is what takes time."""
    database: Database = request.getfixturevalue(f"{request.param}_database")
    return database.url


@pytest.fixture
async def postgres_lab(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Lab]:
    """A lab on Postgres, for what SQLite has not: connections to count and cut, roles, peers."""
    async for each in open_lab(postgres_database.url, monkeypatch):
        yield each


@pytest.fixture
async def memory_lab(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lab]:
    """A lab in memory, for what does not depend on the store."""
    async for each in open_lab("memory:", monkeypatch):
        yield each


@pytest.fixture
def long_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is released stays DELAYED until `RELEASED_S` were leapt over; else it would for a
    second, in which a test on a busy machine may not get to look."""
    backoff = Backoff(first_s=RELEASED_S, rate=1.0, cap_s=RELEASED_S)
    monkeypatch.setattr(endings, "RELEASED", backoff)


def handles(*given: WorkflowHandle[Any]) -> list[str]:
    """The ids the handles refer to."""
    return [handle.workflow_id for handle in given]


async def settle(turns: int = 5) -> None:
    """Let everything that is ready on the loop run."""
    for _ in range(turns):
        await asyncio.sleep(0)


def names(history: Iterable[tuple[int, str]]) -> list[str]:
    """The names in a history."""
    return [name for _, name in history]


def our_threads() -> set[str]:
    """The names of the threads that engines and stores of this process run."""
    return {each.name for each in threading.enumerate() if each.name.startswith("perdure")}
