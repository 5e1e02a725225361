"""Taking work from queues, and watching over what was taken."""

from collections.abc import Sequence
from typing import Any

from perdure.errors import LeaseLost
from perdure.model.ids import ExecutorId, WorkflowId
from perdure.model.workflow import ClaimedRun, ClaimRequest, Fence, WorkflowKey
from perdure.store import rows
from perdure.store.postgres.batch import packed
from perdure.store.postgres.concern import Access, Concern, boot_of
from perdure.store.postgres.lanes import Record
from perdure.store.tokens import RecentTokens


class Claims(Concern):
    """`RunStore.claim`, `lost` and `owned`."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._tried = RecentTokens()

    async def claim(self, request: ClaimRequest) -> list[ClaimedRun]:
        """See `perdure.ports.store.RunStore.claim`."""
        before: list[Record] = []
        if self._tried.note(request.token):
            before = await self._database.hot(
                "claim", "claimed_before", request.token, self._database.offset_ms
            )
        taken = await self._claim(request, request.limit - len(before))
        return [rows.claimed_run(row) for row in (*before, *taken)]

    async def _claim(self, request: ClaimRequest, limit: int) -> list[Record]:
        asked = [
            boot_of(request.executor_id),
            request.executor_id,
            *sought(request.queues, request.keys, request.version),
            self._application,
            self._database.offset_ms,
            request.token,
            max(limit, 0),
        ]
        found = await self._database.hot("claim", "claim", *asked, limit > 0)
        if found and found[0]["moved"]:
            found = await self._database.hot("claim", "claim", *asked, False)  # noqa: FBT003 - SQL
        if not found:
            raise LeaseLost(f"the lease of {request.executor_id} was taken over or never written")
        return [row for row in found if row["workflow_uuid"] is not None]

    async def lost(self, fences: Sequence[Fence]) -> list[WorkflowId]:
        """See `perdure.ports.store.RunStore.lost`."""
        if not fences:
            return []
        found = await self._database.fetch("lost_runs", *packed(fences))
        return [WorkflowId(row["workflow_uuid"]) for row in found]

    async def owned(self, executor_id: ExecutorId) -> list[Fence]:
        """See `perdure.ports.store.RunStore.owned`."""
        return [rows.fence(row) for row in await self._database.fetch("owned_runs", executor_id)]


def sought(queues: Sequence[str], keys: Sequence[WorkflowKey], version: str) -> tuple[Any, ...]:
    """What a process can run, as the parameters of `sql/claims.sql` from $3 to $7."""
    return (
        list(dict.fromkeys(queues)),
        [key.name for key in keys],
        [key.class_name for key in keys],
        [key.config_name for key in keys],
        version,
    )
