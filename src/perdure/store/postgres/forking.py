"""Copies of workflows that go on from a step."""

from collections.abc import Sequence
from typing import Any

from perdure.errors import WorkflowError
from perdure.model.ids import StepId
from perdure.model.management import Fork, Managed
from perdure.model.wire import INTERNAL_QUEUE, SLEEP
from perdure.store.forks import (
    COPIES,
    POINT_NUMBERS,
    WAITS,
    Question,
    copies,
    question,
    replacements,
)
from perdure.store.postgres.batch import packed, packed_columns, packed_list, transposed
from perdure.store.postgres.lanes import Record
from perdure.store.postgres.work import Work


async def fork(work: Work, command: Fork) -> Managed:
    """Insert the copies, or none."""
    items = command.items
    if not items:
        return Managed()
    questions = [question(item.source, item.point, item.fork_id) for item in items]
    wanted = copies(items, await points(work, questions), work.standing)
    if isinstance(wanted, WorkflowError):
        return Managed(refusal=wanted)
    if wanted:
        forks = packed(wanted, {2})
        await work.fetch(
            "insert_forks",
            *forks,
            command.queue_name or INTERNAL_QUEUE,
            command.partition_key,
            command.version,
            command.timeout_ms,
            work.application,
            work.offset_ms,
        )
        await work.fetch("insert_fork_inputs", *forks, work.offset_ms)
        sources = list(dict.fromkeys(copy.source for copy in wanted))
        await work.fetch("mark_forked", *packed_list(sources))
        replaced = transposed(replacements(items), 3)
        columns = packed_columns([*transposed(wanted, 3), *replaced], {2})
        await work.fetch("copy_steps", *columns, work.offset_ms)
        for query in COPIES:
            await work.fetch(query, *forks)
    return Managed(tuple(item.fork_id for item in items))


async def points(work: Work, questions: Sequence[Question]) -> list[Record]:
    """The answers to at least one question."""
    asked: list[Any] = packed(questions, POINT_NUMBERS)
    return await work.fetch("fork_points", *asked, SLEEP, list(WAITS))


async def point_of(work: Work, asked: Question) -> StepId | None:
    """The step from which a workflow is to go on."""
    (row,) = await points(work, [asked])
    return None if row["point"] is None else StepId(row["point"])
