"""Recording steps and verdicts of scopes, and reading them back."""

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.model.answer import LOST, MINE, WRITTEN, Answer, AnswerKind
from perdure.model.ids import StepId, WorkflowId
from perdure.model.talk import Closing
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
                return standing_answer(transaction, queries, item) or LOST

            return transaction.answer_each(items, together, single)

        return await self._database.write(work)

    async def close_scopes(self, items: Sequence[Closing]) -> list[Answer[StepRow]]:
        """See `perdure.ports.store.StepStore.close_scopes`."""
        return await self._database.write(
            lambda transaction: [self._close(transaction, item) for item in items]
        )

    def _close(self, transaction: Transaction, item: Closing) -> Answer[StepRow]:
        queries, verdict = self._queries, item.checkpoint
        obstacle = standing_answer(transaction, queries, verdict)
        is_void = (
            item.voids
            and obstacle is not None
            and obstacle.standing is not None
            and obstacle.standing.name == verdict.name
        )
        if obstacle is not None and not is_void:
            return obstacle
        missing: list[Checkpoint] = []
        for opening in item.openings:
            standing = standing_answer(transaction, queries, opening)
            if standing is None:
                missing.append(opening)
            elif standing.kind is AnswerKind.CONFLICT:
                return standing
        if not transaction.row(queries["owned_run"], (verdict.workflow_id, verdict.owner)):
            return LOST
        for step_id in item.put_back:
            transaction.change(queries["delete_step"], (verdict.workflow_id, step_id))
            transaction.change(queries["return_message"], (verdict.workflow_id, step_id))
        if is_void:
            transaction.change(queries["delete_step"], step_place(verdict))
        for row in (*missing, verdict):
            insert_step(transaction, queries, row, self._application)
        return WRITTEN

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
    application: str | None,
) -> bool:
    """Write steps of owned runs together; False if any was not written, whatever the cause."""
    if not items:
        return True
    fences = packed({(item.workflow_id, item.owner) for item in items})
    if transaction.row(queries["lost_runs"], {"fences": fences}) is not None:
        return False
    parameters = [step_parameters(item, application, transaction.now_ms) for item in items]
    return transaction.change_each(queries["insert_step"], parameters) == len(items)


def insert_step(
    transaction: Transaction, queries: Mapping[str, str], item: Checkpoint, application: str | None
) -> None:
    """Write a step that nothing is in the way of."""
    parameters = step_parameters(item, application, transaction.now_ms)
    transaction.change(queries["insert_step"], parameters)


def step_place(item: Checkpoint) -> tuple[WorkflowId, StepId]:
    """Where the item's row stands."""
    return item.workflow_id, item.step_id


def step_parameters(item: Checkpoint, application: str | None, now_ms: int) -> tuple[Any, ...]:
    """The parameters of `record`: the item's fields in their order, then who and when."""
    return (*item, application, now_ms)


def in_the_way(
    transaction: Transaction, queries: Mapping[str, str], item: Checkpoint
) -> Answer[StepRow] | None:
    """The answer if the step cannot be recorded, else None."""
    standing = standing_answer(transaction, queries, item)
    if standing is not None:
        return standing
    owned = transaction.row(queries["owned_run"], (item.workflow_id, item.owner))
    return None if owned else LOST


def standing_answer(
    transaction: Transaction, queries: Mapping[str, str], item: Checkpoint
) -> Answer[StepRow] | None:
    """The answer if a row stands under the step id."""
    found = standing_step(transaction, queries, item)
    if found is None:
        return None
    return MINE if _is_same(item, found) else Answer(AnswerKind.CONFLICT, found)


def standing_step(
    transaction: Transaction, queries: Mapping[str, str], item: Checkpoint
) -> StepRow | None:
    """The row under the step id."""
    row = transaction.row(queries["standing_steps"], step_place(item))
    return None if row is None else rows.step_row(row)


def _is_same(item: Checkpoint, found: StepRow) -> bool:
    return found.name == item.name and found.completed_at_ms == item.completed_at_ms
