"""Claims work and begins it."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from perdure.engine.committer import Retry
from perdure.engine.identity import Identity
from perdure.engine.queues import Tally
from perdure.engine.registry import Registry, WorkflowDefinition
from perdure.engine.run import Run, RunFactory
from perdure.engine.runner import Runner
from perdure.errors import LeaseLost, RunInterrupted
from perdure.logic.endings import exceeds_limit
from perdure.logic.principals import acting
from perdure.model.ids import OwnerToken
from perdure.model.queue import Load, QueueTurn
from perdure.model.workflow import (
    Claimant,
    ClaimedRun,
    ClaimRequest,
    QueueShare,
    SharedClaim,
    SharedRequest,
)
from perdure.ports.store import Store

log = logging.getLogger("perdure")

T = TypeVar("T")


class TokenSource(Protocol):
    """Makes owner tokens."""

    def token(self) -> OwnerToken:
        """A fresh random owner token."""
        ...


class Claims(NamedTuple):
    """In whose name work is claimed, and what becomes of it."""

    identity: Identity
    version: str
    tokens: TokenSource
    new_run: RunFactory


class Slot:
    """One workflow's place among those this process runs of a queue, until it is freed."""

    __slots__ = ("_freed", "_partition", "_queue", "_tally")

    def __init__(
        self, tally: Tally, queue: str, partition: str | None, freed: Callable[[str], None]
    ) -> None:
        self._tally = tally
        self._queue = queue
        self._partition = partition
        self._freed: Callable[[str], None] | None = freed
        tally.add(queue, partition)

    def free(self) -> None:
        """The row is this process's no more; says so once."""
        freed, self._freed = self._freed, None
        if freed is not None:
            self._tally.remove(self._queue, self._partition)
            freed(self._queue)


class Claimer:
    """Takes rows from queues, reads their histories, and begins them."""

    def __init__(
        self,
        store: Store,
        retry: Retry,
        registry: Registry,
        runner: Runner,
        claims: Claims,
        freed: Callable[[str], None],
    ) -> None:
        self._store = store
        self._retry = retry
        self._registry = registry
        self._runner = runner
        self._claims = claims
        self._freed = freed
        self.tally = Tally()

    @property
    def can_run(self) -> bool:
        """Whether this process has any function to run."""
        return bool(self._registry.keys)

    async def take(self, shares: Sequence[QueueShare]) -> Counter[str] | None:
        """Claim from queues without shared limits; how many of each, None if it has to be repeated.

        What was claimed has begun when this returns.
        """

        def ask(claimant: Claimant) -> Awaitable[list[ClaimedRun]]:
            return self._store.claim(ClaimRequest(claimant, tuple(shares)))

        claimed = await self._ask(ask)
        if claimed is None:
            return None
        await self._begin_all(claimed)
        return Counter(run.queue_name or "" for run in claimed)

    async def take_shared(self, loads: Sequence[Load], limit: int) -> Sequence[QueueTurn] | None:
        """The same from queues with limits that the fleet shares; what was found in each."""

        def ask(claimant: Claimant) -> Awaitable[SharedClaim]:
            return self._store.claim_shared(SharedRequest(claimant, tuple(loads), limit))

        claim = await self._ask(ask)
        if claim is None:
            return None
        await self._begin_all(claim.runs)
        return claim.turns

    async def _ask(self, claim: Callable[[Claimant], Awaitable[T]]) -> T | None:
        """One claim under one token, however often it has to be tried."""
        claims = self._claims
        executor_id = await claims.identity.ready()
        claimant = Claimant(executor_id, self._registry.keys, claims.version, claims.tokens.token())
        try:
            return await self._retry(lambda: claim(claimant), "claiming work")
        except LeaseLost:
            claims.identity.drop(executor_id)
            return None

    async def _begin_all(self, claimed: Iterable[ClaimedRun]) -> None:
        """Begin what was claimed. From the claim on it counts as run by this process."""
        runs = [(each, self._run_of(each)) for each in claimed]
        if not runs:
            return
        try:
            await self._read([run for each, run in runs if each.may_have_steps])
        except BaseException:
            # Each ends before the first line of its body, which gives its row back.
            for _, run in runs:
                run.signal = RunInterrupted(run.workflow_id)
            raise
        finally:
            for each, run in runs:
                self._begin(each, run)

    def _run_of(self, claimed: ClaimedRun) -> Run:
        run = self._claims.new_run(
            claimed.workflow_id, claimed.owner, claimed.key, claimed.serialization
        )
        run.attempts = claimed.attempts
        run.deadline_ms = claimed.deadline_ms
        run.slot = Slot(self.tally, claimed.queue_name or "", claimed.partition_key, self._freed)
        return run

    async def _read(self, runs: Sequence[Run]) -> None:
        if not runs:
            return
        ids = [run.workflow_id for run in runs]
        histories = await self._retry(
            lambda: self._store.history(ids), "reading the history of claimed runs"
        )
        for run in runs:
            history = histories.get(run.workflow_id)
            if history:
                run.history = {row.step_id: row for row in history}

    def _begin(self, claimed: ClaimedRun, run: Run) -> None:
        definition = self._registry.known(claimed.key)
        if exceeds_limit(claimed.attempts, definition.max_recovery_attempts):
            self._runner.set_aside(run)
        else:
            self._launch(run, claimed, definition)

    def _launch(self, run: Run, claimed: ClaimedRun, definition: WorkflowDefinition) -> None:
        try:
            run.principal = acting(
                claimed.principal, definition.required_roles, str(definition.key)
            )
            args, kwargs = self._registry.codecs(definition).arguments.decode(
                claimed.inputs, claimed.serialization
            )
        except Exception as error:  # noqa: BLE001 - whatever keeps a run from beginning ends it
            self._runner.refuse(run, error)
            return
        if run.attempts > 1 and run.signal is None:
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
