"""Commands from two connections at once, and against what runs do: one story, whoever is first.

“`DatabaseConflict` may be retried with the same arguments”: two managers that cross may meet one.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from perdure.errors import DatabaseConflict
from perdure.model.answer import Answer, AnswerKind
from perdure.model.management import Cancel, Command, Delete, Managed, Resume
from tests.support import rows
from tests.support.races import race, rounds
from tests.support.store import Process, Site

WRITTEN, MINE, LOST, BUSY = AnswerKind.WRITTEN, AnswerKind.MINE, AnswerKind.LOST, AnswerKind.BUSY
ROUNDS = rounds(40)


async def persistently(command: Callable[[], Awaitable[Any]]) -> Any:
    """Give the command again as often as the database asks for it."""
    while True:
        try:
            return await command()
        except DatabaseConflict:
            continue


def managing(process: Process, command: Command) -> Callable[[], Awaitable[Managed]]:
    """The command, given persistently by that process."""
    return partial(persistently, partial(process.managed, command))


async def ended(process: Process, run: Any) -> Answer[Any]:
    """What an end of the run is answered in the end, once nothing is in its way."""
    while True:
        (answer,) = await process.store.finish([rows.finish(run)])
        if answer.kind is not BUSY:
            return answer


async def test_a_cancel_against_a_finish(site: Site, me: Process) -> None:
    """“rows whose state is not SUCCESS or ERROR become CANCELLED”: either it ended first and stays
    so, or the cancel came first and the end is told of it."""
    other = await site.process()
    for number in range(ROUNDS):
        run = await me.running()
        answer, managed = await race(
            number, partial(ended, me, run), managing(other, Cancel((run.workflow_id,)))
        )
        state = (await site.status(run.workflow_id))["status"]
        if managed.ids:
            assert (answer.kind, answer.standing.state, state) == (MINE, "CANCELLED", "CANCELLED")
        else:
            assert (answer.kind, state) == (WRITTEN, "SUCCESS")


async def test_a_resume_against_a_finish(site: Site, me: Process) -> None:
    """“Rows whose state is not SUCCESS or ERROR become ENQUEUED”: an old execution never ends what
    goes on elsewhere."""
    other = await site.process()
    for number in range(ROUNDS):
        run = await me.running()
        answer, managed = await race(
            number, partial(ended, me, run), managing(other, Resume((run.workflow_id,), "line"))
        )
        row = await site.status(run.workflow_id)
        if managed.ids:
            assert (answer.kind, row["status"], row["owner_xid"]) == (LOST, "ENQUEUED", None)
            assert await site.payload("workflow_output", run.workflow_id) is None
        else:
            assert (answer.kind, row["status"]) == (WRITTEN, "SUCCESS")


async def test_a_delete_against_a_step(site: Site, me: Process) -> None:
    """“Remove workflows with all that belongs to them”: no step stays behind without its run."""
    other = await site.process()
    for number in range(ROUNDS):
        run = await me.running()
        (answer,), managed = await race(
            number,
            partial(me.store.record, [rows.checkpoint(run)]),
            managing(other, Delete((run.workflow_id,))),
        )
        assert managed.ids == (run.workflow_id,)
        assert answer.kind in {WRITTEN, BUSY, LOST}
        assert await site.steps(run.workflow_id) == []
        assert not await site.exists(run.workflow_id)


async def test_a_cancel_of_a_tree_against_the_start_of_a_child(site: Site, me: Process) -> None:
    """“a child that is started meanwhile is either among them or not started”."""
    other = await site.process()
    for number in range(ROUNDS):
        root, middle = await me.running(), rows.direct()
        await me.start(rows.child_of(root, 1, middle))
        children = [rows.enqueued(), rows.enqueued()]
        items = [
            rows.child_of(root, 2, children[0]),
            rows.child_of(middle, 1, children[1]),
        ]
        answers, managed = await race(
            number,
            partial(me.start, *items),
            managing(other, Cancel((root.workflow_id,), children=True)),
        )
        started = {
            child.workflow_id
            for child, answer in zip(children, answers, strict=True)
            if answer.kind is WRITTEN
        }
        assert set(managed.ids) == {root.workflow_id, middle.workflow_id, *started}
        for child in children:
            assert await site.exists(child.workflow_id) is (child.workflow_id in started)
        assert {(await site.status(each))["status"] for each in managed.ids} == {"CANCELLED"}


async def test_a_run_that_commands_while_it_is_cancelled(site: Site, me: Process) -> None:
    """“*lost* …: as for `StepStore.record`”: its step and what it commands are one."""
    other = await site.process()
    for number in range(ROUNDS):
        run, target = await me.running(), await me.waiting()
        command = partial(me.store.manage, Delete((target.workflow_id,)), rows.caller(run))
        answer, managed = await race(
            number, partial(persistently, command), managing(other, Cancel((run.workflow_id,)))
        )
        assert managed.ids == (run.workflow_id,)
        done = answer.kind is WRITTEN
        assert answer.kind in {WRITTEN, LOST}
        assert len(await site.steps(run.workflow_id)) == int(done)
        assert await site.exists(target.workflow_id) is not done


async def test_two_runs_that_command_each_other(site: Site, me: Process) -> None:
    """“locked in id order, the caller's run among them”: one cancels the other, never both."""
    other = await site.process()
    for number in range(ROUNDS):
        one, two = await me.running(), await other.running()
        pair = [
            partial(persistently, partial(by.store.manage, Cancel((of.workflow_id,)), caller))
            for by, of, caller in (
                (me, two, rows.caller(one)),
                (other, one, rows.caller(two)),
            )
        ]
        answers = await race(number, *pair)
        assert sorted(answer.kind.name for answer in answers) == ["LOST", "WRITTEN"]
        states = {(await site.status(each.workflow_id))["status"] for each in (one, two)}
        assert states == {"PENDING", "CANCELLED"}


async def test_managers_of_crossing_trees(site: Site, me: Process) -> None:
    """“The rows it concerns are locked in id order”: each ends as one of the two said."""
    other = await site.process()
    for number in range(ROUNDS):
        roots = [await me.running() for _ in range(2)]
        children = [rows.enqueued() for _ in range(2)]
        for root, child in zip(roots, reversed(children), strict=True):
            await me.start(rows.child_of(root, 1, child))
        ids = tuple(each.workflow_id for each in (*roots, *children))
        cancelled, resumed = await race(
            number,
            managing(me, Cancel(ids[:2], children=True)),
            managing(other, Resume(ids[::-1], "line")),
        )
        assert (set(cancelled.ids), set(resumed.ids)) == (set(ids), set(ids))
        states = {(await site.status(each))["status"] for each in ids}
        assert states <= {"CANCELLED", "ENQUEUED"}
