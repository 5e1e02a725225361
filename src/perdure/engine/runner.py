"""Executes bodies, and gives every ending its row."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from perdure.engine.committer import Lane
from perdure.engine.context import PLACE, Branch
from perdure.engine.journal import Journal
from perdure.engine.registry import Registry, WorkflowDefinition
from perdure.engine.run import Run
from perdure.engine.services import Tasks
from perdure.engine.waiter import Settlement, Waiter
from perdure.errors import (
    ControlSignal,
    DatabaseError,
    DatabaseRejected,
    DatabaseUnavailable,
    RunInterrupted,
    RunLost,
    SerializationError,
    WaitInterrupted,
    WorkflowCancelled,
)
from perdure.logic.endings import Ending, ending_of, ends_process, release_delay_ms
from perdure.logic.numbering import Numbering
from perdure.model.answer import Answer, AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.status import WorkflowState
from perdure.model.workflow import Finish, Outcome, Release

log = logging.getLogger("perdure")


class Ends(NamedTuple):
    """The lanes that end runs."""

    finishes: Lane[Finish, Answer[Outcome]]
    releases: Lane[Release, Answer[Outcome]]


class Runner:
    """Every run of this process, from its first line to its row's last state."""

    def __init__(
        self, tasks: Tasks, journal: Journal, registry: Registry, ends: Ends, waiter: Waiter
    ) -> None:
        self._tasks = tasks
        self._journal = journal
        self._registry = registry
        self._ends = ends
        self._waiter = waiter
        self._emptied = asyncio.Event()
        self.runs: dict[WorkflowId, Run] = {}
        self.left_behind = 0

    def launch(
        self,
        run: Run,
        definition: WorkflowDefinition,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        deadline_left_s: float | None = None,
    ) -> None:
        """Begin to execute a run whose row this process owns."""
        previous = self.runs.get(run.workflow_id)
        if previous is not None:
            previous.stop(RunLost(run.workflow_id), now=True)
        self.runs[run.workflow_id] = run
        if deadline_left_s is not None:
            if deadline_left_s <= 0:
                run.expiry = self._tasks.spawn(self._expire_unbegun(run))
                return
            loop = asyncio.get_running_loop()
            run.deadline_timer = loop.call_later(deadline_left_s, self._expire, run)
        run.task = self._tasks.spawn(self._execute(run, definition, args, kwargs))

    def refuse(self, run: Run, error: Exception) -> None:
        """End a claimed run whose body could not begin."""
        self._tasks.spawn(self._end_early(run, error))

    def set_aside(self, run: Run) -> None:
        """Dead-letter a claimed run: it was begun more often than its limit allows."""
        self._tasks.spawn(self._set_aside(run))

    async def _end_early(self, run: Run, error: Exception) -> None:
        log.error(
            "workflow %s (%s) could not begin at attempt %d: %s",
            run.workflow_id,
            run.key,
            run.attempts,
            error,
        )
        try:
            await self._raised(run, error)
        except DatabaseError as trouble:
            self._leave_behind(run, trouble)
        finally:
            self._forget(run)

    async def _set_aside(self, run: Run) -> None:
        log.error(
            "workflow %s (%s) was begun %d times without an outcome and is set aside; find out "
            "what ends its process, then resume it",
            run.workflow_id,
            run.key,
            run.attempts - 1,
        )
        try:
            await self._finish(run, WorkflowState.MAX_RECOVERY_ATTEMPTS_EXCEEDED)
        except DatabaseError as trouble:
            self._leave_behind(run, trouble)
        finally:
            self._forget(run)

    async def _execute(
        self,
        run: Run,
        definition: WorkflowDefinition,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        place = Branch(run, Numbering())
        # Set here as well: an eager task runs before whoever spawns it gets to see it.
        run.task = place.task = asyncio.current_task()
        PLACE.set(place)
        error: BaseException | None = None
        value: Any = None
        try:
            run.check_signal()
            value = await definition.fn(*args, **kwargs)
        except BaseException as raised:  # noqa: BLE001 - every ending has its row
            error = raised
        try:
            ending = _what_ended(run, error)
            run.task = None
            has_deadline = run.deadline_timer is not None or run.expiry is not None
            if has_deadline or run.inflight or run.unsettled:
                ending = await self._tie_up(run, ending)
            run.close()
            await self._conclude(run, definition, value, ending)
        except BaseException:
            # It ended without a word of how: whoever waits here asks the database instead.
            self._waiter.hear_all()
            raise
        finally:
            self._forget(run)
            # The task's context leads back to the place: without that circle all of a run goes when
            # it ends, and the thousands that do are no work for the collector.
            place.task = None
            if error is not None and ends_process(error):
                raise error

    def _forget(self, run: Run) -> None:
        if self.runs.get(run.workflow_id) is run:
            del self.runs[run.workflow_id]
            if not self.runs:
                self._emptied.set()
        if run.slot is not None:
            run.slot.free()

    def busy(self) -> int:
        """How many runs do more at this moment than to wait."""
        return sum(run.is_busy for run in self.runs.values())

    def stoppable(self) -> list[WorkflowId]:
        """The runs of which a signal would end something at this moment."""
        return [each for each, run in self.runs.items() if run.is_stoppable]

    def _leave_behind(self, run: Run, trouble: DatabaseError) -> None:
        """The run's last state could not be written: its row goes on as that of a dead process."""
        if isinstance(trouble, DatabaseRejected):
            log.error("workflow %s: its ending cannot be stored: %s", run.workflow_id, trouble)
        self.left_behind += 1

    async def until_empty(self, timeout_s: float) -> None:
        """Wait until no run is left here, at most that long."""
        if self.runs:
            self._emptied.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._emptied.wait()

    async def _tie_up(self, run: Run, error: BaseException | None) -> BaseException | None:
        """Nothing of the run goes on when its row ends; what decides the ending by then."""
        if run.deadline_timer is not None:
            run.deadline_timer.cancel()
        if run.expiry is not None:
            await run.expiry
            error = _what_ended(run, error)
        if run.inflight or run.unsettled:
            await self._settle(run)
        return error

    # A coroutine of each level lives from here until the outcome is written, for thousands of runs
    # at a time, and costs what the collector spends on it besides: there are few.
    async def _conclude(
        self, run: Run, definition: WorkflowDefinition, value: Any, error: BaseException | None
    ) -> None:
        """Write the run's last state; a fault of ours in doing so must not strand its row."""
        try:
            if error is None:
                output, error = self._encoded(run, definition, value)
            if error is None:
                await self._finish(run, WorkflowState.SUCCESS, output=output)
            else:
                await self._raised(run, error)
        except DatabaseUnavailable as trouble:
            self._strand(run, trouble)
        except Exception as fault:  # noqa: BLE001 - whatever it is, the run goes on later
            try:
                await self._release(run, fault, counted=True)
            except DatabaseError as trouble:
                self._strand(run, trouble)

    def _strand(self, run: Run, trouble: DatabaseError) -> None:
        """Leave the run's row behind, and let nobody here wait for it."""
        self._leave_behind(run, trouble)
        self._waiter.fail(run.workflow_id, WaitInterrupted(run.workflow_id))

    async def _settle(self, run: Run) -> None:
        """Nothing the body began is left unrecorded or still running when its row ends."""
        while run.inflight or run.unsettled:
            drivers = [call.interrupt() for call in tuple(run.inflight)]
            waits: set[asyncio.Future[Any]] = {each for each in drivers if each is not None}
            waits.update(answer for answer in run.unsettled if not answer.done())
            run.unsettled.clear()
            if not waits:
                run.inflight.clear()
                break
            await asyncio.wait(waits)

    def _encoded(
        self, run: Run, definition: WorkflowDefinition, value: Any
    ) -> tuple[str | None, SerializationError | None]:
        """The result as text, or why it cannot be stored."""
        codec = self._registry.codecs(definition).result
        try:
            return codec.encode_as(run.serialization, value)[0], None
        except SerializationError as error:
            return None, error

    async def _raised(self, run: Run, error: BaseException) -> None:
        ending = ending_of(error, of_engine=error is run.signal or error is run.fault)
        if ending is Ending.RECORD_ERROR:
            text = self._registry.serialization.errors.encode_as(run.serialization, error)
            await self._finish(run, WorkflowState.ERROR, error=text, original=error)
        elif ending is Ending.LEAVE:
            self._leave(run, error)
        else:
            await self._release(run, error, counted=ending is Ending.RELEASE_COUNTED)

    async def _finish(
        self,
        run: Run,
        state: WorkflowState,
        *,
        output: str | None = None,
        error: str | None = None,
        original: BaseException | None = None,
    ) -> None:
        entry = self._ends.finishes.submit(
            Finish(run.workflow_id, run.owner, state, output, error), _keep
        )
        answer = await entry.future
        if answer.kind is AnswerKind.WRITTEN:
            outcome = Outcome(
                run.workflow_id, state, output, error, run.serialization, run.attempts
            )
            self._waiter.resolve(Settlement(outcome, original))
        elif answer.standing is not None:
            self._waiter.resolve(Settlement(answer.standing))
        else:
            self._leave(run, RunLost(run.workflow_id))

    def _leave(self, run: Run, signal: BaseException) -> None:
        """The row is somebody else's by now: whoever waits here asks the database instead."""
        if isinstance(signal, RunLost):
            log.info("%s; this execution stopped", signal)
        self._forget(run)
        self._waiter.hear_all()

    async def _release(self, run: Run, error: BaseException, *, counted: bool) -> None:
        delay_ms = release_delay_ms(run.attempts) if counted else None
        if counted:
            log.error(
                "workflow %s (%s) could not go on at attempt %d and is tried again in %.1f s: %s",
                run.workflow_id,
                run.key,
                run.attempts,
                (delay_ms or 0) / 1000,
                error or type(error).__name__,
                exc_info=error,
            )
        entry = self._ends.releases.submit(
            Release(run.workflow_id, run.owner, delay_ms, not counted), _keep
        )
        await entry.future
        waited = WaitInterrupted(run.workflow_id) if isinstance(error, ControlSignal) else error
        self._waiter.fail(run.workflow_id, waited)

    def expire_overdue(self, now_ms: int) -> None:
        """Cancel what is past its deadline: timers stand still while a machine is suspended."""
        for run in tuple(self.runs.values()):
            if run.deadline_ms is not None and run.deadline_ms <= now_ms:
                self._expire(run)

    def _expire(self, run: Run) -> None:
        if run.task is not None and run.expiry is None:
            run.expiry = self._tasks.spawn(self._cancel_expired(run))

    async def _expire_unbegun(self, run: Run) -> None:
        await self._cancel_expired(run)
        self._forget(run)

    async def _cancel_expired(self, run: Run) -> None:
        """The deadline passed: the only durable cancellation the engine makes by itself."""
        entry = self._ends.finishes.submit(
            Finish(run.workflow_id, run.owner, WorkflowState.CANCELLED, None, None), _keep
        )
        try:
            answer = await entry.future
        except DatabaseError as trouble:
            self._leave_behind(run, trouble)
            return
        if answer.kind is AnswerKind.WRITTEN:
            run.stop(WorkflowCancelled(run.workflow_id))
            self._waiter.resolve(
                Settlement(
                    Outcome(
                        run.workflow_id,
                        WorkflowState.CANCELLED,
                        None,
                        None,
                        run.serialization,
                        run.attempts,
                    )
                )
            )
        elif answer.standing is not None:
            # Another process was faster, in cancelling it or in finishing it.
            was_cancelled = answer.standing.state is WorkflowState.CANCELLED
            run.stop((WorkflowCancelled if was_cancelled else RunLost)(run.workflow_id))
            self.hear(answer.standing)
        elif answer.kind is AnswerKind.LOST:
            run.stop(RunLost(run.workflow_id))

    def hear(self, outcome: Outcome) -> None:
        """A run of this process has its outcome from elsewhere: whoever waits need not wait for the
        end of its execution here."""
        self._waiter.resolve(Settlement(outcome))

    def interrupt_waiting(self) -> None:
        """End the runs that only wait: a shutdown need not wait with them."""
        for run in tuple(self.runs.values()):
            if run.only_waits:
                run.stop(RunInterrupted(run.workflow_id))

    def interrupt_all(self) -> None:
        """End every run, wherever it is."""
        for run in tuple(self.runs.values()):
            run.stop(RunInterrupted(run.workflow_id), now=True)


def _keep(answer: Answer[Any]) -> None:
    """Marks an item as not to be withdrawn when its caller is cancelled."""


def _what_ended(run: Run, error: BaseException | None) -> BaseException | None:
    """What decides the ending: the sticky signal, then a fault, then what the body did."""
    if run.signal is not None:
        return run.signal
    if run.fault_raised and run.fault is not None:
        return run.fault
    task = run.task
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0:
        if not run.kernel.stopping:
            return run.cancelled_by_foreigner("the body")
        run.signal = RunInterrupted(run.workflow_id)
        return run.signal
    return error
