"""What the real dbos client does to our workflows, and how our engine goes on."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from perdure import AwaitedWorkflowCancelled, WorkflowState, sleep, step, workflow
from perdure.errors import UndecodableValue
from tests.compat.conftest import Dbos
from tests.support.engines import Lab
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("dbos_can_write")

DAY = 86_400

ran: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()


@step(name="mark")
async def mark(word: str) -> str:
    ran[word] += 1
    return word.upper()


@workflow(name="naps")
async def naps(word: str, *, times: int = 1) -> list[Any]:
    first = await mark(f"{word} first")
    await sleep(DAY)
    return [first, await mark(f"{word} second"), times]


async def asleep(lab: Lab, workflow_id: str) -> None:
    """Start the workflow and wait until it sleeps."""
    await lab.start(naps)
    await naps.options(id=workflow_id).start(workflow_id)
    await lab.until_asleep(DAY - 1)


async def test_a_cancel_is_noticed_by_the_run_and_by_whoever_waits(
    shared_lab: Lab, dbos: Dbos
) -> None:
    lab = shared_lab
    await asleep(lab, "w")
    waiting = asyncio.ensure_future(lab.engine.handle("w").result())
    await dbos.ask("cancel_workflow", "w")
    with pytest.raises(AwaitedWorkflowCancelled):
        await waiting
    await lab.until_nothing_runs()
    assert await lab.state("w") == "CANCELLED"
    assert ran == {"w first": 1}


async def test_a_resume_after_a_cancel_goes_on_from_the_recorded_steps(
    shared_lab: Lab, dbos: Dbos
) -> None:
    """The client puts it on the internal queue of its own, which we serve and never write to."""
    lab = shared_lab
    await asleep(lab, "w")
    await dbos.ask("cancel_workflow", "w")
    await lab.until_nothing_runs()
    await dbos.ask("resume_workflow", "w")
    await lab.until_attempts("w", 1)
    await lab.until_asleep(DAY - 60)
    row = await lab.status("w")
    assert (row["status"], row["queue_name"]) == ("PENDING", "_dbos_internal_queue")
    assert row["executor_id"] == lab.engine.executor_id
    lab.clock.leap(DAY)
    assert await dbos.ask("result", "w") == ["W FIRST", "W SECOND", 1]
    assert ran == {"w first": 1, "w second": 1}


async def test_a_resume_of_a_running_workflow_moves_it_to_a_new_execution(
    shared_lab: Lab, dbos: Dbos
) -> None:
    lab = shared_lab
    await asleep(lab, "w")
    handle = lab.engine.handle("w", naps)
    runs = lab.engine.kernel.runner.runs
    first = runs[handle.workflow_id]
    await dbos.ask("resume_workflow", "w")
    await eventually(lambda: runs.get(handle.workflow_id) not in {None, first})
    await eventually(lambda: len(lab.clock.sleepers(DAY - 60)) == 1)
    lab.clock.leap(DAY)
    assert await handle == ["W FIRST", "W SECOND", 1]
    assert ran == {"w first": 1, "w second": 1}
    assert (await lab.status("w"))["recovery_attempts"] == 1


async def test_a_fork_runs_here_from_its_step_with_what_came_before(
    shared_lab: Lab, dbos: Dbos
) -> None:
    """It belongs to no version, so the latest takes it; the original is left as it is."""
    lab = shared_lab
    await asleep(lab, "w")
    lab.clock.leap(DAY)
    await lab.until("w")
    before = await lab.output("w"), await lab.steps("w")
    fork = await dbos.ask("fork_workflow", "w", 3)
    row = await lab.until(fork)
    assert (row["status"], row["forked_from"], row["recovery_attempts"]) == ("SUCCESS", "w", 1)
    assert row["application_version"] == "app@default"
    assert await dbos.ask("result", fork) == ["W FIRST", "W SECOND", 1]
    assert ran == {"w first": 1, "w second": 2}
    assert (await lab.output("w"), await lab.steps("w")) == before


async def test_a_rewind_runs_again_from_its_step(shared_lab: Lab, dbos: Dbos) -> None:
    lab = shared_lab
    await asleep(lab, "w")
    lab.clock.leap(DAY)
    await lab.until("w")
    await dbos.ask("rewind_workflow", "w", start_step=3)
    await lab.until_attempts("w", 1)
    assert (await lab.until("w"))["status"] == "SUCCESS"
    assert ran == {"w first": 1, "w second": 2}


async def test_a_dead_letter_is_resumed_with_a_counter_of_zero(shared_lab: Lab, dbos: Dbos) -> None:
    lab = shared_lab
    await asleep(lab, "w")
    await lab.backdoor.run("UPDATE workflow_status SET recovery_attempts = 101")
    await lab.hand_back("w")
    await lab.until("w", WorkflowState.MAX_RECOVERY_ATTEMPTS_EXCEEDED)
    await dbos.ask("resume_workflow", "w")
    await lab.until_attempts("w", 1)
    lab.clock.leap(DAY)
    # Who waits here sooner may still be told of the outcome before, whose row was seen at once.
    await lab.until("w", WorkflowState.SUCCESS)
    assert await lab.engine.handle("w", naps) == ["W FIRST", "W SECOND", 1]


async def test_attributes_changed_by_a_client_are_seen_here(shared_lab: Lab, dbos: Dbos) -> None:
    lab = shared_lab
    await asleep(lab, "w")
    await dbos.ask("update_workflow_attributes", "w", {"team": "green"})
    row = await lab.engine.workflows.get("w")
    assert json.loads(row.attributes or "") == {"team": "green"}
    assert await lab.state("w") == "PENDING"


@pytest.mark.parametrize("queue", ["_dbos_internal_queue", "_perdure_internal_queue"])
async def test_a_workflow_enqueued_by_a_client_runs_here(
    shared_lab: Lab, dbos: Dbos, queue: str
) -> None:
    """With a version or without one."""
    lab = shared_lab
    await lab.start(naps)
    options = {"workflow_name": "naps", "queue_name": queue}
    for workflow_id, more in (("a", {}), ("b", {"app_version": "app@default"})):
        await dbos.ask("enqueue", workflow_id, workflow_id=workflow_id, **options, **more)
        await lab.until_attempts(workflow_id, 1)
    await eventually(lambda: len(lab.clock.sleepers(DAY - 60)) == 2)
    for workflow_id in ("a", "b"):
        row = await lab.status(workflow_id)
        assert (row["executor_id"], row["queue_name"]) == (lab.engine.executor_id, queue)
        assert row["application_version"] == "app@default"
    lab.clock.leap(DAY)
    assert await dbos.ask("result", "a") == ["A FIRST", "A SECOND", 1]
    assert await lab.engine.handle("b", naps) == ["B FIRST", "B SECOND", 1]


async def test_a_client_s_arguments_that_do_not_fit_end_in_an_error_it_can_read(
    shared_lab: Lab, dbos: Dbos
) -> None:
    lab = shared_lab
    engine = await lab.start(naps)
    options = {"workflow_name": "naps", "queue_name": "_perdure_internal_queue"}
    await dbos.ask("enqueue", 5, workflow_id="w", **options)
    with pytest.raises(UndecodableValue, match="argument 'word'"):
        await engine.handle("w")
    (row,) = await dbos.ask("list_workflows", workflow_ids=["w"])
    assert (row["status"], row["error"]["name"]) == ("ERROR", "UndecodableValue")
    assert "argument 'word'" in row["error"]["message"]


async def test_the_smallest_row_another_program_may_insert_runs(shared_lab: Lab) -> None:
    lab = shared_lab
    engine = await lab.start(naps)
    columns = "workflow_uuid, status, name, queue_name, serialization"
    await lab.backdoor.run(
        "INSERT INTO workflow_input (workflow_uuid, inputs, retention_timestamp)"
        " VALUES ('w', ?, 1)",
        '{"positionalArgs": ["w"], "namedArgs": {"times": 4}}',
    )
    await lab.backdoor.run(
        f"INSERT INTO workflow_status ({columns})"
        " VALUES ('w', 'ENQUEUED', 'naps', '_perdure_internal_queue', 'portable_json')"
    )
    await lab.until_attempts("w", 1)
    await lab.until_asleep(DAY - 60)
    lab.clock.leap(DAY)
    assert await engine.handle("w", naps) == ["W FIRST", "W SECOND", 4]
    row = await lab.status("w")
    assert (row["application_name"], row["application_version"]) == ("app", "app@default")


async def test_inputs_in_the_legacy_column_are_read(shared_lab: Lab) -> None:
    """As SDKs that know no payload tables write them; with either key left out."""
    lab = shared_lab
    engine = await lab.start(naps)
    await lab.backdoor.run(
        "INSERT INTO workflow_status"
        " (workflow_uuid, status, name, queue_name, serialization, inputs, attributes)"
        " VALUES ('w', 'ENQUEUED', 'naps', '_perdure_internal_queue', 'portable_json', ?, 'null')",
        '{"namedArgs":{"word":"w"}}',
    )
    await lab.until_attempts("w", 1)
    await lab.until_asleep(DAY - 60)
    lab.clock.leap(DAY)
    assert await engine.handle("w", naps) == ["W FIRST", "W SECOND", 1]


async def test_a_row_made_by_the_sql_function_runs(postgres_lab: Lab) -> None:
    """Its owner token is set although nobody owns it, and its text is spaced as Postgres does."""
    lab = postgres_lab
    engine = await lab.start(naps)
    await lab.rows(
        "SELECT enqueue_workflow(workflow_name => 'naps', queue_name => '_perdure_internal_queue',"
        " positional_args => ARRAY['\"w\"'::json], named_args => '{\"times\": 2}'::json,"
        " workflow_id => 'w') AS id"
    )
    await lab.until_attempts("w", 1)
    await lab.until_asleep(DAY - 60)
    lab.clock.leap(DAY)
    assert await engine.handle("w", naps) == ["W FIRST", "W SECOND", 2]
