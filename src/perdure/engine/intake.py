"""Where workflows are put into queues: an engine's place, or a client's."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from perdure.engine.committer import Entry, Lane
from perdure.engine.desk import Desk
from perdure.engine.launcher import Launch
from perdure.engine.queues import RegisteredQueues
from perdure.errors import DatabaseUnavailable
from perdure.model.answer import Answer, AnswerKind
from perdure.model.status import WorkflowState
from perdure.model.workflow import Checkpoint, StandingWorkflow, Start

StartAnswer = Answer[StandingWorkflow]


class Launches(Protocol):
    """Writes the rows of new workflows."""

    async def room(self) -> None:
        """Wait until more rows may be queued."""
        ...

    def submit(self, launch: Launch, caller: Checkpoint | None = None) -> Entry[Start, StartAnswer]:
        """Queue a row for writing; what is to begin where it stands begins."""
        ...


class Intake(NamedTuple):
    """Where workflows are put into queues, and what is known there.

    `version` is what runs them unless they name another; None is the latest of their application.
    `now_ms` is the database's clock.
    """

    desk: Desk
    queues: RegisteredQueues
    launches: Launches
    version: str | None
    now_ms: Callable[[], int]

    def foreign(self, application: str | None) -> str | None:
        """The application if it is another than this one."""
        return None if application == self.desk.application else application

    def version_of(self, application: str | None) -> str | None:
        """What runs a workflow of that application, None for this one, that names no version."""
        return self.version if self.foreign(application) is None else None


class Submitter:
    """Writes rows for somebody who runs none: they wait in queues, and name no executor."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        store = desk.speaker.store
        self._starts: Lane[Start, StartAnswer] = Lane(
            "starts",
            lambda items: store.start(items, None),
            desk.speaker.retry,
            max_batch=store.capabilities.max_batch,
        )

    def open(self) -> None:
        """Begin to write."""
        self._starts.open(self._desk.speaker.tasks)

    async def close(self) -> None:
        """Stop writing; whoever waits for a row that is not written yet is told so."""
        await self._starts.close(DatabaseUnavailable("the client was closed"))

    async def room(self) -> None:
        """See `Launches.room`."""
        if self._starts.is_full:
            await self._starts.room()

    def submit(self, launch: Launch, caller: Checkpoint | None = None) -> Entry[Start, StartAnswer]:
        """See `Launches.submit`."""
        row = launch.row

        def tell(answer: StartAnswer) -> None:
            is_new = answer.kind in (AnswerKind.WRITTEN, AnswerKind.MINE)
            if is_new and row.state is WorkflowState.ENQUEUED and row.queue_name is not None:
                self._desk.work_came(row.queue_name)

        return self._starts.submit(Start(row, caller), tell)
