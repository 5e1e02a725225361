"""Taking work from queues, and watching over what was taken."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from perdure.errors import LeaseLost
from perdure.model.ids import ExecutorId, WorkflowId
from perdure.model.workflow import Claimant, ClaimedRun, ClaimRequest, Fence, WorkflowKey
from perdure.store import rows
from perdure.store.postgres.batch import packed, packed_numbers
from perdure.store.postgres.concern import Access, Concern, boot_of
from perdure.store.postgres.lanes import Record
from perdure.store.tokens import RecentTokens


class Claims(Concern):
    """`ClaimStore.claim`, `lost` and `owned`."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._tried = RecentTokens()

    async def claim(self, request: ClaimRequest) -> list[ClaimedRun]:
        """See `perdure.ports.store.ClaimStore.claim`."""
        claimant = request.claimant
        before: list[Record] = []
        if self._tried.note(claimant.token):
            before = await self._database.hot(
                "claim", "claimed_before", claimant.token, self._database.offset_ms
            )
        had = Counter(row["queue_name"] for row in before)
        taken = await self._database.hot(
            "claim",
            "claim",
            *claiming(
                claimant,
                [share.queue_name for share in request.shares],
                self._application,
                self._database.offset_ms,
            ),
            packed_numbers(
                [max(share.limit - had[share.queue_name], 0) for share in request.shares]
            ),
            [],
        )
        return in_order([*before, *found_by(taken, claimant)])

    async def lost(self, fences: Sequence[Fence]) -> list[WorkflowId]:
        """See `perdure.ports.store.ClaimStore.lost`."""
        if not fences:
            return []
        found = await self._database.kept("lost_runs", *packed(fences))
        return [WorkflowId(row["workflow_uuid"]) for row in found]

    async def owned(self, executor_id: ExecutorId) -> list[Fence]:
        """See `perdure.ports.store.ClaimStore.owned`."""
        return [rows.fence(row) for row in await self._database.fetch("owned_runs", executor_id)]


def sought(
    queues: Sequence[str], keys: Sequence[WorkflowKey], version: str
) -> tuple[list[str], list[str], list[str], list[str], str]:
    """What a process can run, as the parameters of `sql/claims.sql` from $3 to $7."""
    return (
        list(queues),
        [key.name for key in keys],
        [key.class_name for key in keys],
        [key.config_name for key in keys],
        version,
    )


def claiming(
    claimant: Claimant, queues: Sequence[str], application: str | None, offset_ms: int
) -> tuple[Any, ...]:
    """Who claims from which queues, as the parameters from $1 to $10."""
    return (
        boot_of(claimant.executor_id),
        claimant.executor_id,
        *sought(queues, claimant.keys, claimant.version),
        application,
        offset_ms,
        claimant.token,
    )


def found_by(rows_found: Sequence[Record], claimant: Claimant) -> list[Record]:
    """The rows of a statement that claims; raises `LeaseLost` if there is not even an empty one."""
    if not rows_found:
        raise LeaseLost(f"the lease of {claimant.executor_id} was taken over or never written")
    return [row for row in rows_found if row["workflow_uuid"] is not None]


def in_order(claimed: Sequence[Record]) -> list[ClaimedRun]:
    """What a claim returns, of one try or of several."""
    ordered = sorted(
        claimed, key=lambda row: (row["priority"], row["created_at"], row["workflow_uuid"])
    )
    return [rows.claimed_run(row) for row in ordered]
