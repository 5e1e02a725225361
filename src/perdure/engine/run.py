"""One execution of one workflow in this process."""

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from perdure.engine.context import ENDED, Branch
from perdure.errors import (
    ControlSignal,
    ForeignCancellation,
    UndecodableValue,
    UnexpectedStep,
    WorkflowError,
)
from perdure.model.ids import OwnerToken, StepId, WorkflowId
from perdure.model.principal import NOBODY
from perdure.model.workflow import StepRow, WorkflowKey

if TYPE_CHECKING:
    from perdure.engine.kernel import Kernel


class InFlight(Protocol):
    """A durable call under way, as its run sees it."""

    @property
    def is_scope(self) -> bool:
        """Whether it drives branches, which hear of a signal themselves."""
        ...

    @property
    def place(self) -> Branch | None:
        """The branch it stands in."""
        ...

    @property
    def interruptible(self) -> bool:
        """Whether it only waits (or may be preempted), so that a signal ends it at once."""
        ...

    @property
    def waits(self) -> bool:
        """Whether it only waits."""
        ...

    def interrupt(self) -> asyncio.Task[Any] | None:
        """Cancel the task that drives it, and return that."""
        ...


class QueueSlot(Protocol):
    """A run's place among those its process runs of a queue."""

    def free(self) -> None:
        """The row is this process's no more; safe to say twice."""
        ...


_NO_BRANCHES: set[Branch] = set()
_NO_TASKS: set[asyncio.Task[Any]] = set()
_NO_CALLS: set[InFlight] = set()
_NO_ANSWERS: list[asyncio.Future[None]] = []
"""Shared by all runs that have none, and never changed: thousands may be asleep."""

_OVER: Final = WorkflowError("", "a durable call begins in the body of a workflow that has ended")
"""Stands for the fault of a run that is over until somebody asks for it, which few ever do."""


class Run:
    """Ownership, history, and the sticky signal that ends an execution.

    `history` is None where nothing is recorded: a run this process has just inserted, which reads
    nothing, ever, or one that is claimed and has no records yet.
    """

    __slots__ = (
        "__weakref__",
        "attempts",
        "branches",
        "deadline_ms",
        "deadline_timer",
        "dropped",
        "expiry",
        "fault",
        "fault_raised",
        "history",
        "inflight",
        "kernel",
        "key",
        "owner",
        "principal",
        "serialization",
        "signal",
        "slot",
        "task",
        "unsettled",
        "workflow_id",
    )

    def __init__(
        self,
        kernel: "Kernel",
        workflow_id: WorkflowId,
        owner: OwnerToken,
        key: WorkflowKey,
        serialization: str | None,
    ) -> None:
        self.kernel = kernel
        self.workflow_id = workflow_id
        self.owner = owner
        self.key = key
        self.serialization = serialization
        self.attempts = 1
        self.principal = NOBODY
        self.history: dict[StepId, StepRow] | None = None
        self.deadline_ms: int | None = None
        self.deadline_timer: asyncio.TimerHandle | None = None
        self.expiry: asyncio.Task[None] | None = None
        self.task: asyncio.Task[Any] | None = None
        self.signal: ControlSignal | None = None
        self.fault: BaseException | None = None
        self.fault_raised = False
        self.slot: QueueSlot | None = None
        self.branches = _NO_BRANCHES
        self.dropped = _NO_TASKS
        self.inflight = _NO_CALLS
        self.unsettled = _NO_ANSWERS

    def check(self) -> None:
        """Raise what ended this execution, as often as it is asked."""
        self.check_signal()
        if self.fault is not None:
            if self.fault is _OVER:
                self.fault = WorkflowError(
                    self.workflow_id,
                    f"workflow {self.workflow_id!r} has ended; a durable call begins in its body",
                )
            self.fault_raised = True
            raise self.fault

    def check_signal(self) -> None:
        """Raise the control signal that ends this execution, if there is one."""
        if self.signal is not None:
            raise self.signal

    def recorded(self, step_id: StepId, name: str) -> StepRow | None:
        """The recorded row of a step, checked against the name the code has there now."""
        history = self.history
        if history is None:
            return None
        row = history.get(step_id)
        if row is not None and row.name != name:
            raise self.disagree(step_id, name, row)
        return row

    def disagree(self, step_id: StepId, expected: str, row: StepRow | None) -> WorkflowError:
        """The fault that code and history differ; every later durable call raises it again."""
        return self.break_by(
            UnexpectedStep(self.workflow_id, step_id, self._difference(step_id, expected, row))
        )

    def overstep(self, step_id: StepId, name: str) -> WorkflowError:
        """The fault that a branch which decided its scope does more than it had recorded then."""
        return self.break_by(
            UnexpectedStep(
                self.workflow_id,
                step_id,
                f"workflow {self.workflow_id!r} ({self.key}): at step {step_id} a branch that has "
                f"decided its scope makes a durable call when it is replayed, {name!r}, which it "
                "had not recorded when it decided. Branches share nothing but what they return, "
                "and a replay drives the one that decided alone",
            )
        )

    def break_by(self, fault: WorkflowError) -> WorkflowError:
        """Make `fault` the end of this execution unless one is set already; returns the one set."""
        if self.fault is None:
            self.fault = fault
        self.fault_raised = True
        return fault

    def close(self) -> None:
        """The body has ended: a call it left to a helper task must not begin any more."""
        if self.fault is None:
            self.fault = _OVER

    def unreadable(self, step_id: StepId, error: Exception) -> WorkflowError:
        """The fault that a recorded value cannot be read here; a fixed deployment may read it."""
        return self.break_by(
            UnexpectedStep(
                self.workflow_id,
                step_id,
                f"workflow {self.workflow_id!r} ({self.key}): the record of step {step_id} cannot "
                f"be read: {error}",
            )
        )

    def error_of(self, row: StepRow) -> Exception:
        """The error that a step recorded, or the fault that it cannot be read here."""
        errors = self.kernel.registry.serialization.errors
        try:
            return errors.recorded(row.error, row.serialization)
        except UndecodableValue as error:
            return self.unreadable(row.step_id, error)

    def cancelled_by_foreigner(self, what: str) -> BaseException:
        """Something not recorded cancelled a durable call or the body: nothing may follow."""
        if self.fault is None:
            self.fault = ForeignCancellation(
                self.workflow_id,
                f"workflow {self.workflow_id!r}: {what} was cancelled by something whose decision "
                "is not recorded (such as asyncio.timeout, wait_for or Task.cancel), so a replay "
                "could not follow; use perdure.timeout, or give the step a timeout= of its own",
            )
        return self.fault

    def stop(self, signal: ControlSignal, *, now: bool = False) -> None:
        """End this execution by `signal`: calls that only wait end at once, others at their end.

        A body that is in no durable call is cancelled; with `now`, wherever it is. Not the task
        that says so: it raises the signal, and a cancellation would come after that, at what ends
        the run.
        """
        if self.signal is None:
            self.signal = signal
        calls = tuple(self.inflight)
        for call in calls:
            if now or (call.interruptible and not call.is_scope):
                call.interrupt()
        here = asyncio.current_task()
        if self.task is not None and self.task is not here and (now or not calls):
            self.task.cancel()
        if self.branches:
            occupied = () if now else {call.place for call in calls}
            for branch in tuple(self.branches):
                if branch not in occupied and branch.task not in (None, here):
                    branch.task.cancel()

    def begin_call(self, call: InFlight) -> None:
        """A durable call is under way from now on."""
        if self.inflight is _NO_CALLS:
            self.inflight = set()
        self.inflight.add(call)

    def settle_later(self, answer: asyncio.Future[None]) -> None:
        """The run does not end before this is done."""
        if self.unsettled is _NO_ANSWERS:
            self.unsettled = []
        self.unsettled.append(answer)

    def begin_branch(self, branch: Branch) -> None:
        """A branch of a scope is driven from now on."""
        if not self.branches:
            self.branches = set()
        self.branches.add(branch)

    def end_branch(self, branch: Branch) -> None:
        """It is not driven any more: nothing that is left of it takes an id or begins a call."""
        branch.is_over = True
        branch.numbering = ENDED
        self.branches.discard(branch)

    def drop(self, task: asyncio.Task[Any]) -> None:
        """Cancel a task that lost: its cancellation is its scope's, and no fault."""
        if not self.dropped:
            self.dropped = set()
        self.dropped.add(task)
        task.cancel()

    def note_cancelled(self, what: str, place: Branch) -> None:
        """A durable call was cancelled: by a signal, which is raised, by its scope, or by nobody
        whose decision is recorded, which is a fault."""
        if self.signal is not None:
            raise self.signal from None
        if not place.is_over and asyncio.current_task() not in self.dropped:
            self.cancelled_by_foreigner(what)

    @property
    def only_waits(self) -> bool:
        """Whether everything the body does at this moment is waiting in durable calls."""
        calls = self.inflight
        return bool(calls) and all(call.interruptible for call in calls) and self._is_in_calls()

    @property
    def is_stoppable(self) -> bool:
        """Whether a signal would end a durable call of it at this moment."""
        return any(call.interruptible and not call.is_scope for call in self.inflight)

    @property
    def is_busy(self) -> bool:
        """Whether the body does more at this moment than to wait in durable calls."""
        calls = self.inflight
        return not (calls and all(call.waits for call in calls) and self._is_in_calls())

    def _is_in_calls(self) -> bool:
        """Whether no branch is outside of durable calls."""
        return not self.branches or {call.place for call in self.inflight}.issuperset(self.branches)

    def _difference(self, step_id: StepId, expected: str, row: StepRow | None) -> str:
        found = f"recorded is {_describe(row)}" if row else "nothing usable is recorded"
        headline = (
            f"workflow {self.workflow_id!r} ({self.key}): at step {step_id} the code calls "
            f"{expected!r} but {found}. The code changed, or decides by something not recorded "
            "(time, randomness, a global). Recorded around it:"
        )
        lines = [headline]
        history = self.history or {}
        for near in range(step_id - 2, step_id + 3):
            neighbour = history.get(StepId(near))
            if neighbour is not None:
                mark = "→" if near == step_id else " "
                lines.append(f" {mark} {near}: {_describe(neighbour)}")
        return "\n".join(lines)


class RunFactory(Protocol):
    """Makes a run of this engine."""

    def __call__(
        self,
        workflow_id: WorkflowId,
        owner: OwnerToken,
        key: WorkflowKey,
        serialization: str | None,
    ) -> Run:
        """A run that has not begun."""
        ...


def _describe(row: StepRow) -> str:
    if row.child_workflow_id is None:
        return repr(row.name)
    if row.output is None and row.error is None:
        return f"{row.name!r}, the start of workflow {row.child_workflow_id!r}"
    return f"{row.name!r}, about workflow {row.child_workflow_id!r}"
