"""Commands about workflows: each one transaction, and with it the step that gives it."""

from collections.abc import Awaitable, Callable
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
from perdure.model.status import WorkflowState
from perdure.model.workflow import StepRow
from perdure.store import rows
from perdure.store.commands import Standing, named
from perdure.store.postgres.batch import packed, past_duplicates
from perdure.store.postgres.bouncing import bounce
from perdure.store.postgres.changing import CHANGES
from perdure.store.postgres.concern import Concern
from perdure.store.postgres.forking import fork
from perdure.store.postgres.importing import import_workflows
from perdure.store.postgres.rewinding import rewind
from perdure.store.postgres.steps import CHECKPOINT_NUMBERS, with_application
from perdure.store.postgres.work import Work

_VERBS: Final[dict[type[Command], Callable[[Work, Any], Awaitable[Managed]]]] = {
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
        # What is inserted meanwhile, such as a fork under the same id, is found the next time.
        return await past_duplicates(lambda: self._manage(command, caller))

    async def _manage(self, command: Command, caller: Caller | None) -> Answer[Managed | StepRow]:
        run_id = None if caller is None else caller.step.workflow_id
        ids = named(command)
        async with self._database.transaction() as transaction:
            work = Work(self._access, transaction, run_id)
            locked = await work.lock(ids if run_id is None else {*ids, run_id})
            work.standing = {each: locked[each] for each in ids if each in locked}
            if caller is None:
                return Answer(AnswerKind.WRITTEN, await _VERBS[type(command)](work, command))
            obstacle = await _obstacle(work, caller, locked.get(caller.step.workflow_id))
            if obstacle is not None:
                return obstacle
            managed = await _VERBS[type(command)](work, command)
            recorded = caller.record(managed)
            if recorded is not None:
                step = caller.step._replace(**recorded._asdict())
                values = packed([step], CHECKPOINT_NUMBERS)
                await work.fetch(
                    "insert_step", *with_application(values, work.application, work.offset_ms)
                )
            return Answer(AnswerKind.WRITTEN, managed)


async def _obstacle(
    work: Work, caller: Caller, run: Standing | None
) -> Answer[Managed | StepRow] | None:
    """The answer if the step cannot be recorded. Any row of its name is a repeated try's."""
    step = caller.step
    place = packed([(step.workflow_id, step.step_id)], {1})
    (row,) = await work.fetch("standing_steps", *place)
    if row["workflow_uuid"] is not None:
        is_mine = row["function_name"] == step.name
        return Answer(AnswerKind.MINE if is_mine else AnswerKind.CONFLICT, rows.step_row(row))
    if run is None or (run.state, run.owner) != (WorkflowState.PENDING.value, step.owner):
        return LOST
    return None
