"""Recording steps and reading them back."""

from collections.abc import Sequence
from typing import Final

from perdure.model.answer import BUSY, LOST, MINE, WRITTEN, Answer, AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.status import WorkflowState
from perdure.model.workflow import Checkpoint, StepRow
from perdure.store import rows
from perdure.store.postgres.batch import in_waves, packed, packed_list
from perdure.store.postgres.concern import Concern
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
        return await self._step_answers(items, written)

    async def _record_around(self, items: Sequence[Checkpoint]) -> list[Answer[StepRow]]:
        (row,) = await self._write_steps("record_around", items)
        if row["recorded"] is None:
            return [WRITTEN] * len(items)
        recorded = {(run, int(step)) for run, step in row["recorded"]}
        written = [(item.workflow_id, item.step_id) in recorded for item in items]
        return await self._step_answers(items, written)

    async def _write_steps(self, query: str, items: Sequence[Checkpoint]) -> list[Record]:
        columns = packed(items, CHECKPOINT_NUMBERS)
        return await self._database.hot(
            "record", query, *columns, self._application, self._database.offset_ms
        )

    async def _step_answers(
        self, items: Sequence[Checkpoint], written: Sequence[bool]
    ) -> list[Answer[StepRow]]:
        """The answers, the reasons of what was not written looked up."""
        left = [item for item, done in zip(items, written, strict=True) if not done]
        asked = packed([(item.workflow_id, item.step_id) for item in left], {1})
        standing = iter(await self._database.hot("record", "standing_steps", *asked))
        return [
            WRITTEN if done else _verdict(item, next(standing))
            for item, done in zip(items, written, strict=True)
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
        page = await self._database.fetch("history", *packed_list(ids), PAGE + 1)
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
            page = await self._database.fetch("history_page", workflow_id, last, PAGE)
            steps += [rows.step_row(row) for row in page]
            if len(page) < PAGE:
                break
            last = steps[-1].step_id
        if steps:
            found[workflow_id] = steps


_BEFORE_ALL = -(2**31)


def _place(item: Checkpoint) -> tuple[tuple[str, int]]:
    return ((item.workflow_id, item.step_id),)


def _verdict(item: Checkpoint, row: Record) -> Answer[StepRow]:
    if row["workflow_uuid"] is not None:
        same = (item.name, item.completed_at_ms)
        if (row["function_name"], row["completed_at_epoch_ms"]) == same:
            return MINE
        return Answer(AnswerKind.CONFLICT, rows.step_row(row))
    if row["run_state"] != WorkflowState.PENDING or row["run_owner"] != item.owner:
        return LOST
    return BUSY
