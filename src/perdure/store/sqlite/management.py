"""Commands about workflows: each one transaction, and with it the step that gives it."""

from collections.abc import Callable
from typing import Any, Final

from perdure.model.answer import LOST, Answer, AnswerKind
from perdure.model.management import (
    Bounce,
    Caller,
    Command,
    Fork,
    Import,
    Managed,
    Rewind,
)
from perdure.model.workflow import StepRow
from perdure.store.commands import named
from perdure.store.sqlite.bouncing import bounce
from perdure.store.sqlite.changing import CHANGES
from perdure.store.sqlite.concern import Concern
from perdure.store.sqlite.forking import fork
from perdure.store.sqlite.importing import import_workflows
from perdure.store.sqlite.rewinding import rewind
from perdure.store.sqlite.steps import insert_step, standing_step
from perdure.store.sqlite.transaction import Transaction
from perdure.store.sqlite.work import Work

_VERBS: Final[dict[type[Command], Callable[[Work, Any], Managed]]] = {
    **CHANGES,
    Fork: fork,
    Rewind: rewind,
    Bounce: bounce,
    Import: import_workflows,
}


class Management(Concern):
    """`ManagementStore`."""

    async def manage(
        self, command: Command, caller: Caller | None = None
    ) -> Answer[Managed | StepRow]:
        """See `perdure.ports.store.ManagementStore.manage`."""
        verb, ids = _VERBS[type(command)], named(command)

        def work(transaction: Transaction) -> Answer[Managed | StepRow]:
            obstacle = None if caller is None else self._obstacle(transaction, caller)
            if obstacle is not None:
                return obstacle
            run_id = None if caller is None else caller.step.workflow_id
            opened = Work(self._access, transaction, run_id)
            opened.look(ids)
            managed = verb(opened, command)
            recorded = None if caller is None else caller.record(managed)
            if caller is not None and recorded is not None:
                step = caller.step._replace(**recorded._asdict())
                insert_step(transaction, self._queries, step, self._application)
            return Answer(AnswerKind.WRITTEN, managed)

        return await self._database.write(work)

    def _obstacle(
        self, transaction: Transaction, caller: Caller
    ) -> Answer[Managed | StepRow] | None:
        """The answer if the step cannot be recorded. Any row of its name is a repeated try's."""
        step = caller.step
        standing = standing_step(transaction, self._queries, step)
        if standing is not None:
            is_mine = standing.name == step.name
            return Answer(AnswerKind.MINE if is_mine else AnswerKind.CONFLICT, standing)
        owned = transaction.row(self._queries["owned_run"], (step.workflow_id, step.owner))
        return None if owned else LOST
