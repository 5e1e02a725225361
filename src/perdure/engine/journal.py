"""The one primitive of every durable operation.

*Take the next id → replay if recorded, else perform → record, fenced → return.* Each operation is
a `DurableCall` that says how it performs, replays, and what it means where nothing is recorded.
"""

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from perdure.engine.committer import Entry, Lane, Retry
from perdure.engine.context import PLACE, TRACK, Branch, Opens, Track, describe
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
from perdure.logic.numbering import Numbering
from perdure.model.answer import WRITTEN, Answer, AnswerKind
from perdure.model.ids import StepId, WorkflowId
from perdure.model.status import WorkflowState
from perdure.model.workflow import Checkpoint, Fence, Outcome, StepRow, Together
from perdure.ports.store import Store

T_co = TypeVar("T_co", covariant=True)
Item = TypeVar("Item")
S = TypeVar("S")


class Journal:
    """Records what runs did, each write fenced on its run."""

    __slots__ = ("_retry", "_steps", "_store")

    def __init__(
        self, store: Store, steps: Lane[Checkpoint | Together, Answer[StepRow]], retry: Retry
    ) -> None:
        self._store = store
        self._steps = steps
        self._retry = retry

    async def record(
        self, run: Run, checkpoint: Checkpoint, own: Opens | None = None
    ) -> StepRow | None:
        """Write a step row. Returns the record to adopt if another of that name stands there.

        The open rows of the scopes around it, and of `own`, are written with it where they are not
        known to stand yet. Raises the run's control signal if it is owned no more, `UnexpectedStep`
        if a record of another name stands there, or if the branch has decided its scope without it.
        A cancelled caller's write is withdrawn if it was not sent yet; otherwise the run, and the
        scope whose branch it was, do not end before its answer is known.
        """
        track = TRACK.get()
        if track is None and own is None:
            answer = await self._write(run, checkpoint)
        else:
            answer = await self._write_inside(run, track, checkpoint, own)
        if answer is WRITTEN:
            return None
        kind = answer.kind
        if kind is AnswerKind.WRITTEN or kind is AnswerKind.MINE:
            return None
        if kind is AnswerKind.LOST:
            await self.lose(run)
        return await self.adopt(run, checkpoint.step_id, checkpoint.name, answer.standing)

    async def adopt(
        self, run: Run, step_id: StepId, name: str, standing: StepRow | None
    ) -> StepRow:
        """The record that stands where one was to be written, if it is one of that name."""
        # Whoever recorded it may own the run by now; then nothing more is done for it here.
        fence = Fence(run.workflow_id, run.owner)
        if await self._retry(lambda: self._store.lost([fence]), "asking whether a run was lost"):
            await self.lose(run)
        if standing is None or standing.name != name:
            raise run.disagree(step_id, name, standing)
        note_record(step_id)
        return standing

    async def _write_inside(
        self, run: Run, track: Track | None, checkpoint: Checkpoint, own: Opens | None
    ) -> Answer[StepRow]:
        """Write a row inside a scope with what opens it, and let the scopes around know."""
        due: list[tuple[Opens, Checkpoint]] = []
        if track is not None:
            if track.is_sealed:
                raise run.overstep(checkpoint.step_id, checkpoint.name)
            due = track.openings()
        row = None if own is None else own.opening()
        if own is not None and row is not None:
            due.append((own, row))

        def known(answer: Answer[StepRow]) -> None:
            if answer.kind in _STANDS:
                for scope, _ in due:
                    scope.opened()
                if track is not None:
                    track.note(checkpoint.step_id)

        item = Together(checkpoint, tuple(row for _, row in due)) if due else checkpoint
        answer = await self._write(run, item, known)
        known(answer)
        return answer

    async def submit(
        self,
        run: Run,
        lane: Lane[Item, Answer[S]],
        item: Item,
        step_id: StepId,
        late: Callable[[Answer[S]], None] | None = None,
    ) -> Answer[S]:
        """The answer to a write of the run that is more than a step row; raises if the run is lost.

        `late` is told the answer if the caller was cancelled after the write was sent. With it, the
        caller says whether a record stands under the id then.
        """
        await self.open_scopes(run, step_id)
        if lane.is_full:
            await lane.room()
        entry = lane.submit(item)
        try:
            answer = await entry.future
        except asyncio.CancelledError:
            if late is not None:
                _tell(entry, late)
            await_later(run, entry)
            raise
        except Exception as error:
            raise refused(run, error) from error
        if answer.kind is AnswerKind.LOST:
            await self.lose(run)
        if late is None and answer.kind in _STANDS:
            note_record(step_id)
        return answer

    async def open_scopes(self, run: Run, step_id: StepId) -> None:
        """Write the open rows that are due before a record that another lane writes.

        They are committed just before it, not in one write with it. After a death in between a
        scope is open and nothing of it is recorded: a replay compares the row with the code, as it
        would in any case, and begins the scope. What must never be is the reverse, a record inside
        whose scope is not there to compare.
        """
        track = TRACK.get()
        if track is None:
            return
        if track.is_sealed:
            raise run.overstep(step_id, "another durable call")
        openings = track.openings()
        if openings:
            *before, (_, last) = openings
            item = Together(last, tuple(row for _, row in before)) if before else last
            answer = await self._write(run, item)
            if answer.kind in _STANDS:
                for scope, _ in openings:
                    scope.opened()

    async def _write(
        self,
        run: Run,
        item: Checkpoint | Together,
        late: Callable[[Answer[StepRow]], None] | None = None,
    ) -> Answer[StepRow]:
        """The lane's answer; `late` is told it if the caller was cancelled after it was sent."""
        lane = self._steps
        if lane.is_full:
            await lane.room()
        entry = lane.submit(item)
        try:
            return await entry.future
        except asyncio.CancelledError:
            if late is not None:
                _tell(entry, late)
            await_later(run, entry)
            raise
        except Exception as error:
            raise refused(run, error) from error

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


_STANDS = (AnswerKind.WRITTEN, AnswerKind.MINE)


def _tell(entry: Entry[Item, Answer[S]], late: Callable[[Answer[S]], None]) -> None:
    """Tell an answer whose caller was cancelled: now if it is known, later if the item was sent."""
    future = entry.future
    if future.cancelled():
        if entry.is_out:
            entry.then = late
    elif future.exception() is None:
        late(future.result())


def note_record(step_id: StepId) -> None:
    """A record of the calling code stands under that id; the scopes around it know from here."""
    track = TRACK.get()
    # Inside a step, what is written besides is no record of the step.
    if track is not None and type(PLACE.get()) is Branch:
        track.note(step_id)


def await_later(run: Run, entry: Entry[Any, Any]) -> None:
    """Keep the run from ending before the answer to a write already sent is known.

    An answer that came in the moment its caller was cancelled, just before or after, is known.
    """
    if entry.is_out and entry.future.cancelled() and entry.settled is None:
        entry.settled = asyncio.get_running_loop().create_future()
        run.settle_later(entry.settled)


def unscoped(name: str, place: Branch) -> UnscopedTask:
    """Why a call built in a task of asyncio's has no id."""
    return UnscopedTask(
        f"{name!r} was called in a task that asyncio started inside workflow "
        f"{place.run.workflow_id!r}; its place in the history would depend on scheduling. Give "
        "perdure.gather, select or map the coroutine instead, build the calls in the body, or move "
        "the task's work into a step or a child workflow"
    )


def current_task(name: str, place: Branch) -> asyncio.Task[Any] | None:
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

    is_scope: ClassVar[bool] = False
    """Whether it drives branches, which hear of a signal themselves."""

    def __await__(self) -> Generator[Any, None, T_co]:
        return self._drive().__await__()

    @property
    def is_numbered(self) -> bool:
        """Whether it needs ids of a series of its own as a branch of a scope."""
        return False

    async def drive_within(self, numbering: Numbering) -> T_co:
        """Be a numbered branch of a scope, which gives it that series."""
        raise NotImplementedError

    def spend(self) -> None:
        """It happens no more, whether it has or not: its scope is over. Awaiting it raises."""
        raise NotImplementedError

    def lose(self) -> None:
        """Another branch of its scope decided: no code has seen what it came to."""

    async def _drive(self) -> T_co:
        raise NotImplementedError


class DurableCall(PendingCall[T_co]):
    """A durable operation that has taken its step id and has not run.

    Built where it is written, awaited once, in the same place. Built and dropped it has spent its
    id and does nothing. `name` is what its record is checked against; `step_id` is None where
    nothing is recorded: outside a workflow, inside a step, or after a refusal.
    """

    __slots__ = ("_is_plain", "_place", "_refusal", "_spent", "_task")

    waits: ClassVar[bool] = False
    """Whether the operation only waits: a signal to the run then ends it at once."""

    is_recorded: ClassVar[bool] = True
    """Whether it takes an id in a body; what decides nothing needs none."""

    def __init__(
        self, name: str, refusal: PerdureError | None = None, *, is_plain: bool = False
    ) -> None:
        """Take the place and the id; a `refusal` takes none and is raised where this is awaited.

        What `is_plain` is nowhere recorded.
        """
        self.name = name
        self._is_plain = is_plain
        self._place = place = PLACE.get()
        self._spent = False
        self._refusal = refusal
        self._task: asyncio.Task[Any] | None = None
        self.step_id = None
        if type(place) is Branch and refusal is None and not is_plain:
            if current_task(name, place) is place.task:
                if self.is_recorded:
                    self.step_id = place.numbering.take()
            else:
                self._refusal = unscoped(name, place)

    async def _drive(self) -> T_co:
        place = self._place
        if self._spent or self._refusal is not None or PLACE.get() is not place:
            self._refuse()
        self._spent = True
        if type(place) is not Branch or self._is_plain:
            return await self.plain()
        run = place.run
        if run.signal is not None or run.fault is not None or place.is_over:
            run.check()
            raise asyncio.CancelledError(f"the branch in which {self.name!r} stood has ended")
        self._task = asyncio.current_task()
        run.begin_call(self)
        place.calls += 1
        try:
            if run.history is not None and self.is_recorded:
                row = self._recorded(run)
                if row is not None:
                    return await self.replay(run, row)
            return await self.perform(run)
        except asyncio.CancelledError:
            run.note_cancelled(f"the durable call {self.name!r}", place)
            raise
        finally:
            run.inflight.discard(self)
            place.calls -= 1

    def _recorded(self, run: Run) -> StepRow | None:
        """The record to replay, if there is one; a branch that has decided must find one."""
        row = run.recorded(self.known_id, self.name)
        track = TRACK.get()
        if track is not None:
            if row is not None:
                self.retrace(track, row)
            elif track.is_sealed:
                raise run.overstep(self.known_id, self.name)
        return row

    def retrace(self, track: Track, row: StepRow) -> None:
        """Let the scopes around know of the record that is replayed."""
        track.note(row.step_id)

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

    def spend(self) -> None:
        """See `PendingCall.spend`."""
        self._spent = True

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
    def place(self) -> Branch | None:
        """Where in its run the call stands."""
        return self._place if type(self._place) is Branch else None

    @property
    def interruptible(self) -> bool:
        """Whether a signal to the run ends this call at once."""
        return self.waits

    def interrupt(self) -> asyncio.Task[Any] | None:
        """Cancel the task that drives this call, unless it is the one that says so, and return it.

        That one raises: a cancellation would come after it, at what ends its run.
        """
        if self._task is not None and self._task is not asyncio.current_task():
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
