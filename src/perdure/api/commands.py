"""Commands about workflows: plain outside of a workflow, and recorded steps inside."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from perdure.api.placement import Placement, misfit
from perdure.api.waiting import is_plain, speaker_here
from perdure.engine.context import PLACE
from perdure.engine.desk import Desk, Given
from perdure.engine.journal import DurableCall
from perdure.engine.run import Run
from perdure.errors import (
    InvalidArgument,
    PerdureError,
    UndecodableValue,
    UnknownQueue,
    UnknownVersion,
    UsageError,
)
from perdure.model.answer import AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.listing import ListingRequest
from perdure.model.management import (
    Bounce,
    Caller,
    Cancel,
    Command,
    Delete,
    Fork,
    Import,
    Managed,
    Recorded,
    Resume,
    Rewind,
    SetAttributes,
    SetDelay,
)
from perdure.model.status import WorkflowState
from perdure.model.wire import (
    CANCEL_WORKFLOW,
    DEBOUNCE,
    DELETE_WORKFLOW,
    FORK_WORKFLOW,
    IMPORT_WORKFLOWS,
    INTERNAL_QUEUES,
    PORTABLE_JSON,
    RESUME_WORKFLOW,
    REWIND_WORKFLOW,
    SET_WORKFLOW_DELAY,
    UPDATE_ATTRIBUTES,
)
from perdure.model.workflow import StepRow, WorkflowRow
from perdure.serialization import Serialization, ValueCodec

T = TypeVar("T")

Result = Callable[[Sequence[WorkflowId]], T]
"""What a command returns, made of the ids that it names as its result."""

NAMES: Final[dict[type[Command], str]] = {
    Cancel: CANCEL_WORKFLOW,
    Resume: RESUME_WORKFLOW,
    Fork: FORK_WORKFLOW,
    Rewind: REWIND_WORKFLOW,
    Delete: DELETE_WORKFLOW,
    SetDelay: SET_WORKFLOW_DELAY,
    SetAttributes: UPDATE_ATTRIBUTES,
    Bounce: DEBOUNCE,
    Import: IMPORT_WORKFLOWS,
}
"""The name of the step that gives a command, whether to one workflow or to many."""

_RESUMED: Final = tuple(set(WorkflowState) - {WorkflowState.SUCCESS, WorkflowState.ERROR})
"""The states of what a resume lets go on."""


class CommandCall(DurableCall[T]):
    """One command; in a workflow a step, recorded in the command's own transaction."""

    __slots__ = ("_command", "_desk", "_result")

    def __init__(self, desk: Desk, command: Command, result: Result[T]) -> None:
        name = NAMES[type(command)]
        refusal: PerdureError | None = None
        self._desk, self._command, self._result = desk, command, result
        try:
            speaker_here(name, desk.speaker)
        except PerdureError as error:
            refusal = error
        super().__init__(name, refusal, is_plain=is_plain(desk.speaker))

    async def plain(self) -> T:
        """Give the command; nothing is recorded."""
        await self._check()
        is_patient = PLACE.get() is not None
        return self._outcome(await self._desk.give(self._command, is_patient=is_patient))

    async def perform(self, run: Run) -> T:
        """Give it and record what came of it, a refusal too."""
        journal, desk, command = run.kernel.journal, self._desk, self._command
        caller = Caller(self.checkpoint(run, run.kernel.time.now_ms()), self._record)
        try:
            await self._check()
        except UsageError as refusal:
            return await self._turn_down(run, caller, refusal)
        answer = await journal.submit(run, desk.commands, Given(command, caller), self.known_id)
        standing = answer.standing
        if isinstance(standing, Managed):
            if standing.refusal is not None:
                raise standing.refusal
            await desk.follow(command, standing.ids)
            # Its own run may have been among them.
            run.check_signal()
            return self._outcome(standing)
        if answer.kind is AnswerKind.CONFLICT or standing is None:
            standing = await journal.adopt(run, self.known_id, self.name, standing)
        result = await self.replay(run, standing)
        # A try before was cut off, and maybe nobody has been told.
        await desk.follow(command, self._recorded_result(run, standing).ids)
        return result

    async def replay(self, run: Run, row: StepRow) -> T:
        """What came of it then."""
        if row.error is not None:
            raise run.error_of(row)
        return self._outcome(self._recorded_result(run, row))

    async def _check(self) -> None:
        """Raise what the command cannot be given for, by what is registered now."""
        await check_queue(self._desk, self._command)

    def _outcome(self, managed: Managed) -> T:
        """What the call returns; raises what it is refused for."""
        return self._result(managed.ids)

    async def _turn_down(self, run: Run, caller: Caller, refusal: UsageError) -> T:
        """Record why the command is not given, and raise it."""
        recorded = self._record(Managed(), refusal)
        row = caller.step._replace(**recorded._asdict())
        standing = await run.kernel.journal.record(run, row)
        if standing is not None:
            return await self.replay(run, standing)
        raise refusal

    def _record(self, managed: Managed, refusal: PerdureError | None = None) -> Recorded:
        serialization = self._desk.speaker.serialization
        refusal = refusal or managed.refusal
        if refusal is not None:
            return Recorded(None, serialization.errors.encode(refusal), PORTABLE_JSON)
        ids = managed.ids
        is_single = isinstance(self._command, Fork) and len(ids) == 1
        output, _ = _codec(serialization).encode(ids[0] if is_single else list(ids))
        return Recorded(output, None, PORTABLE_JSON)

    def _recorded_result(self, run: Run, row: StepRow) -> Managed:
        """What a record says; those of other SDKs name a single fork, or none."""
        codec = _codec(run.kernel.registry.serialization)
        try:
            recorded = codec.decode(row.output, row.serialization)
        except UndecodableValue as error:
            raise run.unreadable(row.step_id, error) from error
        if recorded is None:
            return Managed()
        several = [recorded] if isinstance(recorded, str) else recorded
        return Managed(tuple(map(WorkflowId, several)))


def _codec(serialization: Serialization) -> ValueCodec[Any]:
    return serialization.value(list[str] | str | None, "the result of a command")


def _check_keys(found: Sequence[WorkflowRow], queue: str) -> None:
    """Raise `InvalidArgument` for what has no key in a queue that takes nothing without one.

    What is resumed keeps the key that it has, and where it has none it would wait for ever.
    """
    keyless = [row.workflow_id for row in found if row.partition_key is None]
    if keyless:
        raise InvalidArgument(
            f"queue {queue!r} is partitioned and workflow {keyless[0]!r} has no key: resume it on "
            "another queue, or leave queue= out"
        )


async def given(desk: Desk, command: Command, result: Result[T]) -> T:
    """What a command returns that is recorded nowhere."""
    await check_queue(desk, command)
    managed = await desk.give(command, is_patient=PLACE.get() is not None)
    return result(managed.ids)


async def check_queue(desk: Desk, command: Command) -> None:
    """Raise what a command cannot enqueue for, by what is registered now.

    `UnknownQueue`, `UnknownVersion`, or `InvalidArgument` for a key that its queue does not take,
    or that it lacks.
    """
    if not isinstance(command, Resume | Fork | Rewind):
        return
    store = desk.speaker.store
    ask = partial(desk.speaker.ask, is_patient=PLACE.get() is not None)
    name = command.queue_name
    if name is not None and name not in INTERNAL_QUEUES:
        rows = {row.name: row for row in await ask(store.queues, "reading the queues")}
        if name not in rows:
            raise UnknownQueue(name, sorted(rows))
        if isinstance(command, Fork | Rewind):
            reason = misfit(rows[name], Placement(name, partition_key=command.partition_key))
            if reason is not None:
                raise InvalidArgument(reason)
        elif rows[name].settings.partitioned:
            asked = ListingRequest(ids=command.ids, states=_RESUMED, limit=len(command.ids))
            found = await ask(partial(store.list_workflows, asked), "reading the keys")
            _check_keys(found, name)
    if isinstance(command, Fork | Rewind) and command.version is not None:
        known = await ask(store.versions, "reading the versions")
        if command.version not in [row.name for row in known]:
            raise UnknownVersion(command.version, desk.application)
