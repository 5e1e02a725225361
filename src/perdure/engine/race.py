"""The branches of one scope while they run: started, told apart when they end, stopped.

A branch is a pending call, which keeps the ids it took when it was built, or a coroutine, which is
driven in a task and a place of its own with ids of its own series.
"""

import asyncio
import inspect
from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Protocol, cast

from perdure.engine.context import PLACE, TRACK, Branch, Opens, Track
from perdure.engine.journal import PendingCall
from perdure.engine.run import Run
from perdure.errors import CallSpent, ControlSignal, InvalidArgument, WrongPlace
from perdure.logic.endings import Ending, ending_of, ends_process
from perdure.logic.numbering import Numbering
from perdure.logic.scopes import BY_TIME


class Ended:
    """How a branch ended."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error

    @property
    def is_signal(self) -> bool:
        """Whether it ended by what stops runs and processes."""
        return isinstance(self.error, ControlSignal) or ends_process(self.error)

    @property
    def is_outcome(self) -> bool:
        """Whether it can decide a scope: signals, and trouble with a database, never do."""
        return self.error is None or ending_of(self.error) is Ending.RECORD_ERROR

    def result(self) -> Any:
        """The value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


class Started(Protocol):
    """Makes the work of a branch in the branch's own place."""

    def __call__(self) -> Coroutine[Any, Any, Any]:
        """The coroutine of the branch."""
        ...


BranchOf = PendingCall[Any] | Coroutine[Any, Any, Any] | Started


class Limb:
    """One branch while it is driven, and what is left of it: how it ended."""

    __slots__ = ("ended", "place", "task", "track")

    def __init__(self, track: Track, place: Branch | None) -> None:
        self.track = track
        self.place = place
        self.task: asyncio.Task[Ended] | None = None
        self.ended: Ended | None = None


class Raced(Opens, Protocol):
    """A scope, as its race sees it."""

    @property
    def name(self) -> str:
        """What its records are called."""
        ...

    @property
    def branches(self) -> Sequence[BranchOf]:
        """What it drives."""
        ...

    @property
    def at_once(self) -> int:
        """How many branches run at a time."""
        ...

    def decides(self, ended: Ended) -> bool:
        """Whether a branch that ended so decides the scope."""
        ...

    def limit_s(self, run: Run) -> float | None:
        """How many seconds are left to it, None for ever."""
        ...


class Race:
    """The branches of one scope while they run; `alone` is the one a replay drives."""

    def __init__(
        self, scope: Raced, place: Branch, numbering: Numbering, *, alone: int | None = None
    ) -> None:
        self._scope = scope
        self._place = place
        self._run = place.run
        self._numbering = numbering
        self._series = _series(scope.branches, numbering)
        self._outer = TRACK.get()
        self._is_sealed = alone is not None
        self._ends: list[int] = []
        self._running = 0
        self._is_time_up = False
        self._woken = asyncio.Event()
        self.limbs: list[Limb | None] = [None] * len(scope.branches)
        self.abort: BaseException | None = None

    def start(self, index: int) -> Limb:
        """Begin to drive a branch."""
        run, branch, numbering = self._run, self._scope.branches[index], self._series[index]
        is_leaf = isinstance(branch, PendingCall)
        track = Track(self._scope, self._outer, is_leaf=is_leaf, is_sealed=self._is_sealed)
        place = None
        if numbering is not None and not is_leaf:
            place = Branch(run, numbering, self._place, (index, self._scope.name))
            run.begin_branch(place)
        limb = self.limbs[index] = Limb(track, place)
        self._running += 1
        limb.task = task = run.kernel.tasks.branch(_contained(limb, branch, numbering))
        if place is not None:
            place.task = task
        task.add_done_callback(partial(self._on_end, index))
        return limb

    def _on_end(self, index: int, task: asyncio.Task[Ended]) -> None:
        limb = self.limbs[index]
        if limb is None or limb.ended is not None:
            return
        limb.ended = Ended(error=asyncio.CancelledError()) if task.cancelled() else task.result()
        limb.task = None
        if limb.place is not None:
            self._note_foreigner(limb.place, limb.ended, task)
            self._run.end_branch(limb.place)
        self._running -= 1
        self._ends.append(index)
        self._woken.set()

    def _note_foreigner(self, place: Branch, ended: Ended, task: asyncio.Task[Ended]) -> None:
        """The code of a branch was cancelled by somebody whose decision is not recorded."""
        run = self._run
        is_asked = place.is_over or run.signal is not None or run.kernel.stopping
        if isinstance(ended.error, asyncio.CancelledError) and task.cancelling() and not is_asked:
            run.cancelled_by_foreigner(f"a branch of the scope {self._scope.name!r}")

    async def until_decided(self) -> int | None:
        """The branch that decides, or `BY_TIME`; None once all have returned, or after `abort`.

        After a signal to the run the branches end by themselves: a step that may not be stopped
        runs to its end.
        """
        waiting = iter(range(len(self.limbs)))
        self._start_next(waiting, self._scope.at_once)
        timer = self._timer()
        try:
            while self._running or self._ends:
                await self._woken.wait()
                self._woken.clear()
                ends, self._ends = sorted(self._ends), []
                for index in ends:
                    if self._decides(index):
                        return index
                if self.abort is not None:
                    if self._run.signal is None:
                        return None
                elif self._is_time_up:
                    return BY_TIME
                else:
                    self._start_next(waiting, len(ends))
            return None
        finally:
            if timer is not None:
                timer.cancel()

    def _start_next(self, waiting: Iterator[int], number: int) -> None:
        for index in islice(waiting, number):
            self.start(index)

    def _decides(self, index: int) -> bool:
        ended = self.look_at(index)
        return self.abort is None and self._scope.decides(ended)

    def _timer(self) -> asyncio.Task[Any] | None:
        left_s = self._scope.limit_s(self._run)
        if left_s is None:
            return None
        timer = self._run.kernel.tasks.branch(_rest(self._run, left_s))
        timer.add_done_callback(self._on_time)
        return timer

    def _on_time(self, timer: asyncio.Task[Any]) -> None:
        if not timer.cancelled():
            self._is_time_up = True
            self._woken.set()

    def look_at(self, index: int) -> Ended:
        """How a branch that is over ended; what ends the run ends the scope without a verdict."""
        run, ended = self._run, self.ended(index)
        if ended.error is not None and self.abort is None:
            self.abort = run.signal or run.fault or (None if ended.is_outcome else ended.error)
        return ended

    def ended(self, index: int) -> Ended:
        """How the branch ended; the time ends like a branch without a value."""
        limb = None if index == BY_TIME else self.limbs[index]
        if limb is None:
            return Ended()
        if limb.task is not None and limb.task.done():
            # Its callback is still on its way.
            self._on_end(index, limb.task)
        return limb.ended or Ended()

    async def stop(self) -> None:
        """End what still runs: from here on it takes no id and records nothing more."""
        run = self._run
        begun = [limb for limb in self.limbs if limb is not None]
        alive = [limb.task for limb in begun if limb.task is not None and not limb.task.done()]
        for limb in begun:
            if limb.place is not None:
                run.end_branch(limb.place)
        for task in alive:
            run.drop(task)
        cancelled = await _all_done(alive)
        run.dropped.difference_update(alive)
        cancelled = await self._end_strays(begun) or cancelled
        cancelled = await _all_done(tuple(run.unsettled)) or cancelled
        run.unsettled[:] = [answer for answer in run.unsettled if not answer.done()]
        for series in self._series:
            if series is not None:
                self._numbering.resume_above(series.highest)
        if cancelled is not None:
            raise cancelled

    async def _end_strays(self, begun: Sequence[Limb]) -> asyncio.CancelledError | None:
        """End the calls that branches left to helper tasks of asyncio's."""
        cancelled: asyncio.CancelledError | None = None
        while drivers := self._interrupt_strays(begun):
            cancelled = await _all_done(drivers) or cancelled
        return cancelled

    def _interrupt_strays(self, begun: Sequence[Limb]) -> list[asyncio.Task[Any]]:
        left = {limb.place for limb in begun if limb.place is not None and limb.place.calls}
        strays = [call for call in self._run.inflight if call.place in left] if left else []
        return [driver for driver in (call.interrupt() for call in strays) if driver is not None]


async def _contained(limb: Limb, branch: BranchOf, numbering: Numbering | None) -> Ended:
    """Drive a branch; whatever it raises is how it ended, for a task that raised what ends a
    process would tear the loop down."""
    TRACK.set(limb.track)
    try:
        if isinstance(branch, PendingCall):
            if numbering is not None:
                return Ended(await branch.drive_within(numbering))
            return Ended(await branch)
        if limb.place is not None:
            # Set here as well: an eager task runs before whoever starts it gets to see it.
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
    while left := [each for each in waited if not each.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


def _series(branches: Sequence[BranchOf], numbering: Numbering) -> list[Numbering | None]:
    """The ids of each branch that has its own."""
    numbered = [is_numbered(branch) for branch in branches]
    series = iter(numbering.split(sum(numbered)) if any(numbered) else ())
    return [next(series) if each else None for each in numbered]


def is_numbered(branch: BranchOf) -> bool:
    """Whether a branch has ids of a series of its own."""
    return branch.is_numbered if isinstance(branch, PendingCall) else True


def spend(branch: BranchOf) -> None:
    """It is not driven, now or later."""
    if isinstance(branch, PendingCall):
        branch.spend()
    elif inspect.iscoroutine(branch):
        branch.close()


def lose(branches: Sequence[BranchOf], winner: int | None = None) -> None:
    """No code sees what those came to that did not decide."""
    for index, branch in enumerate(branches):
        if index != winner and isinstance(branch, PendingCall):
            branch.lose()


def named(branch: BranchOf) -> str:
    """What messages call a branch."""
    if isinstance(branch, PendingCall):
        return repr(branch.name)
    return cast("str", getattr(branch, "__qualname__", repr(branch)))


def refuse_branches(what: str, branches: Sequence[object]) -> None:
    """Raise `WrongPlace` for what cannot be a branch, `CallSpent` for what is one already."""
    seen: set[int] = set()
    for branch in branches:
        if not isinstance(branch, PendingCall) and not inspect.iscoroutine(branch):
            raise WrongPlace(
                f"{what} takes durable calls (steps, sleeps, workflows, results) and coroutines, "
                f"not {branch!r}"
            )
        if id(branch) in seen:
            raise CallSpent(f"{what} was given {named(branch)} twice; a durable call happens once")
        seen.add(id(branch))


def bounded(number: int | None, what: str) -> int | None:
    """A number of branches at a time; raises `InvalidArgument`."""
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise InvalidArgument(f"{what}={number!r}: it must be a whole number above 0")
    return number
