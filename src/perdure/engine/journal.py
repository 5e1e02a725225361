"""The one primitive of every durable operation.

*Take the next id → replay if recorded, else perform → record, fenced → return.* Each operation is
a `DurableCall` that says how it performs, replays, and what it means where nothing is recorded.
"""

import asyncio
from collections.abc import Generator, Sequence
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from perdure.engine.committer import Entry, Lane, Retry
from perdure.engine.context import PLACE, Branch, describe
from perdure.engine.run import Run
from perdure.errors import (
    BuiltElsewhere,
    CallSpent,
    DatabaseUnavailable,
    PerdureError,
    RunInterrupted,
    RunLost,
    UnscopedTask,
    WorkflowCancelled,
    WorkflowError,
)
from perdure.model.answer import WRITTEN, Answer, AnswerKind
from perdure.model.ids import StepId, WorkflowId
from perdure.model.status import WorkflowState
from perdure.model.workflow import Checkpoint, Fence, Outcome, StepRow
from perdure.ports.store import Store

T_co = TypeVar("T_co", covariant=True)


class Journal:
    """Records what runs did, each write fenced on its run."""

    __slots__ = ("_retry", "_steps", "_store")

    def __init__(
        self, store: Store, steps: Lane[Checkpoint, Answer[StepRow]], retry: Retry
    ) -> None:
        self._store = store
        self._steps = steps
        self._retry = retry

    async def record(self, run: Run, checkpoint: Checkpoint) -> StepRow | None:
        """Write a step row. Returns the record to adopt if another of that name stands there.

        Raises the run's control signal if it is owned no more, `UnexpectedStep` if a record of
        another name stands there. A cancelled caller's write is withdrawn if it was not sent yet;
        otherwise the run does not end before its answer is known.
        """
        lane = self._steps
        if lane.is_full:
            await lane.room()
        entry = lane.submit(checkpoint)
        try:
            answer = await entry.future
        except asyncio.CancelledError:
            await_later(run, entry)
            raise
        except Exception as error:
            raise refused(run, error) from error
        if answer is WRITTEN:
            return None
        kind = answer.kind
        if kind is AnswerKind.WRITTEN or kind is AnswerKind.MINE:
            return None
        if kind is AnswerKind.LOST:
            await self.lose(run)
        # Whoever recorded it may own the run by now; then nothing more is done for it here.
        fence = Fence(run.workflow_id, run.owner)
        if await self._retry(lambda: self._store.lost([fence]), "asking whether a run was lost"):
            await self.lose(run)
        standing = answer.standing
        if standing is None or standing.name != checkpoint.name:
            raise run.disagree(checkpoint.step_id, checkpoint.name, standing)
        return standing

    async def lose(self, run: Run) -> NoReturn:
        """The run's row is not ours any more: end the execution, and raise by what."""
        await self.stop_lost([run])
        raise run.signal or RunLost(run.workflow_id)

    async def stop_lost(self, runs: Sequence[Run]) -> Sequence[Outcome]:
        """Find out why these runs' rows are not ours any more, and end the executions by it.

        Returns the outcomes of those that have one by now.
        """
        ids = [run.workflow_id for run in runs if run.signal is None]
        if not ids:
            return ()
        settled = await self._retry(lambda: self._store.settled(ids), "asking why runs were lost")
        cancelled = {
            outcome.workflow_id
            for outcome in settled.outcomes
            if outcome.state is WorkflowState.CANCELLED
        }
        for run in runs:
            kind = WorkflowCancelled if run.workflow_id in cancelled else RunLost
            run.stop(kind(run.workflow_id))
        return settled.outcomes


def await_later(run: Run, entry: Entry[Any, Any]) -> None:
    """Keep the run from ending before the answer to a write already sent is known.

    An answer that came in the moment its caller was cancelled, just before or after, is known.
    """
    if entry.is_out and entry.future.cancelled() and entry.settled is None:
        entry.settled = asyncio.get_running_loop().create_future()
        run.unsettled.append(entry.settled)


def _current_task(name: str, place: Branch) -> asyncio.Task[Any] | None:
    """The task that builds a call; raises in a thread, where nobody would await a refusal."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        raise UnscopedTask(
            f"{name!r} was called in a thread that the body of workflow {place.run.workflow_id!r} "
            "started; call it in the body, and put work for a thread into a `def` step"
        ) from None


def refused(run: Run, error: Exception) -> BaseException:
    """What a write that failed for good does to its run; never the run's outcome."""
    if isinstance(error, DatabaseUnavailable):
        run.stop(RunInterrupted(run.workflow_id))
        return run.signal or error
    return run.break_by(
        WorkflowError(
            run.workflow_id, f"workflow {run.workflow_id!r}: a record was not stored: {error}"
        )
    )


class PendingCall(Generic[T_co]):
    """Anything durable that was built and can be awaited once, where it was built.

    `name` is what its record is checked against; `step_id` is None where nothing is recorded.
    """

    __slots__ = ("name", "step_id")

    def __init__(self, name: str, step_id: StepId | None = None) -> None:
        self.name = name
        self.step_id = step_id

    def __await__(self) -> Generator[Any, None, T_co]:
        return self._drive().__await__()

    async def _drive(self) -> T_co:
        raise NotImplementedError


class DurableCall(PendingCall[T_co]):
    """A durable operation that has taken its step id and has not run.

    Built where it is written, awaited once, in the same place. Built and dropped it has spent its
    id and does nothing. `name` is what its record is checked against; `step_id` is None where
    nothing is recorded: outside a workflow, inside a step, or after a refusal.
    """

    __slots__ = ("_place", "_refusal", "_spent", "_task")

    waits: ClassVar[bool] = False
    """Whether the operation only waits: a signal to the run then ends it at once."""

    def __init__(self, name: str, refusal: PerdureError | None = None) -> None:
        """Take the place and the id; a `refusal` takes none and is raised where this is awaited."""
        self.name = name
        self._place = place = PLACE.get()
        self._spent = False
        self._refusal = refusal
        self._task: asyncio.Task[Any] | None = None
        self.step_id = None
        if type(place) is Branch and refusal is None:
            if _current_task(name, place) is place.task:
                self.step_id = place.numbering.take()
            else:
                self._refusal = UnscopedTask(
                    f"{name!r} was called in a task that asyncio started inside workflow "
                    f"{place.run.workflow_id!r}; its place in the history would depend on "
                    "scheduling. Build the calls in the body and await them with perdure.gather, "
                    "or move the task's work into a step or a child workflow"
                )

    async def _drive(self) -> T_co:
        place = self._place
        if self._spent or self._refusal is not None or PLACE.get() is not place:
            self._refuse()
        self._spent = True
        if type(place) is not Branch:
            return await self.plain()
        run = place.run
        if run.signal is not None or run.fault is not None:
            run.check()
        self._task = asyncio.current_task()
        run.inflight.add(self)
        try:
            if run.history is not None:
                row = run.recorded(self.known_id, self.name)
                if row is not None:
                    return await self.replay(run, row)
            return await self.perform(run)
        except asyncio.CancelledError:
            if run.signal is not None:
                raise run.signal from None
            run.cancelled_by_foreigner(f"the durable call {self.name!r}")
            raise
        finally:
            run.inflight.discard(self)

    def _refuse(self) -> NoReturn:
        if self._refusal is not None:
            raise self._refusal
        if self._spent:
            raise CallSpent(
                f"{self.name!r} was awaited twice; a durable call happens once: call it again for "
                "another, or keep its result"
            )
        raise BuiltElsewhere(
            f"{self.name!r} was built {describe(self._place)} and awaited "
            f"{describe(PLACE.get())}; await it where it was built"
        )

    @property
    def known_id(self) -> StepId:
        """The step id, where there is one."""
        if self.step_id is None:
            raise self._refusal or BuiltElsewhere(f"{self.name!r} has no place in a history")
        return self.step_id

    @property
    def refusal(self) -> PerdureError | None:
        """Why the call cannot be made; raised where it is awaited."""
        return self._refusal

    @property
    def interruptible(self) -> bool:
        """Whether a signal to the run ends this call at once."""
        return self.waits

    def interrupt(self) -> asyncio.Task[Any] | None:
        """Cancel the task that drives this call, and return it."""
        if self._task is not None:
            self._task.cancel()
        return self._task

    async def plain(self) -> T_co:
        """What the operation means where nothing is recorded; raises where it means nothing."""
        raise NotImplementedError

    async def perform(self, run: Run) -> T_co:
        """Do it for the first time, record it, and return what a replay would."""
        raise NotImplementedError

    async def replay(self, run: Run, row: StepRow) -> T_co:
        """Return what the record says."""
        raise NotImplementedError

    def checkpoint(
        self,
        run: Run,
        started_at_ms: int,
        *,
        output: str | None = None,
        error: str | None = None,
        child: WorkflowId | None = None,
        completed_at_ms: int | None = None,
        serialization: str | None = None,
    ) -> Checkpoint:
        """The row that records this call, complete with its completion stamp."""
        return Checkpoint(
            run.workflow_id,
            run.owner,
            self.known_id,
            self.name,
            output,
            error,
            child,
            started_at_ms,
            run.kernel.time.now_ms() if completed_at_ms is None else completed_at_ms,
            serialization,
        )
