"""Claims what this process can run, and begins it."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from perdure.engine.committer import Retry
from perdure.engine.identity import Identity
from perdure.engine.registry import Registry, WorkflowDefinition
from perdure.engine.run import Run, RunFactory
from perdure.engine.runner import Runner
from perdure.engine.services import Loop, Tasks
from perdure.errors import LeaseLost
from perdure.logic.endings import exceeds_limit
from perdure.model.ids import OwnerToken
from perdure.model.wire import INTERNAL_QUEUES
from perdure.model.workflow import ClaimedRun, ClaimRequest, StepRow
from perdure.ports.store import Store

log = logging.getLogger("perdure")

CLAIM_BATCH = 500
LONGEST_CLAIM_S = 2.0
"""How long a stop waits for a claim; a database that is away must not hold it up."""


class TokenSource(Protocol):
    """Makes owner tokens."""

    def token(self) -> OwnerToken:
        """A fresh random owner token."""
        ...


@dataclass(frozen=True, slots=True)
class Claims:
    """In whose name work is claimed, and what becomes of it."""

    identity: Identity
    version: str
    tokens: TokenSource
    new_run: RunFactory


class Dispatcher(Loop):
    """One for all queues of a process; sleeps until it is woken."""

    def __init__(
        self,
        tasks: Tasks,
        store: Store,
        retry: Retry,
        registry: Registry,
        runner: Runner,
        claims: Claims,
    ) -> None:
        super().__init__(tasks, "dispatcher")
        self._store = store
        self._retry = retry
        self._registry = registry
        self._runner = runner
        self._identity = claims.identity
        self._new_run = claims.new_run
        self._version = claims.version
        self._tokens = claims.tokens
        self._due_timer: asyncio.TimerHandle | None = None

    def wake_at(self, seconds: float) -> None:
        """Let a turn begin that many seconds from now, when a delayed workflow is due."""
        if self._due_timer is not None:
            self._due_timer.cancel()
        self._due_timer = asyncio.get_running_loop().call_later(max(seconds, 0), self.wake)

    async def stop(self) -> None:
        """Claim nothing more; what a claim under way takes is begun, for the stop to give back."""
        if self._due_timer is not None:
            self._due_timer.cancel()
        await self.finish(LONGEST_CLAIM_S)

    async def turn(self) -> float | None:
        """Claim one batch and begin it; go on at once while batches come back full."""
        if not self._registry.keys:
            return None
        executor_id = await self._identity.ready()
        request = ClaimRequest(
            queues=INTERNAL_QUEUES,
            keys=self._registry.keys,
            executor_id=executor_id,
            version=self._version,
            token=self._tokens.token(),
            limit=CLAIM_BATCH,
        )
        try:
            claimed = await self._retry(lambda: self._store.claim(request), "claiming work")
        except LeaseLost:
            self._identity.drop(executor_id)
            return 0
        if claimed:
            ids = [run.workflow_id for run in claimed]
            histories = await self._retry(
                lambda: self._store.history(ids), "reading the history of claimed runs"
            )
            for run in claimed:
                self._begin(run, histories.get(run.workflow_id, []))
        return 0 if len(claimed) == CLAIM_BATCH else None

    def _begin(self, claimed: ClaimedRun, history: Sequence[StepRow]) -> None:
        definition = self._registry.known(claimed.key)
        run = self._new_run(claimed.workflow_id, claimed.owner, claimed.key, claimed.serialization)
        run.attempts = claimed.attempts
        run.deadline_ms = claimed.deadline_ms
        run.history = {row.step_id: row for row in history}
        if exceeds_limit(claimed.attempts, definition.max_recovery_attempts):
            self._runner.set_aside(run)
        else:
            self._launch(run, claimed, definition)

    def _launch(self, run: Run, claimed: ClaimedRun, definition: WorkflowDefinition) -> None:
        try:
            args, kwargs = self._registry.codecs(definition).arguments.decode(
                claimed.inputs, claimed.serialization
            )
        except Exception as error:  # noqa: BLE001 - whatever keeps a run from beginning ends it
            self._runner.refuse(run, error)
            return
        log.info(
            "workflow %s (%s) goes on here, attempt %d, with %d recorded steps",
            run.workflow_id,
            run.key,
            run.attempts,
            len(run.history or ()),
        )
        left_ms = claimed.deadline_left_ms
        self._runner.launch(
            run,
            definition,
            args,
            kwargs,
            deadline_left_s=None if left_ms is None else left_ms / 1000,
        )
