"""Recording steps and reading them back."""

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.model.answer import LOST, MINE, WRITTEN, Answer, AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.workflow import Checkpoint, StepRow
from perdure.store import rows
from perdure.store.sqlite.concern import Concern, packed
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.transaction import Transaction

HISTORY_PAGE = 2000
"""Steps read at once, so that a reader never holds an old snapshot for long."""

_BEFORE_ALL = -1


class Steps(Concern):
    """`StepStore`."""

    async def record(self, items: Sequence[Checkpoint]) -> list[Answer[StepRow]]:
        """See `perdure.ports.store.StepStore.record`."""
        queries, application = self._queries, self._application

        def work(transaction: Transaction) -> list[Answer[StepRow]]:
            def together(batch: Sequence[Checkpoint]) -> bool:
                return insert_steps(transaction, queries, batch, application)

            def single(item: Checkpoint) -> Answer[StepRow]:
                parameters = step_parameters(item, application, transaction.now_ms)
                if transaction.change(queries["record"], parameters):
                    return WRITTEN
                standing = (item.workflow_id, item.step_id)
                row = transaction.row(queries["standing_steps"], standing)
                if row is None:
                    return LOST
                found = rows.step_row(row)
                return MINE if _is_same(item, found) else Answer(AnswerKind.CONFLICT, found)

            return transaction.answer_each(items, together, single)

        return await self._database.write(work)

    async def history(self, ids: Sequence[WorkflowId]) -> dict[WorkflowId, list[StepRow]]:
        """See `perdure.ports.store.StepStore.history`."""

        def work(connection: Connection) -> dict[WorkflowId, list[StepRow]]:
            found = {workflow_id: self._steps_of(connection, workflow_id) for workflow_id in ids}
            return {workflow_id: steps for workflow_id, steps in found.items() if steps}

        return await self._database.read(work)

    def _steps_of(self, connection: Connection, workflow_id: WorkflowId) -> list[StepRow]:
        steps: list[StepRow] = []
        last = _BEFORE_ALL
        while True:
            page = connection.rows(self._queries["history_page"], (workflow_id, last, HISTORY_PAGE))
            steps += map(rows.step_row, page)
            if len(page) < HISTORY_PAGE:
                return steps
            last = steps[-1].step_id


def insert_steps(
    transaction: Transaction,
    queries: Mapping[str, str],
    items: Sequence[Checkpoint],
    application: str,
) -> bool:
    """Write steps of owned runs together; False if any was not written, whatever the cause."""
    if not items:
        return True
    fences = packed({(item.workflow_id, item.owner) for item in items})
    if transaction.row(queries["lost_runs"], {"fences": fences}) is not None:
        return False
    parameters = [step_parameters(item, application, transaction.now_ms) for item in items]
    return transaction.change_each(queries["insert_step"], parameters) == len(items)


def step_parameters(item: Checkpoint, application: str, now_ms: int) -> tuple[Any, ...]:
    """The parameters of `record`: the item's fields in their order, then who and when."""
    return (*item, application, now_ms)


def _is_same(item: Checkpoint, found: StepRow) -> bool:
    return found.name == item.name and found.completed_at_ms == item.completed_at_ms
