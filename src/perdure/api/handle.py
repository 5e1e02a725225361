"""Handles: observe a workflow, wait for its result, cancel it."""

import asyncio
from collections.abc import Generator
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar, cast, overload

from perdure.api.commands import CommandCall
from perdure.api.events import GetEventCall, GetEventsCall
from perdure.api.listing import Listing
from perdure.api.messaging import Message, SendCall
from perdure.api.options import checked_flag
from perdure.api.questions import QuestionCall
from perdure.api.running import check_loop
from perdure.api.streams import StreamReader, reader_on
from perdure.api.waiting import is_plain
from perdure.engine.context import PLACE, Branch
from perdure.engine.desk import Desk
from perdure.engine.journal import DurableCall
from perdure.engine.run import Run
from perdure.engine.waiter import Settlement
from perdure.errors import (
    AwaitedWorkflowCancelled,
    CallSpent,
    PerdureError,
    RecoveryLimitExceeded,
    UndecodableValue,
    WrongPlace,
)
from perdure.logic.durations import Duration, seconds_of
from perdure.model.ids import WorkflowId
from perdure.model.management import Cancel
from perdure.model.status import WorkflowState
from perdure.model.talk import Key
from perdure.model.wire import GET_RESULT, PORTABLE_JSON, SEND
from perdure.model.workflow import Outcome, StepRow, WorkflowRow
from perdure.serialization import ValueCodec

R = TypeVar("R")
T = TypeVar("T")


class Target(NamedTuple, Generic[R]):
    """A workflow somebody refers to: its id, how its result is read, whether its row must exist."""

    desk: Desk
    workflow_id: WorkflowId
    codec: ValueCodec[R]
    must_exist: bool

    async def settlement(self, *, is_patient: bool = False) -> Settlement:
        """Wait until the workflow is terminal; patiently, also when its run is released."""
        return await self.desk.waiter.outcome(
            self.workflow_id, fail_if_missing=self.must_exist, is_patient=is_patient
        )

    def value(self, settlement: Settlement) -> R:
        """The result, or raise what the workflow ended with."""
        outcome = settlement.outcome
        if outcome.state is WorkflowState.SUCCESS:
            return self.codec.decode(outcome.output, outcome.serialization)
        if outcome.state is WorkflowState.ERROR:
            raise self._error(settlement)
        raise _no_result(outcome)

    def _error(self, settlement: Settlement) -> Exception:
        outcome, original = settlement.outcome, settlement.original
        errors = self.desk.speaker.serialization.errors
        error = errors.decode(outcome.error, outcome.serialization)
        if original is not None and type(original) is type(error):
            return error.with_traceback(original.__traceback__)
        return error


def _no_result(outcome: Outcome) -> Exception:
    if outcome.state is WorkflowState.CANCELLED:
        return AwaitedWorkflowCancelled(outcome.workflow_id)
    return RecoveryLimitExceeded(outcome.workflow_id, outcome.attempts)


class ResultCall(DurableCall[R]):
    """One wait for a workflow's result; in a workflow it is a step that records the outcome."""

    __slots__ = ("_timeout_s", "target")

    waits = True

    def __init__(
        self,
        target: Target[R] | None,
        timeout_s: float | None = None,
        *,
        refusal: PerdureError | None = None,
    ) -> None:
        alone = target is not None and is_plain(target.desk.speaker)
        if refusal is None and not alone:
            refusal = self._misplaced(target, timeout_s)
        super().__init__(GET_RESULT, refusal, is_plain=alone)
        self.target = target
        self._timeout_s = timeout_s

    @staticmethod
    def _misplaced(target: Target[R] | None, timeout_s: float | None) -> WrongPlace | None:
        """Why a body cannot wait for it so."""
        place = PLACE.get()
        if type(place) is not Branch:
            return None
        if timeout_s is not None:
            return WrongPlace(
                "result(timeout=...) inside a workflow would not replay; give the child a timeout "
                "with options(timeout=...) instead"
            )
        if target is not None and target.desk is not place.run.kernel.desk:
            return WrongPlace(
                f"workflow {target.workflow_id!r} belongs to another engine; wait for it in a step"
            )
        return None

    def _known(self) -> Target[R]:
        if self.target is None:
            raise CallSpent("the workflow must be started before its result is awaited")
        return self.target

    async def plain(self) -> R:
        """Just wait; in a step as patiently as in a body, for a failure would be recorded."""
        target = self._known()
        check_loop(target.desk.speaker)
        # Until the very end: what runs here may yet have its outcome while the engine stops.
        target.desk.speaker.check_open(is_patient=True)
        is_patient = self._place is not None
        if self._timeout_s is None:
            return target.value(await target.settlement(is_patient=is_patient))
        async with asyncio.timeout(self._timeout_s):
            settlement = await target.settlement(is_patient=is_patient)
        return target.value(settlement)

    async def perform(self, run: Run) -> R:
        """Wait, record the outcome as it stands in the other row, and return or raise it."""
        target = self._known()
        started_at_ms = run.kernel.time.now_ms()
        settlement = await target.settlement(is_patient=True)
        outcome = settlement.outcome
        if outcome.state is WorkflowState.MAX_RECOVERY_ATTEMPTS_EXCEEDED:
            raise _no_result(outcome)
        output, error, label = outcome.output, outcome.error, outcome.serialization
        if outcome.state is WorkflowState.CANCELLED:
            output, label = None, PORTABLE_JSON
            error = run.kernel.registry.serialization.errors.encode(_no_result(outcome))
        standing = await run.kernel.journal.record(
            run,
            self.checkpoint(
                run,
                started_at_ms,
                output=output,
                error=error,
                child=target.workflow_id,
                serialization=label,
            ),
        )
        if standing is not None:
            return await self.replay(run, standing)
        return target.value(settlement)

    async def replay(self, run: Run, row: StepRow) -> R:
        """The recorded outcome; the other workflow's row is not needed any more."""
        target = self._known()
        if row.child_workflow_id not in (None, target.workflow_id):
            self._refuse_other(run, row, target)
        if row.error:
            raise run.error_of(row)
        try:
            return target.codec.decode(row.output, row.serialization)
        except UndecodableValue as error:
            raise run.unreadable(row.step_id, error) from error

    def _refuse_other(self, run: Run, row: StepRow, target: Target[R]) -> NoReturn:
        raise run.disagree(row.step_id, f"{GET_RESULT} of {target.workflow_id}", row)


class WorkflowHandle(Generic[R]):
    """Refers to one workflow, wherever it runs. Dropping it stops nothing.

    Awaiting the handle is awaiting its result. Every method may be called in a workflow too, where
    it is a recorded step; that of a client's handle is none.
    """

    __slots__ = ("_target",)

    def __init__(self, target: Target[R]) -> None:
        self._target = target

    @property
    def target(self) -> Target[R]:
        """What it refers to, for the engine."""
        return self._target

    @property
    def workflow_id(self) -> WorkflowId:
        """The workflow's id."""
        return self._target.workflow_id

    def result(self, timeout: Duration | None = None) -> ResultCall[R]:
        """Wait for the outcome: return the result or raise the recorded error.

        Raises `AwaitedWorkflowCancelled`, `RecoveryLimitExceeded`, `WorkflowNotFound`, and
        `TimeoutError` after `timeout` (the workflow goes on).
        """
        limit = None if timeout is None else seconds_of(timeout, "timeout")
        return ResultCall(self._target, limit)

    def status(self) -> QuestionCall[WorkflowRow]:
        """Read the workflow's row once; raises `WorkflowNotFound`."""
        asked = Listing(self._target.desk.speaker, records=True).get(self.workflow_id)
        # Where questions are recorded they are such calls.
        return cast("QuestionCall[WorkflowRow]", asked)

    def cancel(self, *, children: bool = False) -> CommandCall[None]:
        """Cancel the workflow unless it has its outcome; it stops at its next durable call.

        With `children` all its descendants are cancelled too.
        """
        target = self._target
        command = Cancel((target.workflow_id,), checked_flag("children", children))
        return CommandCall(target.desk, command, lambda _: None)

    def send(
        self,
        message: Any,
        topic: str | None = None,
        *,
        idempotency_key: str | None = None,
        to_forks: bool = False,
    ) -> SendCall:
        """Send the workflow a message; see `perdure.send`."""
        sent = [Message(self.workflow_id, message, topic, idempotency_key)]
        return SendCall(SEND, sent, to_forks=to_forks, speaker=self._target.desk.speaker)

    @overload
    def event(self, key: str, *, timeout: Duration | None = None) -> GetEventCall[Any]: ...
    @overload
    def event(
        self, key: str, *, timeout: Duration | None = None, into: type[T]
    ) -> GetEventCall[T | None]: ...
    def event(
        self, key: str, *, timeout: Duration | None = None, into: Any = Any
    ) -> GetEventCall[Any]:
        """What the workflow published under a key; see `perdure.get_event`."""
        return GetEventCall(self._target.desk.speaker, self.workflow_id, key, timeout, into)

    def events(self) -> GetEventsCall:
        """Everything the workflow published, by key."""
        return GetEventsCall(self._target.desk.speaker, self.workflow_id)

    @overload
    def stream(
        self, key: str, *, offset: int = 0, timeout: Duration | None = None
    ) -> StreamReader[Any]: ...
    @overload
    def stream(
        self, key: str, *, offset: int = 0, timeout: Duration | None = None, into: type[T]
    ) -> StreamReader[T]: ...
    def stream(
        self, key: str, *, offset: int = 0, timeout: Duration | None = None, into: Any = Any
    ) -> StreamReader[Any]:
        """Follow a stream of the workflow; see `perdure.read_stream`."""
        at = Key(self.workflow_id, key)
        return reader_on(self._target.desk.speaker, at, offset, timeout, into)

    def __await__(self) -> Generator[Any, None, R]:
        return self.result().__await__()

    def __repr__(self) -> str:
        return f"WorkflowHandle({self.workflow_id!r})"
