"""Says what waits and cannot run: nothing waits for ever in silence."""

import logging

from perdure.engine.committer import Retry
from perdure.engine.services import Loop, Tasks
from perdure.engine.time import DatabaseTime
from perdure.logic.explaining import Cause, explain
from perdure.model.listing import ListingRequest
from perdure.model.status import WorkflowState
from perdure.model.workflow import WorkflowRow
from perdure.ports.ids import Ids
from perdure.ports.store import Store

log = logging.getLogger("perdure")

PERIOD_S = 60.0
PATIENCE_MS = 60_000
"""How long a workflow waits before anybody wonders: those it waits for may be starting."""

LOOKED_AT = 100
TOLD_AT_ONCE = 10

NEVER_BY_ITSELF = frozenset(
    {
        Cause.QUEUE_UNKNOWN,
        Cause.PARTITION_KEY_MISSING,
        Cause.QUEUE_NOT_SERVED,
        Cause.VERSION_NOT_SERVED,
        Cause.FUNCTION_NOT_SERVED,
    }
)
"""What no passing of time cures while processes of the application are alive."""

Kind = tuple[str | None, str, str | None]
"""Workflows of one queue, function and version wait for the same."""


class Watchman(Loop):
    """Looks once a minute at the oldest that wait, and tells once why a kind of them cannot run."""

    def __init__(
        self, tasks: Tasks, store: Store, retry: Retry, time: DatabaseTime, ids: Ids
    ) -> None:
        super().__init__(tasks, "watchman")
        self._store = store
        self._retry = retry
        self._time = time
        self._ids = ids
        self._told: set[tuple[Kind, Cause]] = set()
        self._is_new = True

    async def turn(self) -> float | None:
        """Look at the oldest; what was told and is over by now may be told again."""
        if self._is_new:
            self._is_new = False
        else:
            await self._look()
        return PERIOD_S * self._ids.jitter()

    async def _look(self) -> None:
        wanted = ListingRequest(states=(WorkflowState.ENQUEUED,), limit=LOOKED_AT)
        rows = await self._retry(
            lambda: self._store.list_workflows(wanted), "looking at what waits longest"
        )
        now_ms = self._time.now_ms()
        kinds: dict[Kind, WorkflowRow] = {}
        for row in rows:
            if row.updated_at_ms < now_ms - PATIENCE_MS:
                kinds.setdefault((row.queue_name, str(row.key), row.application_version), row)
        told = set[tuple[Kind, Cause]]()
        for kind, row in list(kinds.items())[:TOLD_AT_ONCE]:
            cause = await self._tell(kind, row)
            if cause is not None:
                told.add((kind, cause))
        self._told = told

    async def _tell(self, kind: Kind, row: WorkflowRow) -> Cause | None:
        circumstances = await self._retry(
            lambda: self._store.circumstances(row.workflow_id), "finding out why a workflow waits"
        )
        if circumstances is None:
            return None
        found = explain(circumstances)
        if found.cause not in NEVER_BY_ITSELF:
            return None
        if (kind, found.cause) not in self._told:
            log.warning(
                "workflow %s (%s) waits for more than %d s, and others like it may: %s",
                row.workflow_id,
                row.key,
                PATIENCE_MS // 1000,
                found.text,
            )
        return found.cause
