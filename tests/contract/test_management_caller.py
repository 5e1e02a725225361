"""`ManagementStore.manage` by a step of a run: fenced, recorded with the command, and repeated."""

import asyncio
from typing import Any

import pytest

from perdure.errors import WorkflowNotFound
from perdure.model.answer import LOST, AnswerKind
from perdure.model.management import Cancel, Command, Managed, Resume, SetAttributes
from perdure.model.workflow import StepRow
from tests.support import rows
from tests.support.store import Process, Site
from tests.support.waiting import eventually

WRITTEN, MINE, CONFLICT = AnswerKind.WRITTEN, AnswerKind.MINE, AnswerKind.CONFLICT


async def step_of(site: Site, run: Any) -> tuple[Any, ...]:
    """The only step row of that run: id, name, output and error."""
    (row,) = await site.steps(run.workflow_id)
    return row["function_id"], row["function_name"], row["output"], row["error"]


async def test_the_step_is_recorded_with_the_command(site: Site, me: Process) -> None:
    """“*written* the same, the step's row inserted as `caller.record` made it”."""
    run, other = await me.running(), await me.waiting()
    caller = rows.caller(run, 3)
    answer = await me.store.manage(Cancel((other.workflow_id,)), caller)
    assert (answer.kind, answer.standing) == (WRITTEN, Managed((other.workflow_id,)))
    assert await step_of(site, run) == (3, "command", other.workflow_id, None)
    (row,) = await site.steps(run.workflow_id)
    assert (row["started_at_epoch_ms"], row["completed_at_epoch_ms"]) == (
        caller.step.started_at_ms,
        caller.step.completed_at_ms,
    )
    assert (row["application_name"], row["serialization"]) == ("app", "portable_json")
    assert (await site.status(other.workflow_id))["status"] == "CANCELLED"


@pytest.mark.parametrize("command", [Resume, SetAttributes])
async def test_a_refusal_is_recorded(site: Site, me: Process, command: Any) -> None:
    """“a command that is refused changes nothing, and its refusal is recorded like any result”."""
    run, other = await me.running(), await me.running()
    none = rows.wid("none")
    asked = Resume((other.workflow_id, none)) if command is Resume else SetAttributes(none, "{}")
    answer = await me.store.manage(asked, rows.caller(run))
    assert answer.kind is WRITTEN
    assert isinstance(answer.standing, Managed)
    assert isinstance(answer.standing.refusal, WorkflowNotFound)
    assert await step_of(site, run) == (1, "command", None, "WorkflowNotFound")
    assert (await site.status(other.workflow_id))["status"] == "PENDING"


async def test_a_repeated_try_does_nothing_again(site: Site, me: Process) -> None:
    """“*mine*: the step id holds a row of that name, a repeated try's, which `standing` shows, and
    nothing is done again”."""
    run, other = await me.running(), await me.running()
    command = Resume((other.workflow_id,), rows.QUEUE)
    await me.store.manage(command, rows.caller(run))
    (claimed,) = await me.claim()
    again = await me.store.manage(command, rows.caller(run))
    assert again.kind is MINE
    assert isinstance(again.standing, StepRow)
    assert again.standing.output == other.workflow_id
    assert (await site.status(other.workflow_id))["owner_xid"] == claimed.owner
    assert len(await site.steps(run.workflow_id)) == 1


async def test_a_repeated_try_is_known_by_a_run_that_ended_itself(me: Process) -> None:
    """“a repeated try's”: also of a command that took the caller's own run away."""
    run = await me.running()
    command = Cancel((run.workflow_id,))
    first = await me.store.manage(command, rows.caller(run))
    assert first.standing == Managed((run.workflow_id,))
    assert (await me.store.manage(command, rows.caller(run))).kind is MINE
    assert await me.store.lost([rows.fence_of(run)]) == [run.workflow_id]


async def test_another_record_in_the_steps_place_is_shown(site: Site, me: Process) -> None:
    """“*conflict*: it holds another, shown in `standing`”; nothing is done."""
    run, other = await me.running(), await me.waiting()
    await me.store.record([rows.checkpoint(run, 1)])
    answer = await me.store.manage(Cancel((other.workflow_id,)), rows.caller(run, 1))
    assert answer.kind is CONFLICT
    assert isinstance(answer.standing, StepRow)
    assert answer.standing.name == "step"
    assert (await site.status(other.workflow_id))["status"] == "ENQUEUED"


@pytest.mark.parametrize("how", ["cancelled", "taken", "gone", "finished"])
async def test_who_lost_the_run_commands_nothing(site: Site, me: Process, how: str) -> None:
    """“*lost* …: as for `StepStore.record`”: nothing is done and nothing recorded."""
    run, other = await me.running(), await me.waiting()
    if how == "cancelled":
        await me.cancel([run.workflow_id])
    elif how == "taken":
        await site.update(run.workflow_id, owner_xid="the next")
    elif how == "finished":
        await me.store.finish([rows.finish(run)])
    else:
        await site.backdoor.run(
            "DELETE FROM workflow_status WHERE workflow_uuid = ?", run.workflow_id
        )
    commands: list[Command] = [
        Cancel((other.workflow_id,)),
        Resume((rows.wid("none"),)),
        Cancel((run.workflow_id, other.workflow_id), children=True),
    ]
    for command in commands:
        assert await me.store.manage(command, rows.caller(run)) == LOST
    assert await site.steps(run.workflow_id) == []
    assert (await site.status(other.workflow_id))["status"] == "ENQUEUED"


@pytest.mark.parametrize("site_kind", ["postgres"])
async def test_the_callers_run_is_locked_before_it_is_judged(site: Site, me: Process) -> None:
    """“The rows it concerns are locked in id order, the caller's run among them, before they are
    judged”: a run that is taken away meanwhile commands nothing."""
    run, other = await me.running(), await me.waiting()
    take = "UPDATE workflow_status SET owner_xid = 'the next' WHERE workflow_uuid = ?"
    connection = await site.postgres.connect()
    try:
        taking = connection.transaction()
        await taking.start()
        await connection.execute(take.replace("?", "$1"), run.workflow_id)
        commanding = asyncio.create_task(
            me.store.manage(Cancel((other.workflow_id,)), rows.caller(run))
        )
        await eventually(lambda: _waits(site))
        await taking.commit()
    finally:
        await connection.close()
    assert await commanding == LOST
    assert (await site.status(other.workflow_id))["status"] == "ENQUEUED"


async def _waits(site: Site) -> bool:
    return bool(
        await site.backdoor.rows(
            "SELECT 1 FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
    )
