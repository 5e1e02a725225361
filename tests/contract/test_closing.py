"""`StepStore.close_scopes`: verdicts, their open rows, and messages that nobody saw."""

from typing import Any

import pytest

from perdure.errors import DatabaseRejected
from perdure.model.answer import AnswerKind
from perdure.model.talk import Topic
from perdure.model.wire import NULL_TOPIC
from perdure.model.workflow import Checkpoint, Fence, NewWorkflow
from perdure.store.rows import recorded_step
from tests.support import rows
from tests.support.store import Process, Site, kinds

WRITTEN, MINE = AnswerKind.WRITTEN, AnswerKind.MINE
CONFLICT, LOST = AnswerKind.CONFLICT, AnswerKind.LOST


def opening(run: NewWorkflow | Fence, step_id: int = 1, **fields: Any) -> Checkpoint:
    """The open row of a scope."""
    return rows.checkpoint(run, step_id, **{"name": "open", "output": "2", **fields})


async def history(site: Site, run: NewWorkflow) -> list[tuple[int, str, str | None]]:
    """The id, name and output of each recorded step."""
    return [
        (step["function_id"], step["function_name"], step["output"])
        for step in await site.steps(run.workflow_id)
    ]


async def receives(me: Process, run: NewWorkflow, *step_ids: int) -> None:
    """As many messages are sent to the run, and each taken by one of the steps."""
    await me.store.send([rows.sending(*[rows.message(run, str(n)) for n in step_ids])])
    answers = await me.store.receive([rows.receiving(run, n) for n in step_ids])
    assert [answer.standing.output for answer in answers if answer.standing] == [
        str(n) for n in step_ids
    ]


async def test_a_verdict_is_recorded_with_its_open_rows(site: Site, me: Process) -> None:
    """“the open rows and the verdict are inserted”: every column of them."""
    run = await me.running()
    openings = (opening(run, 1), opening(run, 2))
    item = rows.closing(run, 3, openings, output='{"won":0}')
    assert kinds(await me.store.close_scopes([item])) == [WRITTEN]
    found = (await me.store.history([run.workflow_id]))[run.workflow_id]
    assert found == [recorded_step(row) for row in (*openings, item.checkpoint)]
    application = {step["application_name"] for step in await site.steps(run.workflow_id)}
    assert application == {"app"}


async def test_a_repeated_close_is_mine(site: Site, me: Process) -> None:
    """“answered like `record`”: *mine* also for who lost the run since, and with `voids`."""
    run = await me.running()
    await receives(me, run, 5)
    item = rows.closing(run, 3, (opening(run),), (5,))
    voiding = item._replace(voids=True)
    assert kinds(await me.store.close_scopes([item])) == [WRITTEN]
    before = await site.steps(run.workflow_id)
    assert kinds(await me.store.close_scopes([item, voiding])) == [MINE, MINE]
    await site.update(run.workflow_id, owner_xid="the next owner")
    assert kinds(await me.store.close_scopes([item, voiding])) == [MINE, MINE]
    assert await site.steps(run.workflow_id) == before


async def test_what_was_put_back_can_be_received_again(site: Site, me: Process) -> None:
    """“the step rows of `put_back` are deleted and what they consumed is unconsumed again”."""
    run = await me.running()
    await receives(me, run, 5, 6, 7)
    await me.store.record([rows.checkpoint(run, 8)])
    item = rows.closing(run, 3, (opening(run),), (7, 5))
    assert kinds(await me.store.close_scopes([item])) == [WRITTEN]
    assert [step for step, *_ in await history(site, run)] == [1, 3, 6, 8]
    answers = await me.store.receive([rows.receiving(run, n) for n in (20, 21, 22)])
    assert [answer.standing.output if answer.standing else None for answer in answers] == [
        "5",
        "7",
        None,
    ]


async def test_only_that_runs_messages_are_put_back(site: Site, me: Process) -> None:
    """“what they consumed”: not what a step of the same number of another run did."""
    run, other = await me.running(), await me.running()
    await receives(me, run, 5)
    await receives(me, other, 5)
    await me.store.close_scopes([rows.closing(run, put_back=(5,))])
    topics = [Topic(each.workflow_id, NULL_TOPIC) for each in (run, other)]
    assert await me.store.topics_with_messages(topics) == topics[:1]
    assert await history(site, other) == [(5, "receive", "5")]


async def test_a_void_verdict_is_overwritten(site: Site, me: Process) -> None:
    """“With `voids` a row of the same name under the verdict's id is overwritten”: all of it."""
    run = await me.running()
    await me.store.close_scopes([rows.closing(run, 3, (opening(run),), error="e")])
    item = rows.closing(
        run,
        3,
        voids=True,
        output="new",
        started_at_ms=7,
        completed_at_ms=8,
        serialization="odd",
    )
    assert kinds(await me.store.close_scopes([item])) == [WRITTEN]
    found = (await me.store.history([run.workflow_id]))[run.workflow_id]
    assert found == [recorded_step(opening(run)), recorded_step(item.checkpoint)]


async def test_a_void_verdict_that_was_cut_away_is_written(site: Site, me: Process) -> None:
    """“With `voids`”: where nothing stands there is nothing to overwrite."""
    run = await me.running()
    assert kinds(await me.store.close_scopes([rows.closing(run, 3, voids=True)])) == [WRITTEN]
    assert await history(site, run) == [(3, "close", "3")]


@pytest.mark.parametrize("voids", [False, True])
async def test_another_record_in_the_verdicts_place_is_shown(
    site: Site, me: Process, voids: bool
) -> None:
    """“answered like `record`”; “Nothing of an item is written unless all of it is”."""
    run = await me.running()
    await receives(me, run, 5)
    other = rows.checkpoint(run, 3, name="other" if voids else "close")
    await me.store.record([other])
    item = rows.closing(run, 3, (opening(run),), (5,), voids=voids, completed_at_ms=9)
    (answer,) = await me.store.close_scopes([item])
    assert (answer.kind, answer.standing) == (CONFLICT, recorded_step(other))
    assert [step for step, *_ in await history(site, run)] == [3, 5]
    assert await me.store.topics_with_messages([Topic(run.workflow_id, NULL_TOPIC)]) == []


async def test_another_record_in_an_open_rows_place_is_shown(site: Site, me: Process) -> None:
    """“Nothing of an item is written unless all of it is”."""
    run = await me.running()
    await me.store.record([rows.checkpoint(run, 2, name="other")])
    item = rows.closing(run, 3, (opening(run, 1), opening(run, 2)), voids=True)
    (answer,) = await me.store.close_scopes([item])
    assert answer.kind is CONFLICT
    assert answer.standing is not None
    assert answer.standing.name == "other"
    assert await history(site, run) == [(2, "other", "2")]


async def test_an_open_row_that_stands_already_is_left(site: Site, me: Process) -> None:
    """“`openings` are open rows that are not written yet”: as far as the caller could know."""
    run = await me.running()
    first = opening(run)
    await me.store.record([first])
    item = rows.closing(run, 3, (first, opening(run, 2)))
    assert kinds(await me.store.close_scopes([item])) == [WRITTEN]
    assert [step for step, *_ in await history(site, run)] == [1, 2, 3]


@pytest.mark.parametrize("how", ["wrong owner", "gone", "cancelled"])
async def test_who_lost_the_run_closes_nothing(site: Site, me: Process, how: str) -> None:
    """“each fenced on its run”."""
    run = await me.running()
    await receives(me, run, 5)
    await me.store.record([rows.checkpoint(run, 6, name="close")])
    fence = rows.fence_of(run)
    if how == "wrong owner":
        fence = Fence(run.workflow_id, rows.token())
    elif how == "gone":
        fence = Fence(rows.wid(), run.creator)
    else:
        await me.cancel([run.workflow_id])
    before = await site.steps(run.workflow_id)
    batch = [
        rows.closing(fence, 3, (opening(fence),), (5,)),
        rows.closing(fence, 6, voids=True, completed_at_ms=9),
    ]
    assert kinds(await me.store.close_scopes(batch))[0] is LOST
    if how != "gone":
        assert kinds(await me.store.close_scopes(batch)) == [LOST, LOST]
    assert await site.steps(run.workflow_id) == before


async def test_one_batch_can_hold_every_answer(site: Site, me: Process) -> None:
    """“Record verdicts of scopes”: a bad one costs its neighbours nothing."""
    run, other, lost = await me.running(), await me.running(), await me.running()
    await me.cancel([lost.workflow_id])
    old = rows.closing(run, 2, (opening(run),))
    await me.store.close_scopes([old])
    void = old._replace(
        checkpoint=old.checkpoint._replace(completed_at_ms=9, output="new"), voids=True
    )
    answers = await me.store.close_scopes(
        [
            rows.closing(lost, 2, (opening(lost),)),
            old,
            void._replace(voids=False),
            rows.closing(other, 2, (opening(other),)),
            void,
            rows.closing(run, 4, (opening(run, 3),)),
            rows.closing(run, 4, name="second"),
        ]
    )
    assert kinds(answers) == [LOST, MINE, CONFLICT, WRITTEN, WRITTEN, WRITTEN, CONFLICT]
    assert await history(site, run) == [
        (1, "open", "2"),
        (2, "close", "new"),
        (3, "open", "2"),
        (4, "close", "4"),
    ]
    assert [step for step, *_ in await history(site, other)] == [1, 2]
    assert await history(site, lost) == []


async def test_a_value_the_database_cannot_store_closes_nothing(site: Site, me: Process) -> None:
    """“In one transaction per call”."""
    run = await me.running()
    await receives(me, run, 5)
    before = await site.steps(run.workflow_id)
    bad = rows.closing(run, 3, (opening(run, output="\ud800"),), (5,))
    with pytest.raises(DatabaseRejected):
        await me.store.close_scopes([rows.closing(run, 7), bad])
    assert await site.steps(run.workflow_id) == before


async def test_many_scopes_of_many_runs_in_one_batch(site: Site, me: Process) -> None:
    """“Record verdicts of scopes”: hundreds at once."""
    runs = [rows.direct() for _ in range(20)]
    await me.start(*runs)
    for run in runs:
        await receives(me, run, *range(500, 510))
    batch = [
        rows.closing(run, 2 * n, (opening(run, 2 * n - 1),), (499 + n,))
        for n in range(1, 11)
        for run in reversed(runs)
    ]
    assert kinds(await me.store.close_scopes(batch)) == [WRITTEN] * 200
    for run in runs:
        assert [step for step, *_ in await history(site, run)] == list(range(1, 21))
    topics = [Topic(run.workflow_id, NULL_TOPIC) for run in runs]
    assert await me.store.topics_with_messages(topics) == topics


async def test_an_empty_batch_has_no_answers(me: Process) -> None:
    """“answered like `record`”."""
    assert await me.store.close_scopes([]) == []
