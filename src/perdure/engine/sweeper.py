"""What every process does for the fleet and about itself: takeovers, lost runs, stray rows."""

import asyncio
import logging
from collections.abc import Collection

from perdure.engine.committer import Lane, Retry
from perdure.engine.dispatcher import Dispatcher
from perdure.engine.identity import Identity
from perdure.engine.journal import Journal
from perdure.engine.polling import Rest
from perdure.engine.runner import Runner
from perdure.engine.services import Loop, Tasks
from perdure.engine.time import DatabaseTime
from perdure.logic.liveness import Judge, Rhythm
from perdure.model.answer import Answer
from perdure.model.ids import ExecutorId, WorkflowId
from perdure.model.lease import Beat, LeaseSeen
from perdure.model.workflow import Fence, Outcome, Release
from perdure.ports.ids import Ids
from perdure.ports.store import Store

log = logging.getLogger("perdure")

TAKEOVER_BATCH = 500
OWNERSHIP_POLL_S = 1.0

LEAST_REST_S = 0.05
"""After a look because others committed, however much they commit."""

_REST = 20.0
"""How many times as long as that look took no other is taken."""


class Takeovers(Loop):
    """Judges suspects at each heartbeat and gives the runs of dead processes back to the fleet."""

    def __init__(
        self,
        tasks: Tasks,
        store: Store,
        retry: Retry,
        rhythm: Rhythm,
        dispatcher: Dispatcher,
        ids: Ids,
    ) -> None:
        super().__init__(tasks, "takeovers")
        self._store = store
        self._retry = retry
        self._judge = Judge(rhythm)
        self._dispatcher = dispatcher
        self._ids = ids
        self._dead: list[LeaseSeen] = []

    def consider(self, beat: Beat, at_s: float) -> None:
        """Judge what a heartbeat brought back."""
        dead = self._judge.consider(beat, at_s)
        if dead:
            self._dead = dead
            self.wake()

    def distrust(self, at_s: float) -> None:
        """This process lost its way to the database: it judges nobody for a while."""
        self._judge.distrust(at_s)

    async def turn(self) -> float | None:
        """Take over whatever the last heartbeat showed to be dead."""
        dead, self._dead = self._dead, []
        for suspect in dead:
            # Spreads the processes that all judged at this moment; the lock decides among them.
            await asyncio.sleep(0.02 * self._ids.jitter())
            await self._take(suspect)
        return None

    async def _take(self, suspect: LeaseSeen) -> None:
        moved = 0
        while True:
            taken = await self._retry(
                lambda: self._store.take_over(suspect, TAKEOVER_BATCH), "taking over"
            )
            moved += taken.moved
            if taken.moved:
                self._dispatcher.look_everywhere()
                self._dispatcher.tell_all()
            if taken.finished or taken.refused or not taken.moved:
                break
        if moved:
            log.warning("process %s is dead: %d workflows go on", suspect.executor_id, moved)


class OwnershipPoll(Loop):
    """Looks once a second, in one statement, which executions have lost their row or their time.

    At once where somebody names them, or says that others committed something: any commit may be a
    cancellation, but few are, so that then it looks only at runs that could end at once, and rests.
    """

    def __init__(
        self,
        tasks: Tasks,
        store: Store,
        retry: Retry,
        runner: Runner,
        journal: Journal,
        time: DatabaseTime,
    ) -> None:
        super().__init__(tasks, "ownership poll")
        self._time = time
        self._store = store
        self._retry = retry
        self._runner = runner
        self._journal = journal
        self._suspects: set[WorkflowId] = set()
        self._others_committed = False
        self._rest = Rest(LEAST_REST_S, _REST)
        self._whole_at_s = 0.0

    def suspect(self, workflow_id: WorkflowId) -> None:
        """That workflow may have been taken from its run here."""
        if workflow_id in self._runner.runs:
            self._suspects.add(workflow_id)
            self.wake()

    def suspect_all(self) -> None:
        """Any workflow may have been taken from its run here."""
        self._whole_at_s = 0.0
        self.wake()

    def others_committed(self) -> None:
        """Others did something, which may have been to take a workflow from its run here."""
        if self._runner.runs and not self._others_committed:
            self._others_committed = True
            self.wake()

    async def turn(self) -> float | None:
        """Look at all runs, or at those that are suspected where that is not due yet."""
        loop = asyncio.get_running_loop()
        suspects, self._suspects = self._suspects, set()
        if loop.time() >= self._whole_at_s:
            self._whole_at_s = loop.time() + OWNERSHIP_POLL_S
            self._others_committed = False
            self._runner.expire_overdue(self._time.now_ms())
            await self.look(tuple(self._runner.runs))
            return OWNERSHIP_POLL_S
        await self.look(suspects)
        if self._others_committed and not self._rest.left_s():
            self._others_committed = False
            with self._rest.after():
                await self.look(self._runner.stoppable())
        left_s = max(self._whole_at_s - loop.time(), 0.0)
        return min(left_s, self._rest.left_s()) if self._others_committed else left_s

    async def look(self, ids: Collection[WorkflowId]) -> None:
        """Stop those of these executions whose row was cancelled or taken."""
        runs = {each: run for each in ids if (run := self._runner.runs.get(each)) is not None}
        if not runs:
            return
        fences = [Fence(run.workflow_id, run.owner) for run in runs.values()]
        lost = await self._retry(lambda: self._store.lost(fences), "asking for lost runs")
        gone = [runs[workflow_id] for workflow_id in lost]
        stopped = [run for run in gone if run.task is not None]
        for outcome in await self._journal.stop_lost(stopped):
            self._runner.hear(outcome)


class SelfCheck(Loop):
    """Releases rows this process owns although no task of it runs them, seen twice."""

    def __init__(
        self,
        tasks: Tasks,
        store: Store,
        retry: Retry,
        runner: Runner,
        identity: Identity,
        releases: Lane[Release, Answer[Outcome]],
        period_s: float,
    ) -> None:
        super().__init__(tasks, "self-check")
        self._store = store
        self._retry = retry
        self._runner = runner
        self._identity = identity
        self._releases = releases
        self._period_s = period_s
        self._strays: set[Fence] = set()

    async def turn(self) -> float | None:
        """Compare the rows in our name with the runs of this process."""
        executor_id = self._identity.executor_id
        if executor_id is not None:
            strays = await self._find(executor_id)
            for fence in strays & self._strays:
                log.warning(
                    "workflow %s is in this process's name but nothing runs it: given back",
                    fence.workflow_id,
                )
                release = Release(*fence, delay_ms=None, give_back=False)
                self._releases.submit(release).future.add_done_callback(_looked_at)
            self._strays = strays
        return self._period_s

    async def _find(self, executor_id: ExecutorId) -> set[Fence]:
        owned = await self._retry(lambda: self._store.owned(executor_id), "checking own rows")
        runs = self._runner.runs
        return {
            fence
            for fence in owned
            if (run := runs.get(fence.workflow_id)) is None or run.owner != fence.owner
        }


def _looked_at(future: "asyncio.Future[Answer[Outcome]]") -> None:
    """A release that fails is tried again at the next check."""
    if not future.cancelled():
        future.exception()
