"""Removes workflows that ended long ago, on demand and by a timer."""

import logging

from msgspec.structs import replace

from perdure.engine.committer import Retry
from perdure.engine.services import Loop, Tasks
from perdure.logic.retention import Policy
from perdure.model.retention import Expired, Purged
from perdure.ports.ids import Ids
from perdure.ports.store import Store

log = logging.getLogger("perdure")

BATCH = 500
"""How many workflows one transaction removes: some milliseconds' work."""

FIRST_S = 60.0
"""How soon at most the timer first looks: processes that are restarted often remove too."""


class Purge:
    """Carries a policy out in batches, with rests between them that leave room for others."""

    def __init__(self, store: Store, retry: Retry) -> None:
        self._store = store
        self._retry = retry

    async def run(self, policy: Policy, batch: int = BATCH, limit: int | None = None) -> int:
        """Remove what may go, at most `limit`, and say how many that were."""
        wanted = await self._wanted(policy)
        if wanted is None:
            return 0
        removed = 0
        since_ms: int | None = 0
        while since_ms is not None and removed != limit:
            at_most = batch if limit is None else min(batch, limit - removed)
            purged = await self._remove(wanted, since_ms, at_most)
            removed, since_ms = removed + purged.number, purged.next_ms
        await self._retry(
            lambda: self._store.forget_claims(wanted.before_ms, 10 * batch),
            "forgetting logged claims",
        )
        return removed

    async def count(self, policy: Policy) -> int:
        """How many may go."""
        wanted = await self._wanted(policy)
        found = 0
        since_ms: int | None = 0
        while wanted is not None and since_ms is not None:
            seen = await self._look(wanted, since_ms)
            found, since_ms = found + seen.number, seen.next_ms
        return found

    async def _remove(self, wanted: Expired, since_ms: int, limit: int) -> Purged:
        return await self._retry.at_leisure(
            lambda: self._store.purge(wanted, since_ms, limit), "removing ended workflows"
        )

    async def _look(self, wanted: Expired, since_ms: int) -> Purged:
        return await self._retry.at_leisure(
            lambda: self._store.expired(wanted, since_ms), "counting ended workflows"
        )

    async def _wanted(self, policy: Policy) -> Expired | None:
        """What may go, decided once: what ends meanwhile waits for the next time."""
        now_ms = await self._retry(self._store.now_ms, "reading the clock")
        keep = policy.keep
        if keep is None:
            return policy.wanted(now_ms)
        # Whatever its age, what ended after the last of those that are kept is kept.
        newest = replace(policy.wanted(now_ms), before_ms=now_ms)
        kept_since_ms = await self._retry(
            lambda: self._store.kept_since_ms(newest, keep), "finding the newest workflows"
        )
        if kept_since_ms is None:
            return None
        before_ms = min(now_ms - policy.older_than_ms, kept_since_ms)
        return replace(newest, before_ms=before_ms)


class Purger(Loop):
    """Removes by a policy now and then. Several processes that do so at once share the work."""

    def __init__(
        self, tasks: Tasks, purge: Purge, policy: Policy, every_s: float, ids: Ids
    ) -> None:
        super().__init__(tasks, "purger")
        self._purge = purge
        self._policy = policy
        self._every_s = every_s
        self._ids = ids
        self._is_new = True

    async def turn(self) -> float | None:
        """Remove what may go by now."""
        if self._is_new:
            self._is_new = False
            return min(FIRST_S, self._every_s) * self._ids.jitter()
        removed = await self._purge.run(self._policy)
        if removed:
            log.info("%d ended workflows were removed, by the engine's retention", removed)
        return self._every_s * self._ids.jitter()
