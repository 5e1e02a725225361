"""Letting calls that come in quick succession become one."""

from typing import Any, TypeVar

from perdure.api.commands import CommandCall
from perdure.api.handle import WorkflowHandle
from perdure.api.starting import Prepared, StartCall, begin
from perdure.engine.desk import Given
from perdure.engine.intake import StartAnswer
from perdure.engine.journal import PendingCall, note_record
from perdure.engine.run import Run
from perdure.errors import PerdureError, QueueDeduplicated, UndecodableValue
from perdure.model.answer import Answer, AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.management import Bounce, Caller, Holder, Managed, Recorded
from perdure.model.wire import PORTABLE_JSON
from perdure.model.workflow import NewWorkflow, StepRow
from perdure.serialization import Serialization, ValueCodec

R = TypeVar("R")

NOT_YET = WorkflowId("")
"""The id of what is not started if one waits already."""

_FIELDS = (
    "bounced_workflow_id",
    "holder_workflow_id",
    "holder_is_debounced",
    "holder_workflow_name",
    "holder_application_name",
)
"""What the record of a bounce says."""


class DebounceCall(PendingCall[WorkflowHandle[R]]):
    """One debounced start, with two ids in a workflow: for the try to push back, and the child's.

    The second is not used where the first finds a workflow to push back.
    """

    __slots__ = ("_bounce", "_start")

    def __init__(self, name: str, start: Prepared) -> None:
        self._bounce: BounceCall[R] = BounceCall(start)
        self._start: FreshCall[R] = FreshCall(name, start)
        super().__init__(self._bounce.name, self._bounce.step_id)

    @property
    def refusal(self) -> PerdureError | None:
        """See `DurableCall.refusal`."""
        return self._bounce.refusal

    async def _drive(self) -> WorkflowHandle[R]:
        handle = await self._bounce
        return await self._start if handle is None else handle

    def spend(self) -> None:
        """See `PendingCall.spend`."""
        self._bounce.spend()
        self._start.spend()


class BounceCall(CommandCall[WorkflowHandle[R] | None]):
    """Push back the workflow that waits under the key; None if none does."""

    __slots__ = ("_start",)

    def __init__(self, start: Prepared) -> None:
        super().__init__(start.plan.intake.desk, bounce_of(start), _no_ids)
        self._start = start

    async def _check(self) -> None:
        await self._start.plan.check()

    def _outcome(self, managed: Managed) -> WorkflowHandle[R] | None:
        return pushed_back(self._start, managed)

    def _record(self, managed: Managed, refusal: PerdureError | None = None) -> Recorded:
        if refusal is not None:
            return super()._record(managed, refusal)
        holder = managed.holder
        values = (
            managed.ids[0] if managed.ids else None,
            None if holder is None else holder.workflow_id,
            holder is not None and holder.is_debounced,
            None if holder is None else holder.name,
            None if holder is None else holder.application_name,
        )
        codec = _codec(self._desk.speaker.serialization)
        output, _ = codec.encode(dict(zip(_FIELDS, values, strict=True)))
        return Recorded(output, None, PORTABLE_JSON)

    def _recorded_result(self, run: Run, row: StepRow) -> Managed:
        codec = _codec(run.kernel.registry.serialization)
        try:
            recorded = codec.decode(row.output, row.serialization)
        except UndecodableValue as error:
            raise run.unreadable(row.step_id, error) from error
        bounced, holder, is_debounced, name, application = map(recorded.get, _FIELDS)
        if bounced is not None:
            return Managed((WorkflowId(bounced),))
        if holder is None:
            return Managed()
        held_by = Holder(WorkflowId(holder), bool(is_debounced), name or "", application)
        return Managed(holder=held_by)


class FreshCall(StartCall[R]):
    """The start of a debounced workflow where none waited; one that came meanwhile is pushed back.

    In a workflow whichever it was is recorded as the child, in one transaction with what was done.
    """

    __slots__ = ()

    async def plain(self) -> WorkflowHandle[R]:
        """See `StartCall.plain`."""
        return await _begin_fresh(self.start)

    async def join(self, run: Run, row: NewWorkflow, answer: StartAnswer) -> WorkflowHandle[R]:
        """See `StartCall.join`: who holds the key is pushed back."""
        standing = answer.standing
        if standing is None or standing.workflow_id == row.workflow_id:
            return await super().join(run, row, answer)
        found = await self._push_back(run)
        if isinstance(found, WorkflowHandle):
            return found
        if found is not None:
            return await self.refuse_by(run, found)
        # Its time came just now.
        await run.kernel.retry.wait_busy(1)
        return await self.perform(run)

    async def _push_back(self, run: Run) -> WorkflowHandle[R] | QueueDeduplicated | None:
        """The workflow that was pushed back, and recorded; why none can be; or None: none waits."""
        journal, desk = run.kernel.journal, self.start.plan.intake.desk
        command = bounce_of(self.start)
        caller = Caller(self.checkpoint(run, run.kernel.time.now_ms()), _child_of)
        answer = await journal.submit(
            run, desk.commands, Given(command, caller), self.known_id, self._note
        )
        self._note(answer)
        standing = answer.standing
        if isinstance(standing, Managed):
            await desk.follow(command, standing.ids)
            try:
                return pushed_back(self.start, standing)
            except QueueDeduplicated as refusal:
                return refusal
        if answer.kind is AnswerKind.CONFLICT or standing is None:
            standing = await journal.adopt(run, self.known_id, self.name, standing)
        return await self.replay(run, standing)

    def _note(self, answer: Answer[Managed | StepRow]) -> None:
        """Let the scopes around know of the record, if there is one."""
        standing = answer.standing
        if not isinstance(standing, Managed) or standing.ids:
            note_record(self.known_id)


async def begin_debounced(start: Prepared) -> WorkflowHandle[Any]:
    """Push back the workflow that waits under the key, or start one; recorded nowhere."""
    await start.plan.check()
    return await _push_back(start) or await _begin_fresh(start)


async def _begin_fresh(start: Prepared) -> WorkflowHandle[Any]:
    """Start one, or push back the one that somebody else started meanwhile."""
    retry, tries = start.plan.intake.desk.speaker.retry, 0
    while True:
        try:
            return await begin(start)
        except QueueDeduplicated:
            handle = await _push_back(start)
        if handle is not None:
            return handle
        # Its time came just now.
        tries += 1
        await retry.wait_busy(tries)


async def _push_back(start: Prepared) -> WorkflowHandle[Any] | None:
    desk = start.plan.intake.desk
    return pushed_back(start, await desk.give(bounce_of(start), is_patient=False))


def bounce_of(start: Prepared) -> Bounce:
    """What pushes a waiting workflow back to make it this call's."""
    return Bounce(start.launch(start.workflow_id or NOT_YET, None).row)


def pushed_back(start: Prepared, managed: Managed) -> WorkflowHandle[Any] | None:
    """The handle of the workflow that was; raises `QueueDeduplicated` if another holds the key."""
    if managed.ids:
        return start.handle(managed.ids[0], must_exist=True)
    holder = managed.holder
    if holder is None:
        return None
    row = bounce_of(start).workflow
    raise QueueDeduplicated(
        row.workflow_id, row.queue_name or "", row.deduplication_id or "", holder.workflow_id
    )


def _child_of(managed: Managed) -> Recorded | None:
    return Recorded(None, None, None, managed.ids[0]) if managed.ids else None


def _no_ids(_: object) -> None:
    """A bounce has a result of another kind."""


def _codec(serialization: Serialization) -> ValueCodec[Any]:
    return serialization.value(dict[str, Any], "the record of a debounced call")
