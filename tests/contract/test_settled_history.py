"""`ReadStore.settled`, `ReadStore.now_ms` and `StepStore.history`."""

import time

import pytest

from perdure.model.status import WorkflowState
from perdure.model.workflow import Outcome, StepRow
from perdure.ports.store.reads import Settled
from tests.support import rows
from tests.support.store import Process, Site

ENDINGS = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")


async def test_settled_tells_ended_waiting_and_missing_apart(site: Site, me: Process) -> None:
    """“Of the workflows asked about: the terminal ones with outcomes, and the ids with no row”."""
    ended = [await site.foreign(status=status, recovery_attempts=4) for status in ENDINGS]
    active = [await site.foreign(status=status) for status in ("ENQUEUED", "DELAYED", "PENDING")]
    missing = [rows.wid("missing::%"), rows.wid("Missing")]
    found = await me.store.settled([*active, *missing, *ended])
    assert {outcome.workflow_id for outcome in found.outcomes} == set(ended)
    assert set(found.missing) == set(missing)
    states = {outcome.workflow_id: outcome.state.value for outcome in found.outcomes}
    assert states == dict(zip(ended, ENDINGS, strict=True))
    assert {outcome.attempts for outcome in found.outcomes} == {4}


async def test_settled_of_nothing(me: Process) -> None:
    """“Which of these have left the active states”: none of none."""
    assert await me.store.settled([]) == Settled((), ())


async def test_settled_gives_the_recorded_outcome(me: Process) -> None:
    """“How a workflow stands, with its encoded result if it has one”."""
    good, bad = await me.running(serialization="portable_json"), await me.running()
    await me.store.finish(
        [
            rows.finish(good, WorkflowState.SUCCESS, "null"),
            rows.finish(bad, WorkflowState.ERROR, '{"name":"E"}'),
        ]
    )
    found = await me.store.settled([good.workflow_id, bad.workflow_id])
    by_id = {outcome.workflow_id: outcome for outcome in found.outcomes}
    assert by_id == {
        good.workflow_id: Outcome(
            good.workflow_id, WorkflowState.SUCCESS, "null", None, "portable_json", 1
        ),
        bad.workflow_id: Outcome(
            bad.workflow_id, WorkflowState.ERROR, None, '{"name":"E"}', "portable_json", 1
        ),
    }
    assert found.missing == ()


@pytest.mark.parametrize("both", [False, True])
async def test_settled_falls_back_to_the_legacy_columns(
    site: Site, me: Process, both: bool
) -> None:
    """“payloads prefer the payload tables over the legacy columns”."""
    good = await site.foreign(status="SUCCESS", output="legacy", error="")
    bad = await site.foreign(status="ERROR", error="legacy")
    if both:
        await site.insert("workflow_output", workflow_uuid=good, output="table")
        await site.insert("workflow_output", workflow_uuid=bad, error="table")
    found = await me.store.settled([good, bad])
    by_id = {outcome.workflow_id: outcome for outcome in found.outcomes}
    expected = "table" if both else "legacy"
    assert (by_id[good].output, by_id[good].error) == (expected, None)
    assert (by_id[bad].output, by_id[bad].error) == (None, expected)


async def test_settled_sees_rows_of_any_application(site: Site, me: Process) -> None:
    """“Which of these have left the active states”: the ids are given, so nothing is hidden."""
    found = await site.foreign(status="SUCCESS", application_name="other", serialization=None)
    (outcome,) = (await me.store.settled([found])).outcomes
    assert (outcome.workflow_id, outcome.output, outcome.serialization) == (found, None, None)


async def test_an_odd_row_does_not_hide_its_neighbours(site: Site, me: Process) -> None:
    """“Which of these have left the active states”: a state nobody knows breaks nothing."""
    odd = await site.foreign(status="ODD")
    stateless = await site.foreign(status=None)
    bare = await site.foreign(status="SUCCESS", recovery_attempts=None, name=None)
    found = await me.store.settled([odd, stateless, bare])
    assert bare in {outcome.workflow_id for outcome in found.outcomes}
    assert found.missing == ()


async def test_settled_asks_about_thousands_at_once(me: Process) -> None:
    """“One statement whatever the number”."""
    batch = [rows.direct() for _ in range(1000)]
    await me.start(*batch)
    ended = batch[::10]
    await me.store.finish([rows.finish(run) for run in ended])
    unknown = [rows.wid() for _ in range(2000)]
    found = await me.store.settled([run.workflow_id for run in batch] + unknown)
    assert {o.workflow_id for o in found.outcomes} == {run.workflow_id for run in ended}
    assert sorted(found.missing) == sorted(unknown)


async def test_an_id_asked_twice_is_answered_once(site: Site, me: Process) -> None:
    """“the terminal ones with outcomes, and the ids with no row”: each once."""
    done, missing = await site.foreign(status="SUCCESS"), rows.wid("missing")
    found = await me.store.settled([done, missing, done, missing])
    assert [outcome.workflow_id for outcome in found.outcomes] == [done]
    assert found.missing == (missing,)


async def test_the_clock_of_the_database_is_about_ours(me: Process) -> None:
    """“The database's clock plus the clock port's offset”: milliseconds since the Unix epoch."""
    assert abs(await me.store.now_ms() - time.time() * 1000) < 60_000


async def test_the_clock_never_goes_back(me: Process) -> None:
    """“The database's clock”: not the start of a transaction that lies in the past."""
    seen = [await me.store.now_ms() for _ in range(50)]
    assert seen == sorted(seen)


async def test_history_is_every_step_in_order(me: Process) -> None:
    """“All steps of these workflows by step id”."""
    one, two = await me.running(), await me.running()
    order = [5, 1, 3, 2, 4]
    await me.store.record([rows.checkpoint(one, step, output=f'"{step}"') for step in order])
    await me.store.record([rows.checkpoint(two, 9, output=None, error='"e"')])
    found = await me.store.history([two.workflow_id, one.workflow_id])
    assert [step.step_id for step in found[one.workflow_id]] == [1, 2, 3, 4, 5]
    assert [step.output for step in found[one.workflow_id]] == [f'"{n}"' for n in range(1, 6)]
    item = rows.checkpoint(two, 9)
    assert found[two.workflow_id] == [
        StepRow(
            workflow_id=two.workflow_id,
            step_id=item.step_id,
            name="step",
            output=None,
            error='"e"',
            child_workflow_id=None,
            started_at_ms=item.started_at_ms,
            completed_at_ms=item.completed_at_ms,
            serialization="portable_json",
        )
    ]


async def test_history_leaves_out_what_has_none(me: Process) -> None:
    """“absent means none”."""
    run = await me.running()
    assert await me.store.history([]) == {}
    found = await me.store.history([run.workflow_id, rows.wid("missing")])
    assert [steps for steps in found.values() if steps] == []


async def test_history_of_foreign_steps(site: Site, me: Process) -> None:
    """“One recorded step”: other programs number from 0 and leave columns NULL."""
    run = await me.running()
    await site.insert(
        "operation_outputs", workflow_uuid=run.workflow_id, function_id=0, application_name="other"
    )
    (step,) = (await me.store.history([run.workflow_id]))[run.workflow_id]
    assert (step.step_id, step.name, step.serialization) == (0, "", None)
    assert (step.started_at_ms, step.completed_at_ms, step.child_workflow_id) == (None, None, None)


async def test_history_shows_a_childs_start(me: Process) -> None:
    """“One recorded step”: with the child's id."""
    parent = await me.running()
    item = rows.child_of(parent, 1, rows.enqueued())
    await me.start(item)
    (step,) = (await me.store.history([parent.workflow_id]))[parent.workflow_id]
    assert step.child_workflow_id == item.workflow.workflow_id
    assert (step.output, step.error) == (None, None)


async def test_a_history_of_more_than_ten_thousand_steps(me: Process) -> None:
    """“read in bounded pages”: nothing is lost or repeated where one page ends."""
    long, short = await me.running("long"), [await me.running() for _ in range(3)]
    for first in range(1, 12_001, 1000):
        batch = [rows.checkpoint(long, first + offset) for offset in range(1000)]
        await me.store.record(batch)
    await me.store.record([rows.checkpoint(run, step) for run in short for step in (1, 2)])
    ids = [short[0].workflow_id, long.workflow_id, short[1].workflow_id, short[2].workflow_id]
    found = await me.store.history(ids)
    assert [step.step_id for step in found[long.workflow_id]] == list(range(1, 12_001))
    assert all(step.output == str(step.step_id) for step in found[long.workflow_id])
    for run in short:
        assert [step.step_id for step in found[run.workflow_id]] == [1, 2]


async def test_a_history_of_many_runs(me: Process) -> None:
    """“All steps of these workflows”: 1,000 of them, with ids that look alike."""
    batch = [rows.direct(f"run%_{number}::") for number in range(1000)]
    await me.start(*batch)
    for step in (1, 2, 3):
        await me.store.record([rows.checkpoint(run, step) for run in batch])
    found = await me.store.history([run.workflow_id for run in batch])
    assert len(found) == 1000
    assert {tuple(step.step_id for step in steps) for steps in found.values()} == {(1, 2, 3)}
    assert all(step.workflow_id == wid for wid, steps in found.items() for step in steps)
