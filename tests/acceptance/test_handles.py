"""Handles: join, observe, wait with a limit, and start under an id that is taken."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import (
    AwaitedWorkflowCancelled,
    IdPolicy,
    RecoveryLimitExceeded,
    WorkflowNotFound,
    WorkflowState,
    step,
    workflow,
)
from perdure.errors import ConflictingWorkflow, InvalidArgument, WorkflowIdInUse
from tests.support.engines import Lab
from tests.support.logged import logged
from tests.support.waiting import eventually


class Gone(Exception):
    """An application's own error."""


class Gated:
    """A workflow named `gated` that waits for a gate, and counts its executions."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.runs = 0

        @workflow(name="gated")
        async def gated(word: str) -> str:
            self.runs += 1
            await self.gate.wait()
            if word == "fail":
                raise Gone("as asked")
            return word

        self.workflow = gated


@pytest.fixture
def gated() -> Gated:
    return Gated()


async def test_starting_a_taken_id_joins_the_run_in_progress(lab: Lab, gated: Gated) -> None:
    """Both callers get the one answer; there is one execution and one row."""
    await lab.start(gated.workflow)
    first = await gated.workflow.options(id="g").start("first")
    second = await gated.workflow.options(id="g").start("second")
    waits = [asyncio.ensure_future(handle.result()) for handle in (first, second)]
    gated.gate.set()
    assert await asyncio.gather(*waits) == ["first", "first"]
    assert (gated.runs, await lab.count()) == (1, 1)
    assert await gated.workflow.options(id="g")("third") == "first"
    assert (gated.runs, (await lab.status("g"))["recovery_attempts"]) == (1, 1)


async def test_fifty_starts_of_one_id_at_the_same_moment_run_the_body_once(
    lab: Lab, gated: Gated
) -> None:
    """All callers get the same result."""
    await lab.start(gated.workflow)
    gated.gate.set()
    calls = (gated.workflow.options(id="g")(f"caller {number}") for number in range(50))
    answers = await asyncio.gather(*calls)
    assert len(set(answers)) == 1
    assert (gated.runs, await lab.count()) == (1, 1)


async def test_two_processes_starting_one_id_at_the_same_moment_run_the_body_once(
    shared_lab: Lab, gated: Gated
) -> None:
    """Whoever comes second waits for the first one's outcome."""
    gated.gate.set()
    one = await shared_lab.start(gated.workflow)
    two = await shared_lab.start(gated.workflow)
    for number in range(10):
        chosen = [
            gated.workflow.options(id=f"g-{number}", engine=engine)("word") for engine in (one, two)
        ]
        assert await asyncio.gather(*chosen) == ["word", "word"]
    assert gated.runs == 10


async def test_repeated_starts_never_count_as_attempts(lab: Lab) -> None:
    """Two hundred starts of a running and of a finished id leave the limit alone."""
    gate = asyncio.Event()

    @workflow(name="limited", max_recovery_attempts=3)
    async def limited() -> str:
        await gate.wait()
        return "done"

    await lab.start(limited)
    for _ in range(100):
        await limited.options(id="l").start()
    gate.set()
    for _ in range(100):
        assert await limited.options(id="l")() == "done"
    row = await lab.status("l")
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 1)


async def test_an_id_of_another_function_is_refused_and_nothing_of_it_changes(
    lab: Lab, gated: Gated
) -> None:
    """While the first one runs and after it ended; the message names both."""

    @step(name="look")
    async def look() -> str:
        return "seen"

    @workflow(name="other")
    async def other() -> str:
        return await look()

    await lab.start(gated.workflow, other)
    await gated.workflow.options(id="g").start("word")
    running = await lab.status("g")
    with pytest.raises(ConflictingWorkflow, match="'gated', not as 'other'"):
        await other.options(id="g").start()
    assert await lab.status("g") == running
    gated.gate.set()
    ended = await lab.until("g")
    with pytest.raises(ConflictingWorkflow) as raised:
        await other.options(id="g")()
    assert (raised.value.workflow_id, raised.value.recorded) == ("g", "gated")
    assert await lab.status("g") == ended
    assert (await lab.steps("g"), await lab.output("g")) == ([], '"word"')


async def test_joining_with_other_arguments_is_allowed_and_said(
    lab: Lab, gated: Gated, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names the id; the same arguments are no news."""
    await lab.start(gated.workflow)
    gated.gate.set()
    for word in ("first", "first", "second"):
        assert await gated.workflow.options(id="g")(word) == "first"
    (warning,) = [each for each in logged(caplog) if each.levelname == "WARNING"]
    assert "workflow g exists with other arguments" in warning.getMessage()


async def test_an_id_may_be_refused_when_it_exists(lab: Lab, gated: Gated) -> None:
    """`id_policy=REJECT` raises; a fresh id is started as ever."""
    await lab.start(gated.workflow)
    gated.gate.set()
    once = gated.workflow.options(id="g", id_policy=IdPolicy.REJECT)
    assert await once("word") == "word"
    with pytest.raises(WorkflowIdInUse, match="'g' exists already"):
        await once.start("word")


async def test_a_handle_on_a_run_it_never_watched_gives_its_error_typed(
    shared_lab: Lab, gated: Gated
) -> None:
    """One engine runs it, another one reads what was recorded."""
    await shared_lab.start(gated.workflow, errors=[Gone])
    other = await shared_lab.start(gated.workflow, errors=[Gone])
    await gated.workflow.options(id="g", engine=shared_lab.engines[0]).start("fail")
    watching = asyncio.ensure_future(other.handle("g", gated.workflow).result())
    await eventually(lambda: shared_lab.store.counts["settled"])
    gated.gate.set()
    with pytest.raises(Gone, match="as asked"):
        await watching


async def test_a_dropped_handle_stops_nothing(lab: Lab, gated: Gated) -> None:
    """The workflow goes on without anybody who refers to it."""
    await lab.start(gated.workflow)
    handle = await gated.workflow.options(id="g").start("word")
    del handle
    gated.gate.set()
    assert (await lab.until("g"))["status"] == "SUCCESS"


async def test_a_result_may_be_asked_for_as_often_and_from_where_one_likes(
    lab: Lab, gated: Gated
) -> None:
    """Awaiting the handle, its result twice, and from another task give the same."""
    await lab.start(gated.workflow)
    gated.gate.set()
    handle = await gated.workflow.start("word")
    elsewhere = asyncio.ensure_future(handle.result())
    assert [await handle, await handle.result(), await handle.result(), await elsewhere] == [
        "word"
    ] * 4


async def test_a_wait_with_a_limit_gives_up_and_the_workflow_goes_on(
    lab: Lab, gated: Gated
) -> None:
    """`TimeoutError`; a later wait gets the result."""
    await lab.start(gated.workflow)
    handle = await gated.workflow.start("word")
    for limit in (0, 0.01):
        with pytest.raises(TimeoutError):
            await handle.result(timeout=limit)
    gated.gate.set()
    assert await handle.result(timeout=60) == "word"


async def test_a_handle_on_an_unknown_id_has_no_status_and_waits_for_the_workflow(
    lab: Lab, gated: Gated
) -> None:
    """An id taken on faith may come into being later."""
    engine = await lab.start(gated.workflow)
    handle = engine.handle("later", gated.workflow)
    with pytest.raises(WorkflowNotFound, match="'later'"):
        await handle.status()
    with pytest.raises(WorkflowNotFound):
        await engine.workflows.get("later")
    with pytest.raises(TimeoutError):
        await handle.result(timeout=0.05)
    waiting = asyncio.ensure_future(handle.result())
    gated.gate.set()
    await gated.workflow.options(id="later").start("word")
    assert await waiting == "word"


async def test_a_workflow_deleted_under_a_waiting_handle_is_not_waited_for(
    lab: Lab, gated: Gated
) -> None:
    """A handle that saw the row says that it is gone instead of waiting for ever."""
    await lab.start(gated.workflow)
    gated.gate.set()
    handle = await gated.workflow.options(id="g").start("word")
    await handle
    await lab.backdoor.run("DELETE FROM workflow_status WHERE workflow_uuid = 'g'")
    with pytest.raises(WorkflowNotFound):
        await handle.result(timeout=10)


async def test_cancelled_and_dead_lettered_workflows_have_no_result(lab: Lab, gated: Gated) -> None:
    """Each says what became of it."""
    engine = await lab.start(gated.workflow)
    handle = await gated.workflow.options(id="g").start("word")
    await handle.cancel()
    with pytest.raises(AwaitedWorkflowCancelled, match="'g' was cancelled"):
        await handle
    await lab.backdoor.run(
        "UPDATE workflow_status SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED',"
        " recovery_attempts = 7 WHERE workflow_uuid = 'g'"
    )
    with pytest.raises(RecoveryLimitExceeded, match="after 7 attempts"):
        await engine.handle("g")


async def test_cancelling_what_has_its_outcome_or_does_not_exist_changes_nothing(
    lab: Lab, gated: Gated
) -> None:
    """The first outcome stays; an unknown id is no error."""
    engine = await lab.start(gated.workflow)
    gated.gate.set()
    handle = await gated.workflow.options(id="g").start("word")
    await handle
    before = await lab.status("g")
    await handle.cancel()
    await engine.handle("nobody").cancel()
    with pytest.raises(InvalidArgument, match="children=1"):
        handle.cancel(children=1)  # type: ignore[arg-type]
    assert await lab.status("g") == before


async def test_status_shows_the_row(lab: Lab, gated: Gated) -> None:
    """Id, state, names, times and attempts, without payloads."""
    engine = await lab.start(gated.workflow, name="shop")
    gated.gate.set()
    handle = await gated.workflow.options(id="g", attributes={"kind": "test"}).start("word")
    await handle
    status = await handle.status()
    assert (status.workflow_id, status.state) == ("g", WorkflowState.SUCCESS)
    assert (status.key.name, status.application_name) == ("gated", "shop")
    assert (status.attempts, status.executor_id) == (1, engine.executor_id)
    assert (status.owner, status.queue_name, status.parent_workflow_id) == (None, None, None)
    assert status.created_at_ms <= (status.completed_at_ms or 0)
    assert (status.inputs, status.output) == (None, None)
    whole = await engine.workflows.get("g", with_payloads=True)
    assert (whole.inputs, whole.output) == ('{"namedArgs":{},"positionalArgs":["word"]}', '"word"')
    assert status.attributes is not None
    assert status.attributes.replace(" ", "") == '{"kind":"test"}'


@pytest.mark.parametrize(
    "wrong", ["", "  ", "\t", "nul\x00", "x" * 513, "\ud800", 7, None, b"bytes"], ids=repr
)
async def test_an_id_that_no_database_could_store_is_refused(gated: Gated, wrong: Any) -> None:
    """At once, before any row; None is an id not given."""
    if wrong is None:
        assert gated.workflow.options(id=wrong) is not None
        return
    with pytest.raises(InvalidArgument, match="id="):
        gated.workflow.options(id=wrong)


@pytest.mark.parametrize(
    "strange", ["ünï-✓-漢字", "a/b:c::d", "'; DROP TABLE x; --", "%_\\", " spaced ", "x" * 512]
)
async def test_strange_ids_come_through_verbatim(lab: Lab, gated: Gated, strange: str) -> None:
    """Any other text is an id."""
    await lab.start(gated.workflow)
    gated.gate.set()
    handle = await gated.workflow.options(id=strange).start(strange)
    assert (await handle, handle.workflow_id) == (strange, strange)
    assert await lab.state(strange) == "SUCCESS"


async def test_without_an_id_each_start_makes_a_fresh_one(lab: Lab, gated: Gated) -> None:
    """Random UUIDs, as on the wire."""
    await lab.start(gated.workflow)
    gated.gate.set()
    ids = {(await gated.workflow.start("word")).workflow_id for _ in range(5)}
    assert len(ids) == 5
    assert {(len(each), each.count("-")) for each in ids} == {(36, 4)}


@pytest.mark.parametrize(
    "wrong",
    [{"idd": "x"}, {"attributes": [1]}, {"timeout": 0}, {"timeout": "5"}, {"deadline": 5}],
    ids=str,
)
def test_an_option_that_cannot_work_is_refused_where_it_is_written(
    gated: Gated, wrong: dict[str, Any]
) -> None:
    """The error names the option."""
    (name,) = wrong
    with pytest.raises(InvalidArgument, match=name):
        gated.workflow.options(**wrong)
