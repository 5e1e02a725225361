"""Batches large enough to be written as if nothing stood in their way, when something does."""

from __future__ import annotations

from perdure.model.answer import AnswerKind
from perdure.store.postgres.steps import OPTIMISTIC_FROM
from tests.support import rows
from tests.support.database_fixtures import postgres_database, postgres_template
from tests.support.store import Process, Site, kinds

__all__ = ["postgres_database", "postgres_template"]

WRITTEN, MINE, CONFLICT = AnswerKind.WRITTEN, AnswerKind.MINE, AnswerKind.CONFLICT
BUSY, LOST = AnswerKind.BUSY, AnswerKind.LOST

COUNT = OPTIMISTIC_FROM + 4


def but(position: int, kind: AnswerKind, others: AnswerKind = WRITTEN) -> list[AnswerKind]:
    answers = [others] * COUNT
    answers[position] = kind
    return answers


async def test_a_repeated_start_is_mine(site: Site, me: Process) -> None:
    parent = await me.running()
    batch = rows.starts(*[rows.direct() for _ in range(COUNT - 1)])
    batch.append(rows.child_of(parent, 1, rows.direct()))
    assert kinds(await me.store.start(batch, me.executor)) == [WRITTEN] * COUNT
    assert kinds(await me.store.start(batch, me.executor)) == [MINE] * COUNT


async def test_one_taken_id_fails_no_neighbour(site: Site, me: Process) -> None:
    taken = await me.running()
    workflows = [rows.direct() for _ in range(COUNT)]
    workflows[5] = rows.direct(taken.workflow_id)
    assert kinds(await me.start(*workflows)) == but(5, CONFLICT)
    assert await site.payload("workflow_input", workflows[6].workflow_id) is not None


async def test_an_id_twice_in_a_batch_is_judged_against_the_first(site: Site, me: Process) -> None:
    workflows = [rows.direct() for _ in range(COUNT)]
    workflows[9] = rows.direct(workflows[2].workflow_id, inputs='"second"')
    answers = await me.start(*workflows)
    assert kinds(answers) == but(9, CONFLICT)
    assert answers[9].standing is not None
    assert answers[9].standing.creator == workflows[2].creator
    stored = await site.payload("workflow_input", workflows[2].workflow_id)
    assert stored is not None
    assert stored["inputs"] == rows.INPUTS


async def test_children_of_a_lost_parent_are_lost_alone(site: Site, me: Process) -> None:
    parent, cancelled = await me.running(), await me.running()
    await me.cancel([cancelled.workflow_id])
    batch = [rows.child_of(parent, 1 + n, rows.direct()) for n in range(COUNT)]
    batch[3] = rows.child_of(cancelled, 1, rows.direct())
    assert kinds(await me.store.start(batch, me.executor)) == but(3, LOST)
    assert not await site.exists(batch[3].workflow.workflow_id)
    assert len(await site.steps(parent.workflow_id)) == COUNT - 1


async def test_a_child_in_anothers_place_is_a_conflict_with_nobody(site: Site, me: Process) -> None:
    parent = await me.running()
    await me.store.record([rows.checkpoint(parent, 8)])
    batch = [rows.child_of(parent, 1 + n, rows.direct()) for n in range(COUNT)]
    answers = await me.store.start(batch, me.executor)
    assert kinds(answers) == but(7, CONFLICT)
    assert answers[7].standing is None
    assert not await site.exists(batch[7].workflow.workflow_id)


async def test_a_child_beside_a_repeated_id_leaves_each_its_own_answer(me: Process) -> None:
    parent = await me.running()
    child, other = rows.child_of(parent, 1, rows.direct()), rows.direct()
    again = [rows.direct(other.workflow_id), rows.direct(child.workflow.workflow_id)]
    batch = [child, *rows.starts(other, *again)]
    answers = await me.store.start(batch, me.executor)
    assert kinds(answers) == [WRITTEN, WRITTEN, CONFLICT, CONFLICT]


async def test_children_of_a_locked_parent_are_busy(site: Site, me: Process) -> None:
    parent, locked = await me.running(), await me.running()
    batch = [rows.child_of(parent, 1 + n, rows.direct()) for n in range(COUNT)]
    batch[3] = rows.child_of(locked, 1, rows.direct())
    lock = "SELECT 1 FROM workflow_status WHERE workflow_uuid = ? FOR UPDATE"
    async with site.postgres.transaction(lock, locked.workflow_id):
        assert kinds(await me.store.start(batch, me.executor)) == but(3, BUSY)
    assert kinds(await me.store.start(batch[3:4], me.executor)) == [WRITTEN]


async def test_each_step_of_a_batch_has_its_own_answer(site: Site, me: Process) -> None:
    run, cancelled, locked = [await me.running() for _ in range(3)]
    await me.cancel([cancelled.workflow_id])
    standing = rows.checkpoint(run, 1)
    await me.store.record([standing])
    steps = [rows.checkpoint(run, 10 + n) for n in range(COUNT)]
    steps[0] = standing
    steps[1] = rows.checkpoint(run, 1, name="other")
    steps[2] = rows.checkpoint(cancelled)
    steps[3] = rows.checkpoint(locked)
    steps[4] = steps[5]
    lock = "SELECT 1 FROM workflow_status WHERE workflow_uuid = ? FOR UPDATE"
    async with site.postgres.transaction(lock, locked.workflow_id):
        answers = await me.store.record(steps)
    expected = [MINE, CONFLICT, LOST, BUSY, WRITTEN, MINE]
    assert kinds(answers) == expected + [WRITTEN] * (COUNT - 6)
    assert answers[1].standing is not None
    assert answers[1].standing.name == standing.name


async def test_an_old_token_beside_the_new_one_is_lost(site: Site, me: Process) -> None:
    run = await me.running()
    steps = [rows.checkpoint(run, 1 + n) for n in range(COUNT)]
    steps[4] = steps[4]._replace(owner=rows.token())
    assert kinds(await me.store.record(steps)) == but(4, LOST)
    assert len(await site.steps(run.workflow_id)) == COUNT - 1


async def test_values_may_hold_what_separates_them(site: Site, me: Process) -> None:
    run = await me.running()
    texts = ["", "\x1f", "\x1e", "a\x1fb\x1ec", "NULL", "{}", '"', "\\", "é\n\t", "\x1f\x1e" * 3]
    for chosen in ([texts[0]], texts, texts * 3, [texts[1]], [texts[3]]):
        await site.backdoor.run("DELETE FROM operation_outputs")
        steps = [
            rows.checkpoint(run, n, output=text, name=text, error=None if n % 2 else text)
            for n, text in enumerate(chosen, 1)
        ]
        assert kinds(await me.store.record(steps)) == [WRITTEN] * len(steps)
        read = (await me.store.history([run.workflow_id]))[run.workflow_id]
        assert [(step.name, step.output, step.error) for step in read] == [
            (step.name, step.output, step.error) for step in steps
        ]
