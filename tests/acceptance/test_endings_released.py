"""Every ending of a run that gives it back: the row, the attempt, who hears what, who goes on.

One test for each such line of the table in `perdure.logic.endings`.
"""

from __future__ import annotations

import asyncio
import base64
import pickle
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from perdure import Engine, UnexpectedStep, WorkflowState, sleep, step, workflow
from perdure.api.workflow import Workflow
from perdure.errors import (
    DatabaseRejected,
    ForeignCancellation,
    FormatUnavailable,
    WorkflowError,
)
from tests.support.engines import Lab
from tests.support.loops import run_apart
from tests.support.watched import Gate
from tests.support.workflows import look

DAY = 86_400

ran: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def fresh_counter() -> None:
    ran.clear()


@step(name="first")
async def first() -> str:
    ran["first"] += 1
    return "one"


@step(name="second")
async def second() -> str:
    ran["second"] += 1
    return "two"


@workflow(name="works")
async def works() -> str:
    return f"{await first()} {await second()}"


class Strange(BaseException):
    """Neither an exception that is an outcome nor one that ends a process."""


def kept(lab: Lab) -> Gate:
    """What the newest engine gives back stays so until this is opened, however slow the machine."""
    return lab.store.hold("sweep")


async def assert_released(lab: Lab, workflow_id: str, attempts: int) -> None:
    """The row is nobody's and waits on the internal queue, longer after each attempt."""
    row = await lab.status(workflow_id)
    assert (row["status"], row["recovery_attempts"]) == ("DELAYED", attempts)
    assert (row["owner_xid"], row["started_at_epoch_ms"], row["completed_at"]) == (None,) * 3
    assert row["queue_name"] == "_perdure_internal_queue"
    assert str(row["executor_id"]).startswith("local/boot-")
    assert row["delay_until_epoch_ms"] - row["updated_at"] == 1000 * 2 ** (attempts - 1)
    outcomes = "SELECT * FROM workflow_output WHERE workflow_uuid = ?"
    assert await lab.rows(outcomes, workflow_id) == []


async def assert_goes_on(
    lab: Lab, gate: Gate, workflow_id: str, attempts: int, *fixed: Workflow[..., Any]
) -> None:
    """It is tried again when it is due, not before, and counts; with the fault gone it ends well.

    `gate` keeps it; `fixed` is what a next deployment runs.
    """
    await assert_released(lab, workflow_id, attempts)
    next_gate = kept(lab)
    lab.clock.leap(2**attempts)
    gate.open()
    await lab.until_attempts(workflow_id, attempts + 1)
    await lab.until(workflow_id, WorkflowState.DELAYED)
    await assert_released(lab, workflow_id, attempts + 1)
    await lab.until_nothing_runs()
    await lab.replace(*fixed)
    lab.clock.leap(2 ** (attempts + 1))
    next_gate.open()
    row = await lab.until(workflow_id)
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", attempts + 2)
    assert await lab.output(workflow_id) == '"one two"'
    assert ran["first"] == 1


async def test_a_format_not_enabled_here_releases_the_run(shared_lab: Lab) -> None:
    """The waiter hears the remedy, and an engine that has it goes on."""
    lab = shared_lab

    @workflow(name="greets")
    async def greets(name: str) -> str:
        return f"hello {name}"

    engine = await lab.start(greets)
    kept(lab)
    await greets.options(id="w")("nobody")
    pickled = base64.b64encode(pickle.dumps({"args": ("Ada",), "kwargs": {}}, 4)).decode()
    await lab.backdoor.run("UPDATE workflow_status SET serialization = 'py_pickle'")
    await lab.backdoor.run("UPDATE workflow_input SET inputs = ?", pickled)
    await lab.hand_back("w")
    with pytest.raises(FormatUnavailable, match=r"Engine\(\.\.\., unpickle=True\)"):
        await engine.handle("w")
    await assert_released(lab, "w", attempts=2)
    await engine.stop()
    reader = await lab.start(greets, unpickle=True)
    lab.clock.leap(3)
    row = await lab.until("w")
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 3)
    assert await reader.handle("w") == "hello Ada"


@pytest.mark.parametrize("column", ["output", "error"])
async def test_a_record_in_a_format_not_enabled_here_releases_the_run(
    shared_lab: Lab, column: str
) -> None:
    """A replay must not go another way than the first run because it cannot read what happened."""
    lab = shared_lab

    @step(name="fetch")
    async def fetch() -> str:
        ran["fetch"] += 1
        return "fetched"

    @workflow(name="fetches")
    async def fetches() -> str:
        try:
            return await fetch()
        except LookupError as error:
            return f"missing {error.args[0]}"

    engine = await lab.start(fetches)
    kept(lab)
    await fetches.options(id="w")()
    recorded = "found" if column == "output" else LookupError("page")
    text = base64.b64encode(pickle.dumps(recorded, 4)).decode()
    await lab.backdoor.run("UPDATE operation_outputs SET output = NULL")
    await lab.backdoor.run(
        f"UPDATE operation_outputs SET {column} = ?, serialization = 'py_pickle'", text
    )
    await lab.hand_back("w")
    with pytest.raises(UnexpectedStep, match=r"step 1 cannot be read: .*unpickle=True"):
        await engine.handle("w")
    await assert_released(lab, "w", attempts=2)
    await engine.stop()
    reader = await lab.start(fetches, unpickle=True)
    lab.clock.leap(3)
    assert await reader.handle("w") == ("found" if column == "output" else "missing page")
    assert ran["fetch"] == 1


async def test_a_format_of_another_language_releases_the_run(memory_lab: Lab) -> None:
    engine = await memory_lab.start(works)
    kept(memory_lab)
    await works.options(id="w")()
    await memory_lab.backdoor.run("UPDATE workflow_status SET serialization = 'js_superjson'")
    await memory_lab.hand_back("w")
    with pytest.raises(FormatUnavailable, match="knows no format 'js_superjson'"):
        await engine.handle("w")
    await assert_released(memory_lab, "w", attempts=2)


async def test_a_history_the_code_does_not_match_releases_the_run(lab: Lab) -> None:
    """The error names what the code calls and what is recorded; matching code goes on."""

    @workflow(name="works")
    async def changed() -> str:
        return f"{await second()} {await first()}"

    @workflow(name="works")
    async def paused() -> str:
        await first()
        await sleep(DAY)
        return "never"

    await lab.start(paused)
    await paused.options(id="w").start()
    await lab.until_asleep(DAY - 1)
    await lab.cut("w", 2)
    await lab.replace(changed)
    gate = kept(lab)
    waiting = asyncio.ensure_future(lab.engine.handle("w").result())
    if lab.kind == "memory":
        # Elsewhere the process that was replaced gave it back.
        await lab.hand_back("w")
    with pytest.raises(UnexpectedStep, match="the code calls 'second' but recorded is 'first'"):
        await waiting
    attempts = (await lab.status("w"))["recovery_attempts"]
    assert ran["second"] == 0, "nothing runs in the place of a recorded step"
    await assert_goes_on(lab, gate, "w", attempts, works)


async def test_a_body_that_swallows_a_mismatch_is_released_all_the_same(memory_lab: Lab) -> None:
    @workflow(name="works")
    async def swallows() -> str:
        for each in (second, look):
            with suppress(UnexpectedStep):
                await each()
        return "all is well"

    await memory_lab.start(works)
    kept(memory_lab)
    await works.options(id="w")()
    await memory_lab.replace(swallows)
    await memory_lab.hand_back("w")
    with pytest.raises(UnexpectedStep):
        await memory_lab.engine.handle("w")
    await assert_released(memory_lab, "w", attempts=2)


async def test_a_durable_call_cancelled_from_outside_releases_the_run(lab: Lab) -> None:
    """The body cannot go on from a decision that no replay would know of."""

    @step(name="second")
    async def endless() -> str:
        await asyncio.Event().wait()
        return "never"

    @workflow(name="works")
    async def impatient() -> str:
        await first()
        try:
            async with asyncio.timeout(0.01):
                return await endless()
        except TimeoutError:
            return await look() or "looked instead"

    await lab.start(impatient)
    gate = kept(lab)
    with pytest.raises(ForeignCancellation, match=r"asyncio\.timeout"):
        await impatient.options(id="w")()
    assert await lab.history("w") == [(1, "first")]
    await assert_goes_on(lab, gate, "w", 1, works)


async def test_a_base_exception_of_its_own_releases_the_run(lab: Lab) -> None:
    @workflow(name="works")
    async def odd() -> str:
        await first()
        raise Strange

    await lab.start(odd)
    gate = kept(lab)
    with pytest.raises(Strange):
        await odd.options(id="w")()
    await assert_goes_on(lab, gate, "w", 1, works)


async def test_an_exit_and_an_interruption_of_the_process_release_the_run(
    shared_lab: Lab,
) -> None:
    """Both end the process they happened in; only the exit counts, and the next one goes on."""
    lab = shared_lab
    ends: list[BaseException] = [KeyboardInterrupt(), SystemExit(3)]

    @workflow(name="works")
    async def leaves() -> str:
        await first()
        raise ends[0]

    async def program() -> None:
        async with Engine(lab.url, workflows=[leaves], heartbeat=0.1) as engine:
            if isinstance(ends[0], KeyboardInterrupt):
                # What it gives back it must not take again before it has ended.
                await engine.kernel._dispatcher.stop()  # noqa: SLF001 - nothing else claims
            await leaves.options(id="w", engine=engine).start()
            await engine.handle("w")

    assert await run_apart(program) is ends.pop(0)
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"], row["owner_xid"]) == ("ENQUEUED", 0, None)
    assert (row["queue_name"], row["delay_until_epoch_ms"]) == ("_perdure_internal_queue", None)
    assert await run_apart(program) is ends.pop(0)
    await assert_released(lab, "w", attempts=1)
    await lab.start(works)
    lab.clock.leap(2)
    assert (await lab.until("w"))["recovery_attempts"] == 2
    assert await lab.output("w") == '"one two"'
    assert ran["first"] == 1


@pytest.mark.parametrize("method", ["record", "finish"])
@pytest.mark.parametrize(
    "fault",
    [RuntimeError("a bug of ours"), DatabaseRejected("no such column")],
    ids=["bug", "rejected"],
)
async def test_a_fault_of_the_engine_releases_the_run(
    lab: Lab, method: str, fault: Exception
) -> None:
    """It is nobody's outcome, whichever write it befalls, and whoever waits hears what it was."""
    await lab.start(works)
    gate = kept(lab)
    lab.store.fail(method, fault)
    with pytest.raises(Exception, match=str(fault)):
        await works.options(id="w")()
    await assert_released(lab, "w", attempts=1)
    recorded = await lab.history("w")
    lab.clock.leap(2)
    gate.open()
    row = await lab.until("w")
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 2)
    assert await lab.output("w") == '"one two"'
    assert ran == {"first": 2 if recorded == [] else 1, "second": 1}


async def test_a_fault_that_a_body_swallows_releases_the_run_all_the_same(
    memory_lab: Lab,
) -> None:
    @workflow(name="works")
    async def swallows() -> str:
        with suppress(Exception):
            await first()
        return "all is well"

    await memory_lab.start(swallows)
    kept(memory_lab)
    memory_lab.store.fail("record", RuntimeError("a bug of ours"))
    with pytest.raises(WorkflowError, match="a bug of ours"):
        await swallows.options(id="w")()
    await assert_released(memory_lab, "w", attempts=1)


async def test_a_release_that_is_refused_leaves_the_row_to_the_self_check(lab: Lab) -> None:
    """Nothing could be written; the process finds the row in its name and gives it back."""
    await lab.start(works, lease=0.3)
    for method in ("record", "release"):
        lab.store.fail(method, DatabaseRejected("permission denied"))
    with pytest.raises(Exception, match=r"permission denied|no outcome yet"):
        await works.options(id="w")()
    row = await lab.until("w")
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 2)
    assert ran == {"first": 2, "second": 1}
