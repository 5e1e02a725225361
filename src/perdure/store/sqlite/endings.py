"""The ways out of PENDING that a run takes: finished, given back."""

from collections.abc import Sequence
from typing import Any

from perdure.model.answer import LOST, WRITTEN, Answer, AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.status import ACTIVE, WorkflowState
from perdure.model.wire import INTERNAL_QUEUE
from perdure.model.workflow import Finish, Outcome, Release
from perdure.store import rows
from perdure.store.sqlite.concern import Concern
from perdure.store.sqlite.instants import later
from perdure.store.sqlite.transaction import Transaction

_WITH_OUTCOME = frozenset({WorkflowState.SUCCESS, WorkflowState.ERROR})
_ENDED = frozenset(state.value for state in WorkflowState if state not in ACTIVE)


class Endings(Concern):
    """`RunStore.finish` and `release`."""

    async def finish(self, items: Sequence[Finish]) -> list[Answer[Outcome]]:
        """See `perdure.ports.store.RunStore.finish`."""
        queries = self._queries

        def work(transaction: Transaction) -> list[Answer[Outcome]]:
            now_ms = transaction.now_ms

            def together(batch: Sequence[Finish]) -> bool:
                endings = [_ending(item, now_ms) for item in batch]
                if transaction.change_each(queries["finish"], endings) != len(batch):
                    return False
                outputs = [_output(item, now_ms) for item in batch if item.state in _WITH_OUTCOME]
                transaction.change_each(queries["insert_output"], outputs)
                return True

            def single(item: Finish) -> Answer[Outcome]:
                if not transaction.change(queries["finish"], _ending(item, now_ms)):
                    return self._standing(transaction, item.workflow_id)
                if item.state in _WITH_OUTCOME:
                    transaction.change(queries["insert_output"], _output(item, now_ms))
                return WRITTEN

            return transaction.answer_each(items, together, single)

        return await self._database.write(work)

    def _standing(self, transaction: Transaction, workflow_id: WorkflowId) -> Answer[Outcome]:
        row = transaction.row(self._queries["standing_outcomes"], (workflow_id,))
        if row is None or row["status"] not in _ENDED:
            return LOST
        return Answer(AnswerKind.MINE, rows.outcome(row))

    async def release(self, items: Sequence[Release]) -> list[Answer[Outcome]]:
        """See `perdure.ports.store.RunStore.release`."""
        statement = self._queries["release"]

        def work(transaction: Transaction) -> list[Answer[Outcome]]:
            now_ms = transaction.now_ms

            def together(batch: Sequence[Release]) -> bool:
                parameters = [_release(item, now_ms) for item in batch]
                return transaction.change_each(statement, parameters) == len(batch)

            def single(item: Release) -> Answer[Outcome]:
                return WRITTEN if transaction.change(statement, _release(item, now_ms)) else LOST

            return transaction.answer_each(items, together, single)

        return await self._database.write(work)


def _ending(item: Finish, now_ms: int) -> tuple[Any, ...]:
    return (item.workflow_id, item.owner, item.state.value, now_ms)


def _output(item: Finish, now_ms: int) -> tuple[Any, ...]:
    return (item.workflow_id, item.output, item.error, now_ms)


def _release(item: Release, now_ms: int) -> tuple[Any, ...]:
    return (
        item.workflow_id,
        item.owner,
        later(now_ms, item.delay_ms),
        1 if item.give_back else 0,
        INTERNAL_QUEUE,
        now_ms,
    )
