"""Where commands about workflows are given and outcomes waited for: an engine's, or a client's."""

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, cast

from perdure.engine.committer import Lane
from perdure.engine.hints import HintKind, Hints
from perdure.engine.talk import Speaker
from perdure.engine.waiter import Waiter
from perdure.model.answer import Answer
from perdure.model.ids import WorkflowId
from perdure.model.management import (
    Bounce,
    Caller,
    Cancel,
    Command,
    Delete,
    Fork,
    Import,
    Managed,
    Resume,
    Rewind,
    SetDelay,
)
from perdure.model.status import WorkflowState
from perdure.model.wire import INTERNAL_QUEUE
from perdure.model.workflow import StepRow
from perdure.ports.ids import Ids

_AT_ONCE: Final = 3
"""Commands of bodies under way at a time, each in a transaction of its own: fewer than the
connections that a store has by default for what is not hot."""

_NAMED: Final = 50
"""From more workflows on than these the others are told that there are many."""

_TAKES_AWAY: Final = (Cancel, Resume, Delete, Rewind)


class Given(NamedTuple):
    """A command and the step that gives it."""

    command: Command
    caller: Caller


class Here(Protocol):
    """What works in this process and hears at once of what was done."""

    async def taken(self, ids: Sequence[WorkflowId]) -> None:
        """These workflows were taken from whoever runs them; returns when it has told its runs."""
        ...

    def work_came(self, queue: str) -> None:
        """Work arrived in the queue."""
        ...

    def moved(self, command: SetDelay) -> None:
        """Workflows are due at another instant."""
        ...


class Desk:
    """Gives commands and tells whoever they concern.

    What comes after a command, its hints, nothing depends on: whoever runs a workflow that was
    taken from it finds out by itself, only later.
    """

    def __init__(
        self,
        speaker: Speaker,
        waiter: Waiter,
        hints: Hints,
        ids: Ids,
        application: str | None,
        here: Here | None = None,
    ) -> None:
        self.application = application
        self.speaker = speaker
        self.waiter = waiter
        self.ids = ids
        self.hints = hints
        self._here = here
        self.commands: Lane[Given, Answer[Managed | StepRow]] = Lane(
            "commands", self._carry_out, speaker.retry, max_batch=_AT_ONCE
        )

    async def give(self, command: Command, *, is_patient: bool) -> Managed:
        """What came of a command that is recorded nowhere; raises why it is refused.

        Patiently, it is given also when the engine is about to stop: a failure would be recorded.
        """
        store = self.speaker.store
        answer = await self.speaker.ask(
            partial(store.manage, command),
            f"command {type(command).__name__}",
            is_patient=is_patient,
        )
        # Nothing was recorded, so that there is no record to show.
        managed = cast("Managed", answer.standing)
        if managed.refusal is not None:
            raise managed.refusal
        await self.follow(command, managed.ids)
        return managed

    def work_came(self, queue: str) -> None:
        """Work arrived in the queue: whoever serves it is told."""
        self.hints.announce(HintKind.WORK, queue)
        if self._here is not None:
            self._here.work_came(queue)

    async def follow(self, command: Command, ids: Sequence[WorkflowId]) -> None:
        """Tell whoever is concerned what was done to these workflows."""
        if not ids:
            return
        for queue in _queues(command):
            self.work_came(queue)
        if isinstance(command, _TAKES_AWAY):
            self._tell_taken(ids)
            self.waiter.hear(ids)
            for workflow_id in ids:
                self.speaker.signals.hear_end(workflow_id)
            if self._here is not None:
                await self._here.taken(ids)
        if isinstance(command, Bounce):
            command = SetDelay(tuple(ids), command.workflow.delay_ms)
        if isinstance(command, SetDelay) and self._here is not None:
            self._here.moved(command)

    def _tell_taken(self, ids: Sequence[WorkflowId]) -> None:
        if len(ids) > _NAMED:
            self.hints.announce(HintKind.TAKEN)
            return
        for workflow_id in ids:
            self.hints.announce_workflow(HintKind.TAKEN, workflow_id)

    async def _carry_out(self, items: Sequence[Given]) -> list[Answer[Managed | StepRow]]:
        """Each by itself, side by side; after trouble with one all are given again."""
        store = self.speaker.store
        answers = await asyncio.gather(
            *(store.manage(*item) for item in items), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return [answer for answer in answers if not isinstance(answer, BaseException)]


def _queues(command: Command) -> Collection[str]:
    """Where the command brings work."""
    if isinstance(command, Resume | Fork | Rewind):
        return [command.queue_name or INTERNAL_QUEUE]
    if isinstance(command, Import):
        records = [archive.workflow for archive in command.archives]
        return {
            record.queue_name
            for record in records
            if record.queue_name and record.state == WorkflowState.ENQUEUED
        }
    return []
