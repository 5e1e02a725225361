"""What a parent records of its children, and what a replay makes of it."""

from __future__ import annotations

import asyncio
import json

import pytest

from perdure import (
    AwaitedWorkflowCancelled,
    IdPolicy,
    RemoteError,
    WorkflowState,
    gather,
    run_step,
    step,
    workflow,
)
from perdure.errors import ConflictingWorkflow, RecoveryLimitExceeded, WorkflowIdInUse
from tests.support.engines import Lab
from tests.support.workflows import Spoilt, child, look

START, RESULT = "child", "DBOS.getResult"


class BaseTrouble(BaseException):
    """Not an outcome."""


async def test_a_recovered_parent_adopts_what_was_started_and_finished(lab: Lab) -> None:
    """Only the child without an outcome runs again; there are no new rows."""
    begun, gate, runs = asyncio.Event(), asyncio.Event(), []

    @workflow(name="counted")
    async def counted(word: str) -> str:
        runs.append(word)
        if word == "second":
            begun.set()
            await gate.wait()
        return word

    @workflow(name="three")
    async def three() -> list[str]:
        return [await counted(word) for word in ("first", "second", "third")]

    await lab.start(three, counted)
    await three.options(id="p").start()
    await begun.wait()
    await lab.hand_back("p")
    await lab.hand_back("p-3")
    await lab.until_attempts("p-3", 2)
    gate.set()
    assert (await lab.until("p"))["status"] == "SUCCESS"
    assert await lab.output("p") == '["first","second","third"]'
    assert runs == ["first", "second", "second", "third"]
    assert (await lab.count(), len(await lab.steps("p"))) == (4, 6)


async def test_awaiting_a_child_is_a_step_that_replays_without_the_childs_row(lab: Lab) -> None:
    """The recorded outcome, value or error, is used even if the child was deleted."""

    @workflow(name="reads")
    async def reads() -> list[str]:
        value = await child("fine")
        try:
            await child("fail")
        except Spoilt as error:
            return [value, str(error)]
        return []

    await lab.start(reads, child, errors=[Spoilt])
    first = await reads.options(id="p")()
    assert first == ["FINE", "as asked"]
    before = await lab.links("p")
    await lab.backdoor.run("DELETE FROM workflow_output WHERE workflow_uuid LIKE 'p-%'")
    await lab.backdoor.run("DELETE FROM workflow_status WHERE workflow_uuid LIKE 'p-%'")
    assert (await lab.rerun("p"))["status"] == "SUCCESS"
    assert json.loads(await lab.output("p") or "") == first
    assert await lab.links("p") == before
    assert await lab.count() == 1


async def test_a_failing_child_fails_its_parent_with_the_same_error(lab: Lab) -> None:
    """Uncaught it becomes the parent's outcome; where its class is unknown, a remote error."""

    @workflow(name="passes_on")
    async def passes_on() -> str:
        return await child("fail")

    await lab.start(passes_on, child, errors=[Spoilt])
    with pytest.raises(Spoilt, match="as asked"):
        await passes_on.options(id="p")()
    assert (await lab.error("p") or {})["name"] == "Spoilt"
    assert (await lab.error("p-1") or {})["name"] == "Spoilt"
    assert json.loads((await lab.steps("p"))[1]["error"])["name"] == "Spoilt"


async def test_a_cancelled_child_is_an_outcome_for_its_parent(lab: Lab) -> None:
    """It raises `AwaitedWorkflowCancelled`, recorded; the parent ends ERROR, not CANCELLED."""
    begun = asyncio.Event()

    @workflow(name="forever")
    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow(name="parent")
    async def parent() -> None:
        await forever()

    engine = await lab.start(parent, forever)
    handle = await parent.options(id="p").start()
    await begun.wait()
    await engine.handle("p-1").cancel()
    with pytest.raises(AwaitedWorkflowCancelled, match="'p-1' was cancelled"):
        await handle
    assert (await lab.state("p"), await lab.state("p-1")) == ("ERROR", "CANCELLED")
    assert json.loads((await lab.steps("p"))[1]["error"])["name"] == "AwaitedWorkflowCancelled"
    await lab.until_nothing_runs()
    assert (await lab.rerun("p"))["status"] == "ERROR"
    with pytest.raises(AwaitedWorkflowCancelled) as read:
        await engine.handle("p")
    assert read.value.workflow_id == "p-1"


async def test_a_dead_lettered_child_is_not_recorded_and_asked_about_again(lab: Lab) -> None:
    """The parent fails for now; once the child was resumed, a replay gets its value."""
    begun, gate = asyncio.Event(), asyncio.Event()

    @workflow(name="parked")
    async def parked() -> str:
        begun.set()
        await gate.wait()
        return "at last"

    @workflow(name="parent")
    async def parent() -> str:
        try:
            return await parked()
        except RecoveryLimitExceeded as error:
            return f"{error.workflow_id} {error.attempts}"

    await lab.start(parent, parked)
    handle = await parent.options(id="p").start()
    await begun.wait()
    await lab.backdoor.run(
        "UPDATE workflow_status SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', owner_xid = NULL,"
        " recovery_attempts = 3 WHERE workflow_uuid = 'p-1'"
    )
    assert await handle == "p-1 3"
    assert await lab.links("p") == [(1, "parked", "p-1")]
    gate.set()
    await lab.rerun("p-1")
    await lab.rerun("p")
    assert await lab.output("p") == '"at last"'


async def test_a_recorded_start_that_was_a_step_of_that_name_is_refused(lab: Lab) -> None:
    """No child is created; the run waits for code that matches."""

    @workflow(name="once_a_step")
    async def once_a_step() -> None:
        await run_step("child", look.fn)

    @workflow(name="once_a_step")
    async def now_a_child() -> None:
        await child("x")

    await lab.start(once_a_step)
    await once_a_step.options(id="p")()
    await lab.replace(now_a_child, child)
    row = await lab.rerun("p")
    assert (row["status"], await lab.output("p"), await lab.error("p")) == ("DELAYED", None, None)
    assert await lab.count() == 1


async def test_a_recorded_start_of_another_workflow_is_refused(memory_lab: Lab) -> None:
    """Neither child begins again; the code that started the recorded one can go on."""

    @workflow(name="other")
    async def other(word: str) -> str:
        return word

    @workflow(name="parent")
    async def starts_child() -> str:
        return await child("x")

    @workflow(name="parent")
    async def starts_other() -> str:
        return await other("x")

    await memory_lab.start(starts_child, child)
    await starts_child.options(id="p")()
    await memory_lab.replace(starts_other, other, child)
    assert (await memory_lab.rerun("p"))["status"] == "DELAYED"
    assert await memory_lab.count() == 2
    await memory_lab.replace(starts_child, child)
    await memory_lab.hand_back("p")
    assert await memory_lab.engine.handle("p") == "X"


async def test_a_recorded_step_that_was_a_start_of_that_name_is_refused(lab: Lab) -> None:
    """A start's row has no output, and must not be read as a step that returned None."""
    ran: list[int] = []

    @workflow(name="once_a_child")
    async def once_a_child() -> None:
        await child("x")

    @workflow(name="once_a_child")
    async def now_a_step() -> str:
        return str(await run_step("child", lambda: ran.append(1)))

    await lab.start(once_a_child, child)
    await once_a_child.options(id="p")()
    await lab.replace(now_a_step, child)
    row = await lab.rerun("p")
    assert (row["status"], await lab.output("p"), ran) == ("DELAYED", None, [])


async def test_awaiting_a_childs_handle_inside_a_step_is_covered_by_that_step(lab: Lab) -> None:
    """No row of its own: the step's row is the record."""

    @workflow(name="within")
    async def within() -> str:
        handle = await child.start("x")

        @step(name="waits")
        async def waits() -> str:
            return await handle

        return await waits()

    await lab.start(within, child)
    assert await within.options(id="p")() == "X"
    assert await lab.links("p") == [(1, START, "p-1"), (2, "waits", None)]


async def test_a_recorded_wait_for_another_workflow_is_refused_naming_both(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    """The ids of both stand in the error."""

    @workflow(name="waits")
    async def waits() -> str:
        first, second = await child.start("a"), await child.start("b")
        return await (second if switched else first)

    switched = False
    await lab.start(waits, child)
    await waits.options(id="p")()
    switched = True
    row = await lab.rerun("p")
    assert row["status"] == "DELAYED"
    assert "DBOS.getResult of p-2" in caplog.text
    assert "about workflow 'p-1'" in caplog.text


async def test_a_child_id_in_use_by_another_function_is_a_recorded_refusal(lab: Lab) -> None:
    """The refusal replays even when its cause is gone."""

    @workflow(name="other")
    async def other() -> None: ...

    @workflow(name="asks")
    async def asks() -> str:
        try:
            await child.options(id="taken").start("x")
        except ConflictingWorkflow as error:
            return f"{error.recorded} stands there"
        return "started"

    await lab.start(asks, other, child)
    await other.options(id="taken")()
    assert await asks.options(id="p")() == "other stands there"
    (row,) = await lab.steps("p")
    assert (row["function_id"], row["function_name"]) == (1, "child")
    assert (json.loads(row["error"])["name"], row["output"]) == ("ConflictingWorkflow", None)
    await lab.backdoor.run("DELETE FROM workflow_status WHERE workflow_uuid = 'taken'")
    assert (await lab.rerun("p"))["status"] == "SUCCESS"
    assert await lab.output("p") == '"other stands there"'
    assert await lab.find("taken") is None


async def test_a_child_id_that_must_be_new_is_a_recorded_refusal(lab: Lab) -> None:
    """And a replay of a start that was not refused is not refused by its own child."""

    @workflow(name="insists")
    async def insists() -> list[str]:
        answers = []
        for word in ("taken", "free"):
            asked = child.options(id=word, id_policy=IdPolicy.REJECT)
            try:
                answers.append(await asked(word))
            except WorkflowIdInUse as error:
                answers.append(type(error).__name__)
        return answers

    await lab.start(insists, child)
    await child.options(id="taken")("x")
    assert await insists.options(id="p")() == ["WorkflowIdInUse", "FREE"]
    assert (await lab.rerun("p"))["status"] == "SUCCESS"
    assert await lab.output("p") == '["WorkflowIdInUse","FREE"]'


async def test_a_child_whose_run_is_released_keeps_its_parent_waiting(lab: Lab) -> None:
    """What is no outcome of the child is none for its parent either."""
    failing = True

    @workflow(name="shaky")
    async def shaky() -> str:
        if failing:
            raise BaseTrouble
        return "recovered"

    @workflow(name="parent")
    async def parent() -> str:
        return await shaky()

    await lab.start(parent, shaky)
    handle = await parent.options(id="p").start()
    await lab.until("p-1", WorkflowState.DELAYED)
    failing = False
    lab.clock.leap(3_600)
    assert await handle == "recovered"
    assert (await lab.status("p"))["recovery_attempts"] == 1


async def test_a_shutdown_while_a_parent_waits_beside_other_work_is_no_outcome(
    shared_lab: Lab,
) -> None:
    """The interrupted wait is neither recorded nor raised as an error into the body."""
    begun, raised = asyncio.Event(), []

    @workflow(name="forever")
    async def forever() -> None:
        await asyncio.Event().wait()

    @step(name="busy")
    async def busy() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow(name="parent")
    async def parent() -> None:
        try:
            await gather(forever(), busy())
        except Exception as error:
            raised.append(error)
            raise

    engine = await shared_lab.start(parent, forever, grace=0.2)
    await parent.options(id="p").start()
    await begun.wait()
    await shared_lab.until("p-1", WorkflowState.PENDING)
    await engine.stop()
    assert raised == []
    assert (await shared_lab.state("p"), await shared_lab.state("p-1")) == ("ENQUEUED", "ENQUEUED")
    assert await shared_lab.links("p") == [(1, "forever", "p-1")]


async def test_an_error_of_a_child_unknown_here_is_a_remote_error(lab: Lab) -> None:
    """On the first run as on every replay."""

    class Hidden(Exception):
        pass

    @workflow(name="hides")
    async def hides() -> None:
        raise Hidden("inside")

    @workflow(name="catches")
    async def catches() -> str:
        try:
            await hides()
        except RemoteError as error:
            return f"{error.name}: {error.message}"
        return "nothing"

    await lab.start(catches, hides)
    assert await catches.options(id="p")() == "Hidden: inside"
    assert (await lab.rerun("p"))["status"] == "SUCCESS"
    assert await lab.output("p") == '"Hidden: inside"'
