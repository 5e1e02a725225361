"""Scopes: several branches of one run at a time, closed and replayed as one.

A scope ends when every branch has returned, or when one of them, or the time, decides. Then the
others are stopped, what they had sent is awaited, and the verdict is written, before any code of
the deciding branch's side goes on. A replay drives the branch that decided, and no other.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from perdure.engine.context import OCCUPIED, PLACE, TRACK, Branch, Track, describe
from perdure.engine.journal import PendingCall, current_task, unscoped
from perdure.engine.race import BranchOf, Ended, Limb, Race, is_numbered, lose, named, spend
from perdure.engine.run import Run
from perdure.errors import BuiltElsewhere, CallSpent, PerdureError, UnexpectedStep, WrongPlace
from perdure.logic.numbering import Numbering
from perdure.logic.scopes import BY_TIME, CLOSE, NOBODY, Opening, Verdict, decoded, encoded
from perdure.model.answer import AnswerKind
from perdure.model.ids import StepId
from perdure.model.talk import Closing
from perdure.model.wire import PORTABLE_JSON
from perdure.model.workflow import Checkpoint, StepRow

T_co = TypeVar("T_co", covariant=True)

STUCK_S = 60.0
"""How long a replayed branch may be outside of durable calls before it counts as stuck."""


class ScopeCall(PendingCall[T_co]):
    """A scope that has taken its two ids and has not run. Subclasses say when it is decided."""

    __slots__ = (
        "_branches",
        "_is_opened",
        "_not_before_ms",
        "_opening",
        "_place",
        "_refusal",
        "_spent",
        "_task",
        "_track",
        "_until_ms",
        "_void",
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
        self._track: Track | None = None
        self._is_opened = False
        self._opening: Checkpoint | None = None
        self._until_ms: int | None = None
        self._void: Verdict | None = None
        self._not_before_ms = 0
        self.close_id: StepId | None = None
        if refusal is None and type(place) is Branch:
            self._take_ids(place)
        if self._refusal is not None:
            self._drop()

    def _take_ids(self, place: Branch) -> None:
        if current_task(self.name, place) is not place.task:
            self._refusal = unscoped(self.name, place)
        elif self._is_recorded:
            try:
                self.step_id = place.numbering.take()
                self.close_id = place.numbering.take()
            except BaseException:
                self._drop()
                raise

    @property
    def _is_recorded(self) -> bool:
        """Whether it leaves rows: one of pending calls alone needs none."""
        return any(is_numbered(branch) for branch in self._branches)

    @property
    def is_numbered(self) -> bool:
        """See `PendingCall.is_numbered`."""
        return self.step_id is not None

    @property
    def place(self) -> Branch | None:
        """Where in its run it stands."""
        return self._place if type(self._place) is Branch else None

    @property
    def branches(self) -> Sequence[BranchOf]:
        """What it drives."""
        return self._branches

    @property
    def at_once(self) -> int:
        """How many branches run at a time."""
        return max(len(self._branches), 1)

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

    def collect(self, ends: Sequence[Ended]) -> T_co:
        """What it is once all have returned."""
        raise NotImplementedError

    async def plain(self) -> T_co:
        """The same where nothing is recorded."""
        raise NotImplementedError

    async def begin(self, run: Run) -> None:
        """What is to be recorded before any branch begins."""

    def limit_s(self, run: Run) -> float | None:
        """How many seconds are left to the scope, None for ever."""
        del run
        return None

    async def _drive(self) -> T_co:
        place = self._claim()
        if place is None:
            return await self.plain()
        numbering = place.numbering
        if self.step_id is None:
            return await self._in_run(place, numbering)
        if numbering is OCCUPIED:
            self._drop()
            raise WrongPlace(
                f"{self.name!r} was awaited {place} while another gather, map, select or timeout "
                "of the same place is under way; give both to perdure.gather"
            )
        place.numbering = OCCUPIED
        try:
            return await self._in_run(place, numbering)
        finally:
            if not place.is_over:
                place.numbering = numbering

    async def drive_within(self, numbering: Numbering) -> T_co:
        """See `PendingCall.drive_within`; both scopes are of the same place."""
        place = self._claim()
        return await self.plain() if place is None else await self._in_run(place, numbering)

    def spend(self) -> None:
        """See `PendingCall.spend`."""
        self._spent = True
        self._drop()

    def lose(self) -> None:
        """See `PendingCall.lose`."""
        lose(self._branches)

    def _drop(self) -> None:
        for branch in self._branches:
            spend(branch)

    def _claim(self) -> Branch | None:
        """Begin, in its run where it has one; raises if it cannot."""
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
        if type(place) is Branch and place.is_over:
            self._drop()
            raise asyncio.CancelledError(f"the branch in which {self.name!r} stood has ended")
        return self.place

    async def _in_run(self, place: Branch, numbering: Numbering) -> T_co:
        run = place.run
        self._task = asyncio.current_task()
        self._track = TRACK.get()
        run.begin_call(self)
        place.calls += 1
        try:
            run.check()
            verdict = self._recorded(run)
            if verdict is None:
                return await self._race(place, numbering)
            return await self._replay(place, numbering, verdict)
        except asyncio.CancelledError:
            run.note_cancelled(f"the scope {self.name!r}", place)
            raise
        finally:
            run.inflight.discard(self)
            place.calls -= 1
            # No branch is left running, and none that did not begin will.
            self._drop()

    # What is recorded

    def _recorded(self, run: Run) -> Verdict | None:
        """The verdict to replay; the open row is compared with what the code has now."""
        if self.step_id is None or self.close_id is None or run.history is None:
            return None
        row = run.recorded(self.step_id, self.name)
        if row is not None:
            self._compare(run, row)
            self.opened()
        closed = run.recorded(self.close_id, self.name + CLOSE)
        verdict = None if closed is None else self._verdict(run, closed)
        if verdict is not None and self._track is not None:
            self._track.note(self.close_id)
        return verdict

    def _compare(self, run: Run, row: StepRow) -> None:
        """The open row says how many branches there were."""
        opening = decoded(row, Opening)
        if opening is None:
            raise run.disagree(row.step_id, self.name, row)
        if opening.branches != self._numbered:
            what = _other_number(self, opening.branches, self._numbered)
            raise run.break_by(_fault(run, self.step_id, what))
        self._until_ms = opening.until_ms

    def _verdict(self, run: Run, row: StepRow) -> Verdict | None:
        """The verdict of a close row, None if it is void: the scope then runs afresh."""
        verdict = decoded(row, Verdict)
        if verdict is None or not NOBODY <= verdict.branch < len(self._branches):
            raise run.break_by(_fault(run, self.close_id, _unknown_branch(self, verdict)))
        if not verdict.is_void(run.history or ()):
            return verdict
        self._void = verdict
        self._not_before_ms = (row.completed_at_ms or 0) + 1
        return None

    @property
    def _numbered(self) -> int:
        return sum(is_numbered(branch) for branch in self._branches)

    def opening(self) -> Checkpoint | None:
        """See `perdure.engine.context.Opens`."""
        place = self.place
        if self._is_opened or self.step_id is None or place is None:
            return None
        if self._opening is None:
            text = encoded(Opening(self._numbered, self._until_ms))
            self._opening = self._row(place.run, self.step_id, self.name, text)
        return self._opening

    def opened(self) -> None:
        """See `perdure.engine.context.Opens`."""
        self._is_opened = True
        if self._track is not None and self.step_id is not None:
            self._track.note(self.step_id)

    def _row(self, run: Run, step_id: StepId, name: str, output: str) -> Checkpoint:
        now_ms = max(run.kernel.time.now_ms(), self._not_before_ms)
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

    # The first time

    async def _race(self, place: Branch, numbering: Numbering) -> T_co:
        run = place.run
        if self._void is not None and self._void.branch != NOBODY:
            # Else, after a crash, what the branches record again would make it count once more.
            await self._overwrite(run, self._closing(run, Verdict(NOBODY, None, 0)), ())
        await self.begin(run)
        race = Race(self, place, numbering)
        try:
            decided = await race.until_decided()
        finally:
            await race.stop()
        if race.abort is not None:
            raise race.abort
        if decided is None:
            for limb in race.limbs:
                self._tell(limb)
            return self.collect([race.ended(index) for index in range(len(race.limbs))])
        if self.close_id is not None:
            await self._close(run, race, decided, numbering)
        lose(self._branches, decided)
        return self.conclude(decided, race.ended(decided))

    def _tell(self, limb: Limb | None) -> None:
        """Messages that a branch took are seen now, unless the scope itself may still lose."""
        if limb is not None and (self._track is None or not self._track.is_leaf):
            limb.track.told()

    async def _close(self, run: Run, race: Race, decided: int, numbering: Numbering) -> None:
        winner = None if decided == BY_TIME else race.limbs[decided]
        highest = None if winner is None else winner.track.highest
        row = self._closing(run, Verdict(decided, highest, numbering.upcoming))
        losers = [limb for limb in race.limbs if limb is not None and limb is not winner]
        untold = {step_id for limb in losers for step_id in limb.track.untold}
        if self._void is not None or untold:
            await self._overwrite(run, row, tuple(sorted(untold)))
        elif (standing := await run.kernel.journal.record(run, row, self)) is not None:
            raise run.disagree(row.step_id, row.name, standing)
        for limb in losers:
            limb.track.put_back(untold)
        self._tell(winner)

    async def _overwrite(self, run: Run, row: Checkpoint, put_back: tuple[StepId, ...]) -> None:
        """Write a verdict over a void one, and with what goes back to where it was."""
        opening = self.opening()
        openings = () if opening is None else (opening,)
        item = Closing(row, openings, self._void is not None, put_back)
        lane = run.kernel.talk.closings
        answer = await run.kernel.journal.submit(run, lane, item, row.step_id)
        if answer.kind is AnswerKind.CONFLICT:
            raise run.disagree(row.step_id, row.name, answer.standing)
        self.opened()
        # A verdict that bears the stamp of the one it overwrites would be taken for that.
        self._not_before_ms = row.completed_at_ms + 1

    def _closing(self, run: Run, verdict: Verdict) -> Checkpoint:
        return self._row(run, StepId(self.close_id or 0), self.name + CLOSE, encoded(verdict))

    async def _replay(self, place: Branch, numbering: Numbering, verdict: Verdict) -> T_co:
        run, index = place.run, verdict.branch
        if index == BY_TIME:
            numbering.go_on_at(verdict.next_id)
            return self.conclude(BY_TIME, Ended())
        race = Race(self, place, numbering, alone=index)
        try:
            await self._until_over(run, race.start(index), index)
        finally:
            await race.stop()
        ended = race.look_at(index)
        if race.abort is not None:
            raise race.abort
        if not self.decides(ended):
            raise run.break_by(_fault(run, self.close_id, _undecided(self, index)))
        self._tell(race.limbs[index])
        numbering.go_on_at(verdict.next_id)
        return self.conclude(index, ended)

    async def _until_over(self, run: Run, limb: Limb, index: int) -> None:
        """Wait for the branch that decided; what it needs of the others it cannot get."""
        task, home = limb.task, limb.place or self.place
        was_quiet = False
        while task is not None and not task.done():
            await asyncio.wait([task], timeout=STUCK_S)
            is_quiet = not any(
                not call.is_scope and call.place and home and call.place.is_within(home)
                for call in run.inflight
            )
            if is_quiet and was_quiet and not task.done():
                raise run.break_by(_fault(run, self.close_id, _stuck(self, index)))
            was_quiet = is_quiet


def _fault(run: Run, step_id: StepId | None, what: str) -> UnexpectedStep:
    """Code and history of a scope differ."""
    text = f"workflow {run.workflow_id!r} ({run.key}): {what}"
    return UnexpectedStep(run.workflow_id, int(step_id or 0), text)


def _other_number(scope: ScopeCall[Any], recorded: int, now: int) -> str:
    return (
        f"{scope.name!r} at step {scope.step_id} was recorded with {recorded} coroutine branches "
        f"and has {now} now: {_listed(scope.branches)}. The ids of branches depend on their "
        "number: it must not change under a running workflow"
    )


def _unknown_branch(scope: ScopeCall[Any], verdict: Verdict | None) -> str:
    recorded = "something unreadable" if verdict is None else f"branch {verdict.branch}"
    return (
        f"recorded at step {scope.close_id} is that {recorded} decided {scope.name!r}, which is no "
        f"longer there. Branches now: {_listed(scope.branches)}"
    )


def _listed(branches: Sequence[BranchOf]) -> str:
    shown = [f"{index}: {named(branch)}" for index, branch in enumerate(branches[:10])]
    more = len(branches) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _undecided(scope: ScopeCall[Any], index: int) -> str:
    return (
        f"branch {index} of {scope.name!r}, which failed and so decided it, returned when it was "
        "replayed. What it decides by must be recorded"
    )


def _stuck(scope: ScopeCall[Any], index: int) -> str:
    return (
        f"branch {index} of {scope.name!r}, which decided it, does not go on when it is replayed: "
        "it waits for something that another branch did. Branches share nothing but what they "
        "return"
    )
