"""Scopes: several branches of one run at a time, closed and replayed as one.

A branch is a pending call, which keeps the ids it took when it was built, or a coroutine, which is
driven in a task and a place of its own with ids of its own series. A scope ends when every branch
has returned, or when one of them, or the time, decides. Then the others are stopped, what they had
sent is awaited, and the verdict is written, before any code of the deciding branch's side goes on.
A replay drives the branch that decided, and no other.
"""

import asyncio
import inspect
from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, ClassVar, NoReturn, Protocol, TypeVar

from perdure.engine.context import PLACE, TRACK, Branch, Track, describe
from perdure.engine.journal import PendingCall, current_task, unscoped
from perdure.engine.run import Run
from perdure.errors import (
    BuiltElsewhere,
    CallSpent,
    ControlSignal,
    InvalidArgument,
    PerdureError,
    UnexpectedStep,
    WrongPlace,
)
from perdure.logic.endings import ends_process
from perdure.logic.numbering import Numbering
from perdure.logic.scopes import BY_TIME, CLOSE, Opening, Verdict, decoded, encoded
from perdure.model.answer import AnswerKind
from perdure.model.ids import StepId
from perdure.model.talk import Closing
from perdure.model.wire import PORTABLE_JSON
from perdure.model.workflow import Checkpoint, StepRow

T_co = TypeVar("T_co", covariant=True)

STUCK_S = 60.0
"""How long a replayed branch may be outside of durable calls before it counts as stuck."""


class Ended:
    """How a branch ended."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error

    @property
    def is_signal(self) -> bool:
        """Whether it ended by what stops runs and processes: never a verdict."""
        return isinstance(self.error, ControlSignal) or ends_process(self.error)

    def result(self) -> Any:
        """The value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


class Limb:
    """One branch while it is driven."""

    __slots__ = ("ended", "place", "task", "track")

    def __init__(self, track: Track, place: Branch | None) -> None:
        self.track = track
        self.place = place
        self.task: asyncio.Task[Ended] | None = None
        self.ended: Ended | None = None

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.task is not None and not self.task.done()


class Started(Protocol):
    """Makes the work of a branch in the branch's own place."""

    def __call__(self) -> Coroutine[Any, Any, Any]:
        """The coroutine of the branch."""
        ...


BranchOf = PendingCall[Any] | Coroutine[Any, Any, Any] | Started


class _Closed(Numbering):
    """The ids of a place whose scope is under way, or of a branch that has ended."""

    def take(self) -> StepId:
        """Refuse: the ids that follow are the branches', or nobody's."""
        raise WrongPlace(
            "a durable call cannot be built here while a gather, map, select or timeout of the "
            "same place is under way, or after its branch has ended; build it inside a branch"
        )


_CLOSED = _Closed()


class ScopeCall(PendingCall[T_co]):
    """A scope that has taken its two ids and has not run. Subclasses say when it is decided."""

    __slots__ = (
        "_branches",
        "_is_opened",
        "_limbs",
        "_place",
        "_refusal",
        "_spent",
        "_task",
        "_until_ms",
        "_voids",
        "close_id",
    )

    is_scope: ClassVar[bool] = True
    waits: ClassVar[bool] = True
    interruptible: ClassVar[bool] = True
    """As far as the scope itself is concerned: its branches are asked too."""

    def __init__(
        self, name: str, branches: Sequence[BranchOf], refusal: PerdureError | None = None
    ) -> None:
        super().__init__(name)
        self._branches = branches
        self._place = place = PLACE.get()
        self._refusal = refusal
        self._spent = False
        self._task: asyncio.Task[Any] | None = None
        self._limbs: list[Limb | None] = []
        self._is_opened = False
        self._until_ms: int | None = None
        self._voids = False
        self.close_id: StepId | None = None
        if refusal is not None:
            self._drop()
        elif type(place) is Branch:
            if current_task(name, place) is not place.task:
                self._refusal = unscoped(name, place)
                self._drop()
            elif self._takes_ids:
                self.step_id = place.numbering.take()
                self.close_id = place.numbering.take()

    @property
    def _takes_ids(self) -> bool:
        """Whether it is recorded: one of pending calls alone needs nothing."""
        return any(is_numbered(branch) for branch in self._branches)

    @property
    def place(self) -> Branch | None:
        """Where in its run it stands."""
        return self._place if type(self._place) is Branch else None

    def interrupt(self) -> asyncio.Task[Any] | None:
        """Cancel the task that drives it, and return that."""
        if self._task is not None:
            self._task.cancel()
        return self._task

    def decides(self, ended: Ended) -> bool:
        """Whether a branch that ended so decides the scope."""
        raise NotImplementedError

    def conclude(self, branch: int, ended: Ended) -> T_co:
        """What the scope is once that branch, or the time, has decided."""
        raise NotImplementedError

    def collect(self, limbs: Sequence[Limb]) -> T_co:
        """What it is once all have returned."""
        raise NotImplementedError

    async def plain(self) -> T_co:
        """The same where nothing is recorded."""
        raise NotImplementedError

    @property
    def at_once(self) -> int:
        """How many branches run at a time."""
        return max(len(self._branches), 1)

    async def _drive(self) -> T_co:
        self._claim()
        place = self._place
        if type(place) is not Branch:
            return await self.plain()
        numbering = place.numbering
        place.numbering = _CLOSED
        try:
            return await self._in_run(place, numbering)
        finally:
            if not place.is_over:
                place.numbering = numbering

    async def drive_within(self, numbering: Numbering) -> T_co:
        """Be a branch of another scope of the same place, which gives it a series of its own."""
        self._claim()
        place = self._place
        if type(place) is not Branch:
            return await self.plain()
        return await self._in_run(place, numbering)

    def spend(self) -> None:
        """It is not driven, now or later: a branch of another scope that lost."""
        self._spent = True
        self._drop()

    def _claim(self) -> None:
        place = self._place
        if self._refusal is not None:
            raise self._refusal
        if self._spent:
            raise CallSpent(f"{self.name!r} was awaited twice; a durable call happens once")
        if PLACE.get() is not place:
            raise BuiltElsewhere(
                f"{self.name!r} was built {describe(place)} and awaited {describe(PLACE.get())}; "
                "await it where it was built"
            )
        self._spent = True

    def _drop(self) -> None:
        for branch in self._branches:
            spend(branch)

    async def _in_run(self, place: Branch, numbering: Numbering) -> T_co:
        run = place.run
        run.check()
        self._task = asyncio.current_task()
        run.inflight.add(self)
        try:
            verdict = self._recorded(run)
            if verdict is None:
                return await self._race(place, numbering)
            return await self._replay(place, numbering, verdict)
        except asyncio.CancelledError:
            run.note_cancelled(f"the scope {self.name!r}")
            raise
        finally:
            run.inflight.discard(self)

    # What is recorded

    def _recorded(self, run: Run) -> Verdict | None:
        """The verdict to replay; the open row is compared with what the code has now."""
        if self.step_id is None or self.close_id is None or run.history is None:
            return None
        track = TRACK.get()
        row = run.recorded(self.step_id, self.name)
        if row is not None:
            self._compare(run, row)
            if track is not None:
                track.note(self.step_id)
        closed = run.recorded(self.close_id, self.name + CLOSE)
        if closed is None:
            if row is None and track is not None and track.is_sealed:
                raise run.disagree(self.step_id, self.name, None)
            return None
        verdict = self._verdict(run, closed)
        if verdict is not None and track is not None:
            track.note(self.close_id)
        return verdict

    def _compare(self, run: Run, row: StepRow) -> None:
        """The open row says how many branches there were."""
        self._is_opened = True
        opening = decoded(row, Opening)
        if opening is None:
            raise run.disagree(row.step_id, self.name, row)
        if opening.branches != self._numbered:
            raise run.break_by(self._other_number(run, opening))
        self._until_ms = opening.until_ms

    def _verdict(self, run: Run, row: StepRow) -> Verdict | None:
        """The verdict of a close row, None if it is void: the scope then runs afresh."""
        verdict = decoded(row, Verdict)
        if verdict is None or not BY_TIME <= verdict.branch < len(self._branches):
            raise run.break_by(self._unknown_branch(run, verdict))
        self._voids = verdict.is_void(run.history or ())
        return None if self._voids else verdict

    @property
    def _numbered(self) -> int:
        return sum(is_numbered(branch) for branch in self._branches)

    def opening(self) -> Checkpoint | None:
        """See `perdure.engine.context.Opens`."""
        place = self.place
        if self._is_opened or self.step_id is None or place is None:
            return None
        self._is_opened = True
        opening = Opening(self._numbered, self._until_ms)
        return self._row(place.run, self.step_id, self.name, encoded(opening))

    def not_opened(self) -> None:
        """See `perdure.engine.context.Opens`."""
        self._is_opened = False

    def _row(self, run: Run, step_id: StepId, name: str, output: str) -> Checkpoint:
        now_ms = run.kernel.time.now_ms()
        return Checkpoint(
            run.workflow_id,
            run.owner,
            step_id,
            name,
            output,
            None,
            None,
            now_ms,
            now_ms,
            PORTABLE_JSON,
        )

    def _other_number(self, run: Run, opening: Opening) -> UnexpectedStep:
        return UnexpectedStep(
            run.workflow_id,
            int(self.step_id or 0),
            f"workflow {run.workflow_id!r} ({run.key}): {self.name!r} at step {self.step_id} was "
            f"recorded with {opening.branches} coroutine branches and has {self._numbered} now: "
            f"{self._listed()}. The ids of branches depend on their number: it must not change "
            "under a running workflow",
        )

    def _unknown_branch(self, run: Run, verdict: Verdict | None) -> UnexpectedStep:
        recorded = "something unreadable" if verdict is None else f"branch {verdict.branch}"
        return UnexpectedStep(
            run.workflow_id,
            int(self.close_id or 0),
            f"workflow {run.workflow_id!r} ({run.key}): recorded at step {self.close_id} is that "
            f"{recorded} decided {self.name!r}, which is no longer there. Branches now: "
            f"{self._listed()}",
        )

    def _listed(self) -> str:
        shown = [f"{index}: {named(branch)}" for index, branch in enumerate(self._branches[:10])]
        more = len(self._branches) - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more > 0 else "")

    # The first time

    async def _race(self, place: Branch, numbering: Numbering) -> T_co:
        run = place.run
        await self.begin(run)
        race = _Race(self, place, numbering)
        self._limbs = race.limbs
        try:
            decided = await race.until_decided()
        finally:
            await race.stop()
        if race.abort is not None:
            raise race.abort
        limbs = [limb for limb in race.limbs if limb is not None]
        if decided is None:
            outer = TRACK.get()
            if outer is None or not outer.is_leaf:
                for limb in limbs:
                    limb.track.told(*tuple(limb.track.untold))
            return self.collect(limbs)
        if self.close_id is not None:
            await self._close(run, race, decided, numbering)
        return self.conclude(decided, race.ended(decided))

    async def _close(self, run: Run, race: "_Race", decided: int, numbering: Numbering) -> None:
        winner = None if decided == BY_TIME else race.limbs[decided]
        highest = None if winner is None else winner.track.highest
        verdict = Verdict(decided, highest, numbering.upcoming)
        row = self._row(run, StepId(self.close_id or 0), self.name + CLOSE, encoded(verdict))
        untold: set[StepId] = set()
        for limb in race.limbs:
            if limb is not None and limb is not winner:
                untold |= limb.track.untold
        opening = self.opening()
        openings = () if opening is None else (opening,)
        if self._voids or untold:
            item = Closing(row, openings, self._voids, tuple(sorted(untold)))
            lane = run.kernel.talk.closings
            answer = await run.kernel.journal.submit(run, lane, item, row.step_id)
            if answer.kind is AnswerKind.CONFLICT:
                raise run.disagree(row.step_id, row.name, answer.standing)
        else:
            await run.kernel.journal.record(run, row, openings)
        outer = TRACK.get()
        if winner is not None and (outer is None or not outer.is_leaf):
            winner.track.told(*tuple(winner.track.untold))
        for limb in race.limbs:
            if limb is not None and limb is not winner:
                limb.track.told(*untold)

    # Again

    async def _replay(self, place: Branch, numbering: Numbering, verdict: Verdict) -> T_co:
        run = place.run
        for index, branch in enumerate(self._branches):
            if index != verdict.branch:
                spend(branch)
        if verdict.branch == BY_TIME:
            numbering.go_on_at(verdict.next_id)
            return self.conclude(BY_TIME, Ended())
        race = _Race(self, place, numbering, alone=verdict.branch)
        self._limbs = race.limbs
        try:
            ended = await self._alone(run, race, verdict.branch)
        finally:
            await race.stop()
        numbering.go_on_at(verdict.next_id)
        if race.abort is not None:
            raise race.abort
        return self.conclude(verdict.branch, ended)

    async def _alone(self, run: Run, race: "_Race", index: int) -> Ended:
        """Drive the branch that decided; what it needs of the others it cannot get."""
        race.start(index)
        limb = race.limbs[index]
        task = None if limb is None else limb.task
        if task is None:
            raise AssertionError("the branch that decided was not started")
        was_quiet = False
        while not task.done():
            await asyncio.wait([task], timeout=STUCK_S)
            is_quiet = not any(not call.is_scope for call in run.inflight)
            if not task.done() and is_quiet and was_quiet:
                self._stuck(run, index)
            was_quiet = is_quiet
        return race.note_end(index)

    def _stuck(self, run: Run, index: int) -> NoReturn:
        raise run.break_by(
            UnexpectedStep(
                run.workflow_id,
                int(self.close_id or 0),
                f"workflow {run.workflow_id!r} ({run.key}): branch {index} of {self.name!r}, which "
                "decided it, does not go on when it is replayed: it waits for something that "
                "another branch did. Branches share nothing but what they return",
            )
        )

    async def begin(self, run: Run) -> None:
        """What is to be recorded before any branch begins."""

    def limit_s(self, run: Run) -> float | None:
        """How many seconds are left to the scope, None for ever."""
        del run
        return None

    @property
    def branches(self) -> Sequence[BranchOf]:
        """What it drives."""
        return self._branches


class _Race:
    """The branches of one scope while they run."""

    def __init__(
        self,
        scope: ScopeCall[Any],
        place: Branch,
        numbering: Numbering,
        *,
        alone: int | None = None,
    ) -> None:
        self._scope = scope
        self._place = place
        self._run = place.run
        self._numbering = numbering
        self._series = self._numbers(numbering)
        self._outer = TRACK.get()
        self._is_sealed = alone is not None
        self.limbs: list[Limb | None] = [None] * len(scope.branches)
        self.abort: BaseException | None = None
        self._ends: list[int] = []
        self._woken = asyncio.Event()

    def _numbers(self, numbering: Numbering) -> list[Numbering | None]:
        numbered = [is_numbered(branch) for branch in self._scope.branches]
        series = iter(numbering.split(sum(numbered)) if any(numbered) else ())
        return [next(series) if each else None for each in numbered]

    def start(self, index: int) -> None:
        """Begin to drive a branch."""
        branch, numbering = self._scope.branches[index], self._series[index]
        track = Track(
            self._scope,
            self._outer,
            is_leaf=isinstance(branch, PendingCall),
            is_sealed=self._is_sealed,
        )
        place = None
        if numbering is not None and not isinstance(branch, ScopeCall):
            place = Branch(self._run, numbering, None)
            self._run.begin_branch(place)
        limb = self.limbs[index] = Limb(track, place)
        limb.task = self._run.kernel.tasks.branch(_contained(limb, branch, numbering))
        if place is not None:
            place.task = limb.task
        limb.task.add_done_callback(partial(self._on_end, index))

    def _on_end(self, index: int, done: asyncio.Task[Any]) -> None:
        if index != BY_TIME or not done.cancelled():
            self._ends.append(index)
            self._woken.set()

    async def until_decided(self) -> int | None:
        """The branch that decides, or `BY_TIME`; None once all have returned."""
        waiting = iter(range(len(self.limbs)))
        left = len(self.limbs)
        for index in _first(waiting, self._scope.at_once):
            self.start(index)
        timer = self._timer()
        try:
            while left:
                await self._woken.wait()
                self._woken.clear()
                ends, self._ends = sorted(self._ends), []
                left -= sum(index != BY_TIME for index in ends)
                for index in ends:
                    if index != BY_TIME and self._decides(index):
                        return index
                if self.abort is not None:
                    return None
                if BY_TIME in ends:
                    return BY_TIME
                for index in _first(waiting, len(ends)):
                    self.start(index)
            return None
        finally:
            if timer is not None:
                timer.cancel()

    def _decides(self, index: int) -> bool:
        return self._scope.decides(self.note_end(index)) and self.abort is None

    def _timer(self) -> asyncio.Task[Any] | None:
        left_s = self._scope.limit_s(self._run)
        if left_s is None:
            return None
        timer = self._run.kernel.tasks.branch(_rest(self._run, left_s))
        timer.add_done_callback(partial(self._on_end, BY_TIME))
        return timer

    def note_end(self, index: int) -> Ended:
        """How a branch that is over ended; what ends the run ends the scope without a verdict."""
        limb = self.limbs[index]
        if limb is None or limb.task is None:
            raise AssertionError("a branch that never began cannot have ended")
        task, run = limb.task, self._run
        ended = Ended(error=asyncio.CancelledError()) if task.cancelled() else task.result()
        limb.ended = ended
        if ended.error is not None and self.abort is None:
            self.abort = run.signal or run.fault or (ended.error if ended.is_signal else None)
        return ended

    def ended(self, index: int) -> Ended:
        """How the branch ended; the time ends like a branch without a value."""
        limb = None if index == BY_TIME else self.limbs[index]
        return (limb.ended if limb is not None else None) or Ended()

    async def stop(self) -> None:
        """End what still runs: from here on it takes no id and records nothing more."""
        run = self._run
        alive = [limb for limb in self.limbs if limb is not None and limb.is_alive]
        for limb in alive:
            if limb.place is not None:
                limb.place.is_over = True
                limb.place.numbering = _CLOSED
            if limb.task is not None:
                run.drop(limb.task)
        cancelled = await _all_done([limb.task for limb in alive if limb.task is not None])
        unsettled = [answer for answer in run.unsettled if not answer.done()]
        cancelled = await _all_done(unsettled) or cancelled
        self._forget(alive)
        if cancelled is not None:
            raise cancelled

    def _forget(self, alive: Sequence[Limb]) -> None:
        run = self._run
        for limb in alive:
            if limb.task is not None:
                run.dropped.discard(limb.task)
        for index, begun in enumerate(self.limbs):
            if begun is None or (begun.task is not None and begun.task.cancelled()):
                spend(self._scope.branches[index])
            if begun is not None and begun.place is not None:
                begun.place.is_over = True
                run.branches.discard(begun.place)
        for series in self._series:
            if series is not None:
                self._numbering.resume_above(series.highest)


async def _contained(limb: Limb, branch: BranchOf, numbering: Numbering | None) -> Ended:
    """Drive a branch; whatever it raises is how it ended, for a task that raised what ends a
    process would tear the loop down."""
    TRACK.set(limb.track)
    try:
        if isinstance(branch, ScopeCall) and numbering is not None:
            return Ended(await branch.drive_within(numbering))
        if limb.place is not None:
            limb.place.task = asyncio.current_task()
            PLACE.set(limb.place)
        return Ended(await (branch() if callable(branch) else branch))
    except BaseException as error:  # noqa: BLE001 - carried to where the ends are looked at
        return Ended(error=error)


async def _rest(run: Run, seconds: float) -> None:
    await run.kernel.clock.sleep(seconds)


async def _all_done(waited: Sequence["asyncio.Future[Any]"]) -> asyncio.CancelledError | None:
    """Wait for all, also when cancelled meanwhile; returns by what."""
    cancelled: asyncio.CancelledError | None = None
    while any(not each.done() for each in waited):
        try:
            await asyncio.wait(waited)
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


def _first(indexes: Iterator[int], number: int) -> list[int]:
    return list(islice(indexes, number))


def is_numbered(branch: BranchOf) -> bool:
    """Whether a branch has ids of a series of its own."""
    if isinstance(branch, ScopeCall):
        return branch.step_id is not None
    return not isinstance(branch, PendingCall)


def spend(branch: BranchOf) -> None:
    """It is not driven, now or later."""
    if inspect.iscoroutine(branch):
        branch.close()
    elif isinstance(branch, PendingCall):
        branch.spend()


def named(branch: BranchOf) -> str:
    """What messages call a branch."""
    if isinstance(branch, PendingCall):
        return repr(branch.name)
    return getattr(branch, "__qualname__", repr(branch))


def refuse_branches(what: str, branches: Sequence[object]) -> None:
    """Raise `WrongPlace` for what cannot be a branch."""
    for branch in branches:
        if not isinstance(branch, PendingCall) and not inspect.iscoroutine(branch):
            raise WrongPlace(
                f"{what} takes durable calls (steps, sleeps, workflows, results) and coroutines, "
                f"not {branch!r}"
            )


def bounded(number: int | None, what: str) -> int | None:
    """A number of branches at a time; raises `InvalidArgument`."""
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise InvalidArgument(f"{what}={number!r}: it must be a whole number above 0")
    return number
