"""Starts workflows: the row first, then the body, whoever still waits for it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from perdure.engine.committer import Entry, Lane
from perdure.engine.registry import WorkflowDefinition
from perdure.engine.run import RunFactory
from perdure.engine.runner import Runner
from perdure.engine.time import DatabaseTime
from perdure.errors import ConflictingWorkflow, WorkflowIdInUse
from perdure.model.answer import Answer, AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.principal import Principal
from perdure.model.status import WorkflowState
from perdure.model.workflow import Checkpoint, NewWorkflow, StandingWorkflow, Start, WorkflowKey


class Launch(NamedTuple):
    """A workflow about to be started here, with its arguments as a replay would decode them."""

    row: NewWorkflow
    definition: WorkflowDefinition
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    principal: Principal


class Launcher:
    """Writes new rows through the start lane, and launches the runs that are ours."""

    def __init__(
        self,
        starts: Lane[Start, Answer[StandingWorkflow]],
        time: DatabaseTime,
        runner: Runner,
        new_run: RunFactory,
        enqueued: Callable[[NewWorkflow], None],
    ) -> None:
        self._starts = starts
        self._time = time
        self._runner = runner
        self._new_run = new_run
        self._enqueued = enqueued

    async def room(self) -> None:
        """Wait until more rows may be queued."""
        if self._starts.is_full:
            await self._starts.room()

    def submit(
        self, launch: Launch, caller: Checkpoint | None = None
    ) -> Entry[Start, Answer[StandingWorkflow]]:
        """Queue the row for writing.

        When it stands, its run begins, or whoever claims from its queue is told; even if the caller
        is gone by then.
        """
        return self._starts.submit(Start(launch.row, caller), self._then(launch))

    def _then(self, launch: Launch) -> Callable[[Answer[StandingWorkflow]], None]:
        def begin(answer: Answer[StandingWorkflow]) -> None:
            row = launch.row
            written = answer.kind is AnswerKind.WRITTEN
            is_new = written or answer.kind is AnswerKind.MINE
            if row.state is not WorkflowState.PENDING:
                if is_new:
                    self._enqueued(row)
            elif written or (is_new and row.workflow_id not in self._runner.runs):
                self._begin(launch)

        return begin

    def _begin(self, launch: Launch) -> None:
        row = launch.row
        run = self._new_run(row.workflow_id, row.creator, launch.definition.key, row.serialization)
        run.deadline_ms = row.deadline_ms
        run.principal = launch.principal
        left = None
        if row.deadline_ms is not None:
            left = self._time.seconds_until(row.deadline_ms)
        self._runner.launch(
            run, launch.definition, launch.args, launch.kwargs, deadline_left_s=left
        )


def check_joinable(wanted: WorkflowKey, standing: StandingWorkflow, *, reject: bool) -> None:
    """Whether a start under a taken id may join the workflow that stands there; raises if not."""
    if standing.key != wanted:
        raise ConflictingWorkflow(standing.workflow_id, str(wanted), str(standing.key))
    if reject:
        raise WorkflowIdInUse(standing.workflow_id)


def child_id(parent: WorkflowId, step_id: int) -> WorkflowId:
    """The id of a child that was not given one: the same at every replay."""
    return WorkflowId(f"{parent}-{step_id}")
