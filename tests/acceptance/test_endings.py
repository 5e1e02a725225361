"""Every ending of a run that leaves an outcome, or is somebody else's, and the row it leaves.

One test for each line of the table in `perdure.logic.endings`; those that give the run back are in
`test_endings_released.py`.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from perdure import (
    AwaitedWorkflowCancelled,
    RecoveryLimitExceeded,
    RemoteError,
    SerializationError,
    WorkflowState,
    sleep,
    workflow,
)
from perdure.api.workflow import Workflow
from perdure.errors import InvalidArgument, UndecodableValue, UnserializableValue
from tests.support.engines import Lab
from tests.support.workflows import look

DAY = 86_400


@workflow(name="answers")
async def answers(word: str) -> str:
    return word.upper()


@workflow(name="marker")
async def marker() -> None:
    """Its second run shows that the engine looked for work and claimed what there was."""


def returning(value: object) -> Workflow[[], Any]:
    """A workflow that returns it."""

    @workflow(name="returns")
    async def returns() -> Any:
        await look()
        return value

    return returns


def raising(error: BaseException) -> Workflow[[], Any]:
    """A workflow that raises it."""

    @workflow(name="raises")
    async def raises() -> None:
        await look()
        raise error

    return raises


async def assert_over(
    lab: Lab, workflow_id: str, state: str, *workflows: Workflow[..., Any], attempts: int = 1
) -> None:
    """The row is terminal and nobody's, and a next engine with this code never touches it."""
    row = await lab.status(workflow_id)
    assert (row["status"], row["recovery_attempts"], row["owner_xid"]) == (state, attempts, None)
    assert row["completed_at"] is not None
    assert row["completed_at"] == row["updated_at"]
    await lab.until_nothing_runs()
    await lab.replace(*workflows, marker)
    lab.clock.leap(DAY)
    await marker.options(id="marker", engine=lab.engine)()
    await lab.rerun("marker")
    assert await lab.status(workflow_id) == row


async def test_a_value_is_recorded(lab: Lab) -> None:
    await lab.start(answers)
    assert await answers.options(id="w")("yes") == "YES"
    assert await lab.output("w") == '"YES"'
    assert await lab.error("w") is None
    await assert_over(lab, "w", "SUCCESS", answers)


async def test_none_is_a_value_like_any_other(lab: Lab) -> None:
    gives_none = returning(None)
    await lab.start(gives_none)
    assert await gives_none.options(id="w")() is None
    assert await lab.output("w") == "null"
    await assert_over(lab, "w", "SUCCESS", gives_none)


async def test_what_cannot_be_stored_is_an_error_that_can(lab: Lab) -> None:
    """It says which value, and is never tried again: the code would return the same."""
    unstorable = returning(threading.Lock())
    engine = await lab.start(unstorable)
    with pytest.raises(UnserializableValue, match="result of 'returns'"):
        await unstorable.options(id="w")()
    with pytest.raises(UnserializableValue, match="result of 'returns'"):
        await engine.handle("w")
    envelope = await lab.error("w")
    assert envelope is not None
    assert envelope["name"] == "UnserializableValue"
    assert await lab.output("w") is None
    await assert_over(lab, "w", "ERROR", unstorable)


@pytest.mark.parametrize(
    "value",
    [object(), (each for each in ()), {1: "a number as key"}, float("nan"), "long" * 10_000],
    ids=["object", "generator", "key", "nan", "size"],
)
async def test_no_result_that_cannot_be_stored_leaves_a_run_behind(
    memory_lab: Lab, value: object
) -> None:
    unstorable = returning(value)
    await memory_lab.start(unstorable, max_value_bytes=30_000)
    with pytest.raises(SerializationError, match="result of 'returns'") as raised:
        await unstorable.options(id="w")()
    assert await memory_lab.state("w") == "ERROR"
    assert (await memory_lab.error("w") or {})["name"] == type(raised.value).__name__


async def test_an_exception_is_recorded(lab: Lab) -> None:
    fails = raising(LookupError("no such shelf"))
    engine = await lab.start(fails)
    with pytest.raises(LookupError, match="no such shelf"):
        await fails.options(id="w")()
    with pytest.raises(LookupError, match="no such shelf"):
        await engine.handle("w")
    assert (await lab.error("w") or {})["name"] == "LookupError"
    await assert_over(lab, "w", "ERROR", fails)


async def test_a_cancelled_error_nobody_asked_for_is_recorded(lab: Lab) -> None:
    """It comes back as a remote error, so that it cancels no one who waits."""
    stray = raising(asyncio.CancelledError("from a library"))
    await lab.start(stray)
    with pytest.raises(RemoteError, match="CancelledError"):
        await stray.options(id="w")()
    assert (await lab.error("w") or {})["name"] == "CancelledError"
    await assert_over(lab, "w", "ERROR", stray)


async def rewritten(lab: Lab, workflow_id: str, inputs: str | None) -> None:
    """Make the row an outsider's, with those inputs, to be claimed."""
    await lab.backdoor.run(
        "UPDATE workflow_input SET inputs = ? WHERE workflow_uuid = ?", inputs, workflow_id
    )
    await lab.hand_back(workflow_id)


async def test_arguments_that_cannot_be_read_are_an_error(lab: Lab) -> None:
    """The body never begins; a waiter hears at once which argument it is."""
    engine = await lab.start(answers)
    await answers.options(id="w")("first")
    await rewritten(lab, "w", '{"positionalArgs": [5]}')
    with pytest.raises(UndecodableValue, match="argument 'word'"):
        await engine.handle("w")
    assert (await lab.error("w") or {})["name"] == "UndecodableValue"
    assert await lab.output("w") is None
    await assert_over(lab, "w", "ERROR", answers, attempts=2)


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ("{", "answers"),
        ("[1, 2]", "object of arguments"),
        ('{"positionalArgs": [], "namedArgs": {}}', "word"),
        ('{"positionalArgs": ["a", "b"]}', "too many"),
        ('{"namedArgs": {"word": "a", "other": 1}}', "other"),
        ("gASVBAAAAAAAAABLBC4=", "answers"),
        (None, "word"),
    ],
    ids=["broken", "no envelope", "too few", "too many", "unknown", "pickle", "none"],
)
async def test_no_arguments_that_cannot_be_read_leave_a_run_behind(
    memory_lab: Lab, inputs: str | None, reason: str
) -> None:
    engine = await memory_lab.start(answers)
    await answers.options(id="w")("first")
    await rewritten(memory_lab, "w", inputs)
    with pytest.raises(UndecodableValue, match=reason):
        await engine.handle("w")
    assert await memory_lab.state("w") == "ERROR"


async def test_a_call_that_does_not_fit_is_refused_before_there_is_a_row(lab: Lab) -> None:
    await lab.start(answers)
    with pytest.raises(InvalidArgument, match="word"):
        await answers.options(id="w")()  # type: ignore[call-arg]
    assert await lab.find("w") is None


@workflow(name="naps")
async def naps() -> None:
    await sleep(DAY)


async def test_a_deadline_cancels(lab: Lab) -> None:
    """The row leaves its queue, and whoever waits hears that it was cancelled."""
    await lab.start(naps)
    handle = await naps.options(id="w", timeout=3_600).start()
    await lab.until_asleep(DAY - 1)
    lab.clock.leap(3_601)
    with pytest.raises(AwaitedWorkflowCancelled, match="'w' was cancelled"):
        await handle
    row = await lab.status("w")
    assert (row["queue_name"], row["started_at_epoch_ms"]) == (None, None)
    assert await lab.rows("SELECT * FROM workflow_output") == []
    await assert_over(lab, "w", "CANCELLED", naps)


@workflow(name="limited", max_recovery_attempts=2)
async def limited() -> str:
    await sleep(DAY)
    return "rested"


async def test_one_begin_too_many_sets_a_workflow_aside(lab: Lab) -> None:
    """A limit of 2 lets the body begin three times; the fourth claim gives it up.

    Whoever waits hears it at once, other workflows go on, and the row gives up its queue and its
    deduplication id.
    """
    engine = await lab.start(limited, answers)
    handle = await limited.options(id="w").start()
    waiting = asyncio.ensure_future(handle.result())
    for attempts in (2, 3):
        await lab.until_asleep(DAY - 1)
        await lab.hand_back("w")
        await lab.until_attempts("w", attempts)
    await lab.until_asleep(DAY - 1)
    await lab.backdoor.run("UPDATE workflow_status SET deduplication_id = 'only one'")
    await lab.hand_back("w")
    with pytest.raises(RecoveryLimitExceeded, match="find out what ends its process") as raised:
        await waiting
    assert (raised.value.workflow_id, raised.value.attempts) == ("w", 4)
    assert await answers.options(engine=engine)("on") == "ON"
    row = await lab.status("w")
    assert (row["queue_name"], row["deduplication_id"], row["started_at_epoch_ms"]) == (None,) * 3
    assert await lab.rows("SELECT * FROM workflow_output WHERE workflow_uuid = 'w'") == []
    await assert_over(lab, "w", "MAX_RECOVERY_ATTEMPTS_EXCEEDED", limited, attempts=4)


async def test_a_resume_lets_a_set_aside_workflow_begin_anew(lab: Lab) -> None:
    """As another SDK resumes: counter zero, on the internal queue that all share."""
    await lab.start(limited)
    await limited.options(id="w").start()
    await lab.until_asleep(DAY - 1)
    await lab.backdoor.run("UPDATE workflow_status SET recovery_attempts = 3")
    await lab.hand_back("w")
    await lab.until("w", WorkflowState.MAX_RECOVERY_ATTEMPTS_EXCEEDED)
    await lab.backdoor.run(
        "UPDATE workflow_status SET status = 'ENQUEUED', owner_xid = NULL, recovery_attempts = 0,"
        " queue_name = '_dbos_internal_queue', completed_at = NULL"
    )
    await lab.until_attempts("w", 1)
    lab.clock.leap(DAY + 1)
    assert await lab.engine.handle("w", limited) == "rested"


async def test_a_limit_of_zero_allows_one_begin(lab: Lab) -> None:
    @workflow(name="once", max_recovery_attempts=0)
    async def once() -> None:
        await sleep(DAY)

    await lab.start(once)
    await once.options(id="w").start()
    await lab.until_asleep(DAY - 1)
    await lab.hand_back("w")
    row = await lab.until("w")
    assert (row["status"], row["recovery_attempts"]) == ("MAX_RECOVERY_ATTEMPTS_EXCEEDED", 2)


async def test_a_row_cancelled_by_somebody_is_left_as_they_made_it(lab: Lab) -> None:
    await lab.start(naps)
    handle = await naps.options(id="w").start()
    waiting = asyncio.ensure_future(handle.result())
    await lab.until_asleep(DAY - 1)
    await lab.cancel_elsewhere("w")
    before = await lab.status("w")
    with pytest.raises(AwaitedWorkflowCancelled):
        await waiting
    await lab.until_nothing_runs()
    assert await lab.status("w") == before
    assert await lab.rows("SELECT * FROM workflow_output") == []


@pytest.mark.parametrize("raises", [False, True], ids=["returns", "raises"])
async def test_a_row_taken_over_and_ended_by_somebody_is_left_as_they_made_it(
    lab: Lab, raises: bool
) -> None:
    """The loser's own ending counts for nothing; its waiters get what the winner recorded."""
    begun, gate = asyncio.Event(), asyncio.Event()

    @workflow(name="waits")
    async def waits() -> str:
        begun.set()
        await gate.wait()
        if raises:
            raise RuntimeError("too late")
        return "too late"

    await lab.start(waits)
    handle = await waits.options(id="w").start()
    waiting = asyncio.ensure_future(handle.result())
    await begun.wait()
    await lab.backdoor.run(
        "INSERT INTO workflow_output (workflow_uuid, output, retention_timestamp)"
        " VALUES ('w', '\"in time\"', 1)"
    )
    await lab.backdoor.run(
        "UPDATE workflow_status SET status = 'SUCCESS', owner_xid = NULL, completed_at = 1"
    )
    before = await lab.status("w")
    gate.set()
    assert await waiting == "in time"
    await lab.until_nothing_runs()
    assert await lab.status("w") == before
    assert await lab.output("w") == '"in time"'
