"""Exceptions that are no outcome: they leave the run recoverable and go where they belong."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from typing import Any

import pytest

from perdure import (
    AwaitedWorkflowCancelled,
    Engine,
    WorkflowCancelled,
    WorkflowState,
    current,
    gather,
    sleep,
    step,
    workflow,
)
from perdure.api.workflow import Workflow
from tests.support.backdoor import SQLITE_PREFIX
from tests.support.database import SqliteDatabase
from tests.support.engines import RELEASED_S, Lab
from tests.support.leaps import LeapClock
from tests.support.workflows import calling, look


class Private(BaseException):
    """An exception of the application's own that is no `Exception`."""


def raising(error: type[BaseException], place: str) -> Workflow[[], Any]:
    """A workflow named `exits` whose second operation is left by the error, once."""
    failing = [error]

    def fail() -> None:
        if failing:
            raise failing.pop()

    steps = steps_left_by(fail)

    @workflow(name="exits")
    async def exits() -> Any:
        await look()
        if place == "body":
            fail()
            return "went on"
        return await steps[place]()

    return exits


def steps_left_by(fail: Callable[[], None]) -> dict[str, Callable[[], Any]]:
    """Steps that call `fail`, by where they do it."""

    def fail_the_first_attempt() -> None:
        if current().attempt == 1:
            raise ValueError("as steps do")

    def worth_another(_: BaseException) -> bool:
        fail()
        return True

    @step(name="async")
    async def in_loop() -> str:
        fail()
        return "went on"

    @step(name="thread")
    def in_thread() -> str:
        fail()
        return "went on"

    @step(name="retried", max_attempts=3, interval=0)
    async def retried() -> str:
        fail_the_first_attempt()
        fail()
        return "went on"

    @step(name="doubted", max_attempts=3, interval=0, retry_if=worth_another)
    async def doubted() -> str:
        fail_the_first_attempt()
        return "went on"

    return {
        "step": in_loop,
        "thread": in_thread,
        "second attempt": retried,
        "between attempts": doubted,
        "gather": lambda: gather(in_loop(), sleep(0.001)),
    }


PLACES = ["body", "step", "thread", "second attempt", "between attempts", "gather"]


@pytest.mark.usefixtures("long_release")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", [Private, GeneratorExit])
async def test_what_is_no_exception_is_never_recorded_and_the_run_goes_on(
    memory_lab: Lab, place: str, error: type[BaseException]
) -> None:
    """Whoever waits hears of it; the run is released, its attempt counted, and ends later."""
    exits = raising(error, place)
    await memory_lab.start(exits)
    handle = await exits.options(id="w").start()
    with pytest.raises(error):
        await handle
    row = await memory_lab.status("w")
    assert (row["status"], row["recovery_attempts"], row["owner_xid"]) == ("DELAYED", 1, None)
    recorded = [name for _, name in await memory_lab.history("w")]
    assert recorded in (["look"], ["look", "DBOS.sleep"])
    assert await memory_lab.rows("SELECT * FROM workflow_output") == []
    memory_lab.clock.leap(RELEASED_S)
    assert (await memory_lab.until("w"))["status"] == "SUCCESS"
    assert "went on" in (await memory_lab.output("w") or "")


@pytest.mark.usefixtures("long_release")
@pytest.mark.parametrize("error", [Private, GeneratorExit])
async def test_an_exit_in_the_back_off_itself_records_nothing(
    memory_lab: Lab, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row without output and error stands for the step that was waiting."""
    pauses: list[float] = []
    sleep_on = memory_lab.clock.sleep

    async def left(seconds: float) -> None:
        if seconds == BACK_OFF_S and not pauses:
            pauses.append(seconds)
            raise error
        await sleep_on(seconds)

    monkeypatch.setattr(memory_lab.clock, "sleep", left)

    @step(name="retried", max_attempts=3, interval=BACK_OFF_S, jitter=False)
    async def retried() -> str:
        if not pauses:
            raise ValueError("the first attempt fails as steps do")
        return "went on"

    calls = calling(retried)
    await memory_lab.start(calls)
    handle = await calls.options(id="w").start()
    with pytest.raises(error):
        await handle
    assert await memory_lab.steps("w") == []
    memory_lab.clock.leap(RELEASED_S)
    assert (await memory_lab.until("w"))["status"] == "SUCCESS"


BACK_OFF_S = 0.0123


def rows_of(database: SqliteDatabase, sql: str) -> list[Any]:
    connection = sqlite3.connect(database.url.removeprefix(SQLITE_PREFIX))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


async def run_it(
    url: str, exits: Workflow[[], Any], *others: Workflow[[], Any], later_s: float = 0.0
) -> Any:
    clock = LeapClock()
    clock.leap(later_s)
    workflows = [exits, *others]
    async with Engine(url, workflows=workflows, heartbeat=0.1, grace=30, clock=clock) as engine:
        if not later_s:
            # What it gives back it must not take again before it has ended.
            await engine.kernel._dispatcher.stop()  # noqa: SLF001 - nothing else claims
        for other in others:
            await other.options(id=other.name).start()
        await exits.options(id="w").start()
        return await engine.handle("w")


@pytest.mark.usefixtures("long_release")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("error", "state", "attempts"),
    [(SystemExit, "DELAYED", 1), (KeyboardInterrupt, "ENQUEUED", 0)],
)
def test_exits_of_the_process_release_the_run_and_reach_its_owner(
    sqlite_database: SqliteDatabase,
    place: str,
    error: type[BaseException],
    state: str,
    attempts: int,
) -> None:
    """`sys.exit` counts as an attempt, Ctrl-C does not; nothing is recorded for either."""
    exits = raising(error, place)
    with pytest.raises(error):
        asyncio.run(run_it(sqlite_database.url, exits))
    status = rows_of(
        sqlite_database,
        "SELECT status, recovery_attempts, owner_xid, queue_name FROM workflow_status",
    )
    assert status == [(state, attempts, None, "_perdure_internal_queue")]
    names = [
        name for (name,) in rows_of(sqlite_database, "SELECT function_name FROM operation_outputs")
    ]
    assert names in (["look"], ["look", "DBOS.sleep"])
    assert rows_of(sqlite_database, "SELECT * FROM workflow_output") == []
    again = run_it(sqlite_database.url, exits, later_s=RELEASED_S)
    assert "went on" in str(asyncio.run(again))


def test_an_exit_beside_a_sleeping_run_ends_the_process_at_once(
    sqlite_database: SqliteDatabase,
) -> None:
    """The other run is left recoverable; nobody waits out the grace time for it."""

    @workflow(name="sleeper")
    async def sleeper() -> None:
        await sleep(3_600)

    exits = raising(SystemExit, "step")
    began = time.monotonic()
    with pytest.raises(SystemExit):
        asyncio.run(run_it(sqlite_database.url, exits, sleeper))
    assert time.monotonic() - began < 15
    states = rows_of(
        sqlite_database, "SELECT status FROM workflow_status WHERE workflow_uuid = 'sleeper'"
    )
    assert states in ([("PENDING",)], [("ENQUEUED",)])


def test_an_exit_of_a_run_that_was_stopped_still_ends_the_process(
    sqlite_database: SqliteDatabase,
) -> None:
    """What decides the row's state is not what decides where the exit goes."""

    @workflow(name="cancels_itself")
    async def cancels_itself() -> None:
        try:
            await engines[0].handle("w").cancel()
        except WorkflowCancelled:
            raise SystemExit(3) from None

    engines: list[Engine] = []

    async def main() -> None:
        engines.append(Engine(sqlite_database.url, workflows=[cancels_itself], heartbeat=0.1))
        async with engines[0]:
            await cancels_itself.options(id="w")()
            await asyncio.Event().wait()

    with pytest.raises((SystemExit, AwaitedWorkflowCancelled)) as raised:
        asyncio.run(main())
    assert raised.type is SystemExit
    assert rows_of(sqlite_database, "SELECT status FROM workflow_status") == [("CANCELLED",)]


@pytest.mark.usefixtures("long_release")
@pytest.mark.parametrize("place", ["step", "thread"])
async def test_an_exit_waited_for_by_a_parent_is_not_the_parents(
    memory_lab: Lab, place: str
) -> None:
    """The parent keeps waiting for its child's outcome."""
    exits = raising(Private, place)

    @workflow(name="parent")
    async def parent() -> Any:
        return await exits()

    await memory_lab.start(parent, exits)
    handle = await parent.options(id="p").start()
    await memory_lab.until("p-1", WorkflowState.DELAYED)
    memory_lab.clock.leap(RELEASED_S)
    assert await handle.result(timeout=20) == "went on"
    assert (await memory_lab.status("p"))["recovery_attempts"] == 1


@pytest.mark.parametrize("threaded", [False, True], ids=["async", "thread"])
async def test_a_stop_iteration_is_a_failure_as_any_other(memory_lab: Lab, threaded: bool) -> None:
    """Python turns it into a `RuntimeError`; in a thread it must not leave the step hanging."""

    @step(name="empty")
    async def empty() -> int:
        return next(iter([]))

    @step(name="empty")
    def empty_in_thread() -> int:
        return next(iter([]))

    @workflow(name="asks")
    async def asks() -> str:
        try:
            await (empty_in_thread() if threaded else empty())
        except RuntimeError as error:
            return str(error)
        return "nothing"

    await memory_lab.start(asks)
    handle = await asks.options(id="w").start()
    assert "StopIteration" in await handle.result(timeout=10)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(empty_in_thread() if threaded else empty(), 10)
