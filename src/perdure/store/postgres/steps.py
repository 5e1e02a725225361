"""Recording steps and verdicts of scopes, and reading them back."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

from perdure.model.answer import BUSY, LOST, MINE, WRITTEN, Answer, AnswerKind
from perdure.model.ids import StepId, WorkflowId
from perdure.model.status import WorkflowState
from perdure.model.talk import Closing
from perdure.model.workflow import Checkpoint, StepRow
from perdure.store import rows
from perdure.store.postgres.batch import (
    in_waves,
    packed,
    packed_columns,
    packed_list,
    past_duplicates,
    transposed,
)
from perdure.store.postgres.concern import Concern
from perdure.store.postgres.database import Database
from perdure.store.postgres.failures import DuplicateKey
from perdure.store.postgres.lanes import Record

OPTIMISTIC_FROM: Final = 16
"""From so many rows on, a batch is first written as if no row stood in its way.

That costs a fifth less, and one statement more if a row does stand there. A small batch gains
nothing, and single writes are what is usually repeated.
"""

PAGE: Final = 5000
"""Steps read at once."""

CHECKPOINT_NUMBERS: Final = frozenset({2, 7, 8})
"""The fields of a checkpoint that are whole numbers."""

CHECKPOINT_WIDTH: Final = len(Checkpoint._fields)

_CLOSING_NUMBERS: Final = CHECKPOINT_NUMBERS | {10, 13, 18, 19, 21, 22, 23}


class Steps(Concern):
    """`StepStore`."""

    async def record(self, items: Sequence[Checkpoint]) -> list[Answer[StepRow]]:
        """See `perdure.ports.store.StepStore.record`."""
        if len(items) >= OPTIMISTIC_FROM:
            try:
                return await self._record(items)
            except DuplicateKey:
                pass
        return await in_waves(items, _place, self._record_around)

    async def _record(self, items: Sequence[Checkpoint]) -> list[Answer[StepRow]]:
        (row,) = await self._write_steps("record", items)
        if row["fenced"] is None:
            return [WRITTEN] * len(items)
        fenced = {(run, owner) for run, owner in row["fenced"]}
        written = [(item.workflow_id, item.owner) in fenced for item in items]
        return await step_answers(self._database, _LANE, items, written)

    async def _record_around(self, items: Sequence[Checkpoint]) -> list[Answer[StepRow]]:
        (row,) = await self._write_steps("record_around", items)
        return await recorded_answers(self._database, _LANE, items, row)

    async def _write_steps(self, query: str, items: Sequence[Checkpoint]) -> list[Record]:
        columns = with_application(
            packed(items, CHECKPOINT_NUMBERS), self._application, self._database.offset_ms
        )
        return await self._database.hot(_LANE, query, *columns)

    async def close_scopes(self, items: Sequence[Closing]) -> list[Answer[StepRow]]:
        """See `perdure.ports.store.StepStore.close_scopes`."""
        return await in_waves(items, _closing_places, self._close)

    async def _close(self, items: Sequence[Closing]) -> list[Answer[StepRow]]:
        columns = _closing_columns(items, self._application, self._database.offset_ms)
        (row,) = await past_duplicates(lambda: self._database.hot(_LANE, "close_scopes", *columns))
        if row["places"] is None:
            return [WRITTEN] * len(items)
        closed = {int(place) for place in row["places"]}
        left = [item for place, item in enumerate(items, 1) if place not in closed]
        asked = [step_place(row) for item in left for row in (item.checkpoint, *item.openings)]
        standing = iter(await standing_steps(self._database, _LANE, asked))
        return [
            WRITTEN
            if place in closed
            else _closing_verdict(item, next(standing), [next(standing) for _ in item.openings])
            for place, item in enumerate(items, 1)
        ]

    async def history(self, ids: Sequence[WorkflowId]) -> dict[WorkflowId, list[StepRow]]:
        """See `perdure.ports.store.StepStore.history`."""
        found: dict[WorkflowId, list[StepRow]] = {}
        chunks = [list(dict.fromkeys(ids))]
        while chunks:
            chunk = chunks.pop()
            if len(chunk) == 1:
                await self._read_pages(chunk[0], found)
            elif chunk and not await self._read_together(chunk, found):
                middle = len(chunk) // 2
                chunks += [chunk[middle:], chunk[:middle]]
        return found

    async def _read_together(
        self, ids: list[WorkflowId], found: dict[WorkflowId, list[StepRow]]
    ) -> bool:
        """Read the steps of these workflows; False, and nothing, if they are more than a page."""
        page = await self._database.kept("history", *packed_list(ids), PAGE + 1)
        if len(page) > PAGE:
            return False
        for row in page:
            step = rows.step_row(row)
            found.setdefault(step.workflow_id, []).append(step)
        for workflow_id in ids:
            if workflow_id in found:
                found[workflow_id].sort(key=lambda step: step.step_id)
        return True

    async def _read_pages(
        self, workflow_id: WorkflowId, found: dict[WorkflowId, list[StepRow]]
    ) -> None:
        steps: list[StepRow] = []
        last = _BEFORE_ALL
        while True:
            page = await self._database.kept("history_page", workflow_id, last, PAGE)
            steps += [rows.step_row(row) for row in page]
            if len(page) < PAGE:
                break
            last = steps[-1].step_id
        if steps:
            found[workflow_id] = steps


_BEFORE_ALL = -(2**31)

_LANE = "record"


async def recorded_answers(
    database: Database, lane: str, items: Sequence[Checkpoint], row: Record
) -> list[Answer[StepRow]]:
    """The answers of a statement that ends with the fragment `recorded_steps`."""
    if row["recorded"] is None:
        return [WRITTEN] * len(items)
    recorded = {(run, int(step)) for run, step in row["recorded"]}
    written = [(item.workflow_id, item.step_id) in recorded for item in items]
    return await step_answers(database, lane, items, written)


async def step_answers(
    database: Database, lane: str, items: Sequence[Checkpoint], written: Sequence[bool]
) -> list[Answer[StepRow]]:
    """The answers, the reasons of what was not written looked up."""
    left = [step_place(item) for item, done in zip(items, written, strict=True) if not done]
    standing = iter(await standing_steps(database, lane, left))
    return [
        WRITTEN if done else step_verdict(item, next(standing))
        for item, done in zip(items, written, strict=True)
    ]


async def standing_steps(
    database: Database, lane: str, places: Sequence[tuple[WorkflowId, StepId]]
) -> list[Record]:
    """What stands at each of these places, and how its run stands."""
    return await database.hot(lane, "standing_steps", *packed(places, {1})) if places else []


def step_place(item: Checkpoint) -> tuple[WorkflowId, StepId]:
    """Where the item's row stands."""
    return item.workflow_id, item.step_id


def with_application(columns: list[Any], application: str | None, offset_ms: int) -> list[Any]:
    """Packed columns that begin with those of a step, with what statements expect behind these."""
    behind = 2 + CHECKPOINT_WIDTH
    return [*columns[:behind], application, offset_ms, *columns[behind:]]


def held_up(row: Record, owner: str) -> Answer[Any]:
    """BUSY if the run is still the owner's, so that only a lock can have kept it, else LOST."""
    if row["run_state"] != WorkflowState.PENDING or row["run_owner"] != owner:
        return LOST
    return BUSY


def _place(item: Checkpoint) -> tuple[tuple[WorkflowId, StepId]]:
    return (step_place(item),)


def step_verdict(item: Checkpoint, row: Record) -> Answer[StepRow]:
    """Why a step was not written, from its row of `standing_steps`."""
    if row["workflow_uuid"] is None:
        return held_up(row, item.owner)
    same = (item.name, item.completed_at_ms)
    if (row["function_name"], row["completed_at_epoch_ms"]) == same:
        return MINE
    return Answer(AnswerKind.CONFLICT, rows.step_row(row))


def _closing_verdict(item: Closing, row: Record, opening_rows: Sequence[Record]) -> Answer[StepRow]:
    verdict = step_verdict(item.checkpoint, row)
    is_void = item.voids and row["function_name"] == item.checkpoint.name
    if verdict.kind is AnswerKind.MINE or (verdict.kind is AnswerKind.CONFLICT and not is_void):
        return verdict
    for opening, opening_row in zip(item.openings, opening_rows, strict=True):
        of_opening = step_verdict(opening, opening_row)
        if of_opening.kind is AnswerKind.CONFLICT:
            return of_opening
    return held_up(row, item.checkpoint.owner)


def _closing_places(item: Closing) -> Iterable[Hashable]:
    yield step_place(item.checkpoint)
    for opening in item.openings:
        yield step_place(opening)
    for step_id in item.put_back:
        yield item.checkpoint.workflow_id, step_id


def _closing_columns(
    items: Sequence[Closing], application: str | None, offset_ms: int
) -> list[Any]:
    """The parameters of `close_scopes`."""
    openings = [
        (*opening, place) for place, item in enumerate(items, 1) for opening in item.openings
    ]
    put_back = [
        (place, step_id) for place, item in enumerate(items, 1) for step_id in item.put_back
    ]
    columns = [
        *zip(*(item.checkpoint for item in items), strict=True),
        [int(item.voids) for item in items],
        *transposed(openings, CHECKPOINT_WIDTH + 1),
        *transposed(put_back, 2),
    ]
    return with_application(packed_columns(columns, _CLOSING_NUMBERS), application, offset_ms)
