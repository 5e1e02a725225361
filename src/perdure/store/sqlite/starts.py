"""Starting and enqueueing workflows."""

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.model.answer import LOST, MINE, WRITTEN, Answer, AnswerKind
from perdure.model.ids import ExecutorId
from perdure.model.status import WorkflowState
from perdure.model.workflow import NewWorkflow, StandingWorkflow, Start
from perdure.store import rows
from perdure.store.sqlite.concern import Access, Concern
from perdure.store.sqlite.instants import later
from perdure.store.sqlite.steps import insert_steps, step_parameters
from perdure.store.sqlite.transaction import Transaction

StartAnswer = Answer[StandingWorkflow]

AHEAD_MS = 1000
"""How far times of creation may run ahead of the clock to stay apart."""


class Starts(Concern):
    """`RunStore.start`."""

    async def start(
        self, items: Sequence[Start], executor_id: ExecutorId | None
    ) -> list[Answer[StandingWorkflow]]:
        """See `perdure.ports.store.RunStore.start`."""

        def work(transaction: Transaction) -> list[StartAnswer]:
            if executor_id is not None:
                self._require_lease(transaction, executor_id)
            batch = _Batch(self._access, transaction, executor_id)
            return transaction.answer_each(items, batch.together, batch.single)

        return await self._database.write(work)


class _Batch:
    """The items of one call, inside its transaction."""

    def __init__(
        self, access: Access, transaction: Transaction, executor_id: ExecutorId | None
    ) -> None:
        self._queries = access.queries
        self._application = access.application
        self._application_id = access.application_id
        self._transaction = transaction
        self._executor_id = executor_id

    def together(self, items: Sequence[Start]) -> bool:
        transaction, queries = self._transaction, self._queries
        workflows = [item.workflow for item in items]
        inserted = transaction.change_each(
            queries["insert_workflow"], [self._workflow(workflow) for workflow in workflows]
        )
        if inserted != len(items):
            return False
        transaction.change_each(
            queries["insert_input"], [self._input(workflow) for workflow in workflows]
        )
        callers = [item.caller for item in items if item.caller is not None]
        return insert_steps(transaction, queries, callers, self._application)

    def single(self, item: Start) -> StartAnswer:
        found = self._found(item)
        if found is not None:
            return found
        transaction, queries = self._transaction, self._queries
        if item.caller is not None:
            parameters = step_parameters(item.caller, self._application, transaction.now_ms)
            transaction.change(queries["record"], parameters)
        transaction.change(queries["insert_workflow"], self._workflow(item.workflow))
        transaction.change(queries["insert_input"], self._input(item.workflow))
        return WRITTEN

    def _found(self, item: Start) -> StartAnswer | None:
        """The answer if something stands against the item."""
        transaction, queries = self._transaction, self._queries
        new, caller = item.workflow, item.caller
        row = transaction.row(queries["standing_workflows"], (new.workflow_id,))
        if row is not None and row["creator_xid"] == new.creator:
            return MINE
        if row is None and new.deduplication_id is not None:
            holder = (new.queue_name, new.deduplication_id)
            row = transaction.row(queries["deduplication_holder"], holder)
        if row is not None:
            return Answer(AnswerKind.CONFLICT, rows.standing_workflow(row))
        if caller is None:
            return None
        if transaction.row(queries["standing_steps"], (caller.workflow_id, caller.step_id)):
            return Answer(AnswerKind.CONFLICT)
        owned = transaction.row(queries["owned_run"], (caller.workflow_id, caller.owner))
        return None if owned else LOST

    def _workflow(self, new: NewWorkflow) -> tuple[Any, ...]:
        now_ms = self._transaction.now_ms
        direct = new.state is WorkflowState.PENDING
        created_ms = now_ms if direct else waiting_since_ms(self._transaction, self._queries)
        deadline_ms = new.deadline_ms
        if direct and deadline_ms is None:
            deadline_ms = later(now_ms, new.timeout_ms)
        delayed = new.state is WorkflowState.DELAYED
        return (
            new.workflow_id,
            new.state.value,
            new.name,
            new.class_name,
            new.config_name,
            self._executor_id,
            new.application_version,
            self._application_id,
            new.application_name or self._application,
            new.authenticated_user,
            new.authenticated_roles,
            new.assumed_role,
            1 if direct else 0,
            new.priority,
            new.queue_name,
            new.deduplication_id,
            new.partition_key,
            later(now_ms, new.delay_ms or 0) if delayed else None,
            new.timeout_ms,
            deadline_ms,
            new.parent_workflow_id,
            new.serialization,
            new.creator,
            new.creator if direct else None,
            new.attributes,
            new.debounce_ms is not None,
            later(now_ms, new.debounce_ms or None),
            created_ms,
        )

    def _input(self, new: NewWorkflow) -> tuple[Any, ...]:
        return (new.workflow_id, new.inputs, self._transaction.now_ms)


def waiting_since_ms(transaction: Transaction, queries: Mapping[str, str]) -> int:
    """When the workflows enqueued in this transaction were created: later than all before.

    Several calls one after the other fit into a millisecond, and queues are served in the order of
    creation, so the time then runs ahead of the clock a little.
    """
    if transaction.waiting_since_ms is None:
        latest_allowed_ms = transaction.now_ms + AHEAD_MS
        latest = transaction.row(queries["latest_creation"], (latest_allowed_ms,))
        after_ms = transaction.now_ms if latest is None else latest["created_at"] + 1
        transaction.waiting_since_ms = min(max(transaction.now_ms, after_ms), latest_allowed_ms)
    return transaction.waiting_since_ms
