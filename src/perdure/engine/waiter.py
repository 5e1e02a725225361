"""Waiting for outcomes: one shared wait, never a poll per waiter."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from perdure.engine.committer import Retry
from perdure.engine.polling import LONGEST_PAUSE_S, Polling
from perdure.engine.services import Loop, Tasks
from perdure.errors import WorkflowNotFound
from perdure.model.ids import WorkflowId
from perdure.model.workflow import Outcome
from perdure.ports.store import Store


class Around(NamedTuple):
    """What the wait has to do with: which workflows run here, who is told of waits and ends."""

    is_local: Callable[[WorkflowId], bool]
    on_wait: Callable[[WorkflowId], None]
    on_end: Callable[[WorkflowId], None]


class Settlement(NamedTuple):
    """An outcome, and the exception it came from where the run ended in this process."""

    outcome: Outcome
    original: BaseException | None = None


class _Wait(NamedTuple):
    future: asyncio.Future[Settlement]
    fail_if_missing: bool
    is_patient: bool


class Waiter(Loop):
    """Resolves everyone who waits for a workflow.

    Runs of this process resolve their waiters when they end; the others are asked about together,
    in one statement per interval however many they are. Those of which something was heard are
    asked about at once, and alone.
    """

    def __init__(self, tasks: Tasks, store: Store, retry: Retry, around: Around) -> None:
        super().__init__(tasks, "waiter")
        self._store = store
        self._retry = retry
        self._is_local = around.is_local
        self._on_wait = around.on_wait
        self._on_end = around.on_end
        self._waits: dict[WorkflowId, list[_Wait]] = {}
        self._heard: dict[WorkflowId, None] = {}
        # Before a wait is known elsewhere the workflow may end untold: the first polls are soon.
        self._polling = Polling(is_told=False)

    async def outcome(
        self, workflow_id: WorkflowId, *, fail_if_missing: bool, is_patient: bool = False
    ) -> Settlement:
        """Wait until the workflow is terminal.

        With `fail_if_missing` a workflow without a row raises `WorkflowNotFound`; otherwise its
        row is waited for. What `fail` is told for this id is raised, unless the wait is patient:
        for a parent the release of its child is no end, as it is none for the child.
        """
        wait = self._begin(workflow_id, fail_if_missing=fail_if_missing, is_patient=is_patient)
        try:
            return await wait.future
        finally:
            self._forget(workflow_id, wait)

    async def all(self, ids: Iterable[WorkflowId], *, is_patient: bool) -> None:
        """Wait until all of them are terminal."""
        with self._waiting_for(ids, is_patient=is_patient) as waits:
            while waits:
                await asyncio.wait(waits.values(), return_when=asyncio.FIRST_EXCEPTION)
                for each in [each for each, future in waits.items() if future.done()]:
                    waits.pop(each).result()

    async def first(self, ids: Iterable[WorkflowId], *, is_patient: bool) -> WorkflowId:
        """The first of them to be terminal; of several at the same moment the first named."""
        with self._waiting_for(ids, is_patient=is_patient) as waits:
            await asyncio.wait(waits.values(), return_when=asyncio.FIRST_COMPLETED)
            first = next(each for each, future in waits.items() if future.done())
            waits[first].result()
            return first

    @contextmanager
    def _waiting_for(
        self, ids: Iterable[WorkflowId], *, is_patient: bool
    ) -> Iterator[dict[WorkflowId, asyncio.Future[Settlement]]]:
        """The futures of all of them; a workflow without a row is waited for."""
        waits = {
            each: self._begin(each, fail_if_missing=False, is_patient=is_patient)
            for each in dict.fromkeys(ids)
        }
        try:
            yield {each: wait.future for each, wait in waits.items()}
        finally:
            for each, wait in waits.items():
                wait.future.cancel()
                self._forget(each, wait)

    def _begin(self, workflow_id: WorkflowId, *, fail_if_missing: bool, is_patient: bool) -> _Wait:
        future: asyncio.Future[Settlement] = asyncio.get_running_loop().create_future()
        wait = _Wait(future, fail_if_missing, is_patient)
        self._waits.setdefault(workflow_id, []).append(wait)
        if not self._is_local(workflow_id):
            self._on_wait(workflow_id)
            self._heard[workflow_id] = None
            self._polling.begin_anew()
            self.wake()
        return wait

    @property
    def awaited(self) -> tuple[WorkflowId, ...]:
        """What is waited for."""
        return tuple(self._waits)

    def hear(self, ids: Iterable[WorkflowId]) -> None:
        """These may have ended."""
        for workflow_id in ids:
            if workflow_id in self._waits:
                self._heard[workflow_id] = None
                self.wake()

    def hear_all(self) -> None:
        """Any may have ended, or run here no more."""
        if self._waits and self._polling.within(0.0):
            self.wake()

    def waited_for(self, workflow_id: WorkflowId) -> int:
        """How many wait for it."""
        return len(self._waits.get(workflow_id, ()))

    def resolve(self, settlement: Settlement) -> None:
        """Tell everyone who waits for this workflow that it is terminal."""
        workflow_id = settlement.outcome.workflow_id
        for wait in self._waits.pop(workflow_id, ()):
            if not wait.future.done():
                wait.future.set_result(settlement)
        self._on_end(workflow_id)

    def fail(self, workflow_id: WorkflowId, error: BaseException) -> None:
        """Tell everyone who waits for this workflow why the wait ends without an outcome."""
        for wait in self._waits.get(workflow_id, ()):
            if not wait.is_patient and not wait.future.done():
                wait.future.set_exception(error)
        self._polling.begin_anew()
        self.hear_all()

    def fail_elsewhere(self, error: Callable[[WorkflowId], BaseException]) -> None:
        """End the waits on workflows that do not run here; those that do may yet end in time."""
        for workflow_id in list(self._waits):
            if not self._is_local(workflow_id):
                self.fail(workflow_id, error(workflow_id))

    def fail_all(self, error: Callable[[WorkflowId], BaseException]) -> None:
        """End every wait, patient or not: nobody will ask any more."""
        for workflow_id, waits in self._waits.items():
            for wait in waits:
                if not wait.future.done():
                    wait.future.set_exception(error(workflow_id))

    async def turn(self) -> float | None:
        """Ask about every workflow that is waited for and does not run here, if it is time.

        Else about those of which something was heard.
        """
        if not self._waits:
            self._heard.clear()
            self._polling.pause()
            return None
        heard, self._heard = self._heard, {}
        left_s = self._polling.left_s()
        if left_s > 0:
            await self._ask([each for each in heard if each in self._waits])
        else:
            with self._polling.asking():
                await self._ask(list(self._waits))
        return min(self._polling.left_s(), LONGEST_PAUSE_S)

    async def _ask(self, ids: Iterable[WorkflowId]) -> None:
        remote = [each for each in ids if not self._is_local(each)]
        if not remote:
            return
        settled = await self._retry(lambda: self._store.settled(remote), "asking for outcomes")
        for outcome in settled.outcomes:
            self.resolve(Settlement(outcome))
        for workflow_id in settled.missing:
            self._report_missing(workflow_id)

    def _report_missing(self, workflow_id: WorkflowId) -> None:
        for wait in self._waits.get(workflow_id, ()):
            if wait.fail_if_missing and not wait.future.done():
                wait.future.set_exception(WorkflowNotFound(workflow_id))

    def _forget(self, workflow_id: WorkflowId, wait: _Wait) -> None:
        waits = self._waits.get(workflow_id)
        if waits is not None and wait in waits:
            waits.remove(wait)
            if not waits:
                del self._waits[workflow_id]
