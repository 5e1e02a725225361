"""A workflow's life as its rows show it: start, outcome, failure, and what is never an outcome."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from perdure import RemoteError, WorkflowState, step, workflow
from perdure.errors import (
    DatabaseUnavailable,
    InvalidArgument,
    NotRunning,
    UnserializableValue,
    WaitInterrupted,
)
from tests.support.engines import Lab, settle


class OutOfStock(Exception):
    """An application's own error, with fields."""

    def __init__(self, item: str, left: int) -> None:
        super().__init__(item, left)
        self.item = item
        self.left = left


@step(name="double")
async def double(number: int) -> int:
    return number * 2


@step(name="reserve")
async def reserve(item: str) -> None:
    raise OutOfStock(item, 2)


@workflow(name="twice")
async def twice(number: int) -> int:
    return await double(await double(number))


@workflow(name="nothing")
async def nothing() -> None:
    return None


@workflow(name="sell")
async def sell(item: str) -> None:
    raise OutOfStock(item, 2)


@workflow(name="reserve_and_sell")
async def reserve_and_sell(item: str) -> str:
    try:
        await reserve(item)
    except OutOfStock as error:
        return f"{error.item} {error.left}"
    return "sold"


async def test_a_workflow_runs_and_its_row_holds_all_about_it(lab: Lab) -> None:
    """Name, input, output, format, version, executor and SUCCESS stand in the row."""
    engine = await lab.start(twice, name="shop", version="v7", executor_id="worker")
    assert await (await twice.options(id="order-1").start(3)) == 12
    row = await lab.status("order-1")
    assert (row["status"], row["name"]) == ("SUCCESS", "twice")
    assert (row["class_name"], row["config_name"], row["queue_name"]) == (None, None, None)
    assert (row["application_name"], row["application_version"]) == ("shop", "v7")
    assert row["executor_id"] == engine.executor_id
    assert str(row["executor_id"]).startswith("worker/boot-")
    assert (row["serialization"], row["recovery_attempts"]) == ("portable_json", 1)
    assert row["creator_xid"] is not None
    assert row["owner_xid"] is None
    assert row["completed_at"] == row["updated_at"] >= row["created_at"]
    assert await lab.input("order-1") == '{"namedArgs":{},"positionalArgs":[3]}'
    assert await lab.output("order-1") == "12"


async def test_a_workflow_without_arguments_stores_empty_ones(lab: Lab) -> None:
    """No argument is an envelope without any, no result is JSON null."""
    await lab.start(nothing)
    assert await nothing.options(id="none")() is None
    assert await lab.input("none") == '{"namedArgs":{},"positionalArgs":[]}'
    assert await lab.output("none") == "null"


async def test_the_smallest_row_another_program_may_write_runs(lab: Lab) -> None:
    """No arguments, no application, no version: who serves the newest version runs it."""
    await lab.start(nothing)
    await lab.backdoor.run(
        "INSERT INTO workflow_status (workflow_uuid, status, name, queue_name, serialization)"
        " VALUES ('foreign', 'ENQUEUED', 'nothing', '_dbos_internal_queue', 'portable_json')"
    )
    row = await lab.until("foreign")
    assert (row["status"], row["application_name"], row["recovery_attempts"]) == (
        "SUCCESS",
        "app",
        1,
    )
    assert row["application_version"] == "app@default"


async def test_an_own_error_comes_back_as_itself_with_its_fields(lab: Lab) -> None:
    """An application's error is the same to the one who ran it and to one who reads the row."""
    engine = await lab.start(sell, errors=[OutOfStock])
    with pytest.raises(OutOfStock) as ran:
        await sell.options(id="s")("lamp")
    with pytest.raises(OutOfStock) as read:
        await engine.handle("s")
    for raised in (ran.value, read.value):
        assert (raised.item, raised.left, raised.args) == ("lamp", 2, ("lamp", 2))
    assert await lab.state("s") == "ERROR"
    envelope = await lab.error("s")
    assert envelope is not None
    assert envelope["name"] == "OutOfStock"


async def test_a_foreign_error_comes_back_as_a_remote_one(lab: Lab) -> None:
    """A class nobody here registered is not rebuilt: name and message come back."""

    class Unknown(Exception):
        pass

    @workflow(name="fails")
    async def fails() -> None:
        raise Unknown("of no use")

    await lab.start(fails)
    with pytest.raises(RemoteError, match="Unknown: of no use") as raised:
        await fails.options(id="f")()
    assert (raised.value.name, raised.value.message) == ("Unknown", "of no use")
    assert (await lab.error("f") or {})["message"] == "of no use"


async def test_a_database_failure_is_never_recorded_as_an_outcome(lab: Lab) -> None:
    """Trouble with a database that leaves the body releases the run, with back-off."""

    @workflow(name="unlucky")
    async def unlucky() -> None:
        raise DatabaseUnavailable("the other engine's database is away")

    await lab.start(unlucky)
    # However slow the machine, it is not tried again while this looks at it.
    lab.store.hold("sweep")
    with pytest.raises(DatabaseUnavailable):
        await unlucky.options(id="u")()
    row = await lab.status("u")
    assert (row["status"], row["recovery_attempts"], row["owner_xid"]) == ("DELAYED", 1, None)
    assert row["queue_name"] == "_perdure_internal_queue"
    assert row["delay_until_epoch_ms"] > row["updated_at"]
    assert await lab.rows("SELECT * FROM workflow_output") == []


async def test_steps_are_recorded_from_one_with_their_outputs(lab: Lab) -> None:
    """Each step has a row under its workflow: id from 1, name, output, times."""
    await lab.start(twice)
    await twice.options(id="w")(1)
    rows = await lab.steps("w")
    assert [(row["function_id"], row["function_name"], row["output"]) for row in rows] == [
        (1, "double", "2"),
        (2, "double", "4"),
    ]
    for row in rows:
        assert (row["error"], row["child_workflow_id"]) == (None, None)
        assert row["serialization"] == "portable_json"
        assert row["application_name"] == "app"
        assert 0 < row["started_at_epoch_ms"] <= row["completed_at_epoch_ms"]


async def test_a_steps_error_comes_back_as_itself(lab: Lab) -> None:
    """The body catches a step's own error with its fields, on the first run and on a replay."""
    await lab.start(reserve_and_sell, errors=[OutOfStock])
    assert await reserve_and_sell.options(id="r")("lamp") == "lamp 2"
    (row,) = await lab.steps("r")
    assert row["output"] is None
    assert json.loads(row["error"])["name"] == "OutOfStock"
    assert (await lab.rerun("r"))["status"] == "SUCCESS"
    assert await lab.output("r") == '"lamp 2"'


async def test_the_row_stands_before_the_body_begins(lab: Lab) -> None:
    """The body finds its own row PENDING, owned, with its input."""
    seen: dict[str, Any] = {}

    @workflow(name="looks")
    async def looks(word: str) -> None:
        seen.update(await lab.status("l"), input=await lab.input("l"))

    await lab.start(looks)
    await looks.options(id="l")("hi")
    assert (seen["status"], seen["recovery_attempts"]) == ("PENDING", 1)
    assert seen["owner_xid"] == seen["creator_xid"] is not None
    assert seen["input"] == '{"namedArgs":{},"positionalArgs":["hi"]}'


async def test_start_returns_while_the_run_is_pending(lab: Lab) -> None:
    """A handle comes back when the row is written, not when the body ends."""
    go = asyncio.Event()

    @workflow(name="waits")
    async def waits() -> str:
        await go.wait()
        return "done"

    await lab.start(waits)
    handle = await waits.start()
    assert (await handle.status()).state is WorkflowState.PENDING
    assert await lab.state(handle.workflow_id) == "PENDING"
    go.set()
    assert await handle == "done"


async def test_a_shutdown_interrupts_a_body_and_gives_its_attempt_back(shared_lab: Lab) -> None:
    """The caller hears that it was interrupted; the row waits in a queue, not counted."""
    begun = asyncio.Event()

    @workflow(name="endless")
    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    engine = await shared_lab.start(endless)
    handle = await endless.options(id="e").start()
    waiting = asyncio.ensure_future(handle.result())
    await begun.wait()
    await engine.stop()
    with pytest.raises(WaitInterrupted, match="goes on"):
        await waiting
    row = await shared_lab.status("e")
    assert (row["status"], row["recovery_attempts"], row["owner_xid"]) == ("ENQUEUED", 0, None)
    assert (row["queue_name"], row["started_at_epoch_ms"]) == ("_perdure_internal_queue", None)
    assert await shared_lab.rows("SELECT * FROM workflow_output") == []


async def test_a_cancelled_caller_does_not_stop_the_workflow(lab: Lab) -> None:
    """Whoever waits may go away: the workflow belongs to the engine."""
    begun, go = asyncio.Event(), asyncio.Event()

    @workflow(name="goes_on")
    async def goes_on() -> str:
        begun.set()
        await go.wait()
        return "done"

    await lab.start(goes_on)
    caller = asyncio.ensure_future(goes_on.options(id="g")())
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go.set()
    assert (await lab.until("g"))["status"] == "SUCCESS"


async def test_a_caller_cancelled_while_the_row_is_written_leaves_a_whole_workflow(
    lab: Lab,
) -> None:
    """A start once sent stands, whatever becomes of the one who asked for it."""
    await lab.start(twice)
    gate = lab.store.hold("start")
    caller = asyncio.ensure_future(twice.options(id="t").start(1))
    await gate.reached()
    caller.cancel()
    await settle()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert (await lab.until("t"))["status"] == "SUCCESS"
    assert await lab.output("t") == "4"


async def test_arguments_that_cannot_be_stored_or_do_not_fit_are_refused_before_any_row(
    lab: Lab,
) -> None:
    """Where the call is awaited, naming the path or the parameter."""
    wrong: Any
    await lab.start(twice, sell)
    for wrong in (object(), "text", {1}):
        with pytest.raises(UnserializableValue, match="number"):
            await twice(wrong)
    for wrong in ((), (1, 2)):
        with pytest.raises(InvalidArgument, match="workflow 'twice'"):
            await twice.start(*wrong)
    assert await lab.count() == 0


async def test_running_without_an_engine_is_refused() -> None:
    """The refusal names the workflow and says what to do."""
    with pytest.raises(NotRunning, match="'twice': no engine is running; use `async with Engine"):
        await twice(1)
    with pytest.raises(NotRunning, match=r"\.fn"):
        await twice.start(1)
    assert await nothing.fn() is None
