"""Copies of workflows that go on from a step."""

from collections.abc import Sequence
from sqlite3 import Row

from perdure.errors import WorkflowError
from perdure.model.ids import StepId
from perdure.model.management import Fork, Managed
from perdure.model.wire import INTERNAL_QUEUE, SLEEP
from perdure.store.forks import COPIES, WAITS, Question, copies, question, replacements
from perdure.store.sqlite.concern import packed
from perdure.store.sqlite.work import Work


def fork(work: Work, command: Fork) -> Managed:
    """Insert the copies, or none."""
    items = command.items
    questions = [question(item.source, item.point, item.fork_id) for item in items]
    wanted = copies(items, points(work, questions), work.standing)
    if isinstance(wanted, WorkflowError):
        return Managed(refusal=wanted)
    if wanted:
        forks = packed(wanted)
        work.change(
            "insert_forks",
            forks=forks,
            queue=command.queue_name or INTERNAL_QUEUE,
            partition=command.partition_key,
            version=command.version,
            timeout=command.timeout_ms,
            application=work.application,
            since=work.waiting_since_ms,
        )
        work.change("insert_fork_inputs", forks=forks, now=work.now_ms)
        work.change("mark_forked", forks=forks)
        replaced = packed(replacements(items))
        work.change("copy_steps", forks=forks, replaced=replaced, now=work.now_ms)
        for query in COPIES:
            work.change(query, forks=forks)
    return Managed(tuple(item.fork_id for item in items))


def points(work: Work, questions: Sequence[Question]) -> list[Row]:
    """The answers to the questions."""
    return work.rows("fork_points", asked=packed(questions), limit=SLEEP, waits=packed(WAITS))


def point_of(work: Work, asked: Question) -> StepId | None:
    """The step from which a workflow is to go on."""
    (row,) = points(work, [asked])
    return None if row["point"] is None else StepId(row["point"])
