"""Taking work from queues, and watching over what was taken."""

from collections import Counter
from collections.abc import Sequence

from perdure.model.ids import ExecutorId, WorkflowId
from perdure.model.workflow import ClaimedRun, ClaimRequest, Fence
from perdure.store import rows
from perdure.store.sqlite.concern import Access, Concern, packed
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.taking import Taking, claimed_runs
from perdure.store.sqlite.transaction import Transaction
from perdure.store.tokens import RecentTokens


class Claims(Concern):
    """`ClaimStore.claim`, `lost` and `owned`."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._claims_tried = RecentTokens()

    async def claim(self, request: ClaimRequest) -> list[ClaimedRun]:
        """See `perdure.ports.store.ClaimStore.claim`."""
        claimant = request.claimant
        repeated = self._claims_tried.note(claimant.token)

        def work(transaction: Transaction) -> list[ClaimedRun]:
            self._require_lease(transaction, claimant.executor_id)
            taking = Taking(self._access, transaction, claimant)
            before = taking.before() if repeated else []
            counts = Counter(row["queue_name"] for row in before)
            found = [
                row
                for share in request.shares
                for row in taking.first_of(share.queue_name, share.limit - counts[share.queue_name])
            ]
            taken = taking.take(found, transaction.now_ms, rate_limited=False)
            return claimed_runs([*before, *taken])

        return await self._database.write(work)

    async def lost(self, fences: Sequence[Fence]) -> list[WorkflowId]:
        """See `perdure.ports.store.ClaimStore.lost`."""

        def work(connection: Connection) -> list[WorkflowId]:
            found = connection.rows(self._queries["lost_runs"], {"fences": packed(fences)})
            return [WorkflowId(row["workflow_uuid"]) for row in found]

        return await self._database.read(work)

    async def owned(self, executor_id: ExecutorId) -> list[Fence]:
        """See `perdure.ports.store.ClaimStore.owned`."""

        def work(connection: Connection) -> list[Fence]:
            found = connection.rows(self._queries["owned_runs"], {"executor": executor_id})
            return [rows.fence(row) for row in found]

        return await self._database.read(work)
