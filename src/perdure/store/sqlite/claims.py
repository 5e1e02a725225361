"""Taking work from queues, and watching over what was taken."""

from collections import Counter
from collections.abc import Sequence

from perdure.model.ids import ExecutorId, WorkflowId
from perdure.model.wire import INTERNAL_QUEUES
from perdure.model.workflow import ClaimedRun, ClaimRequest, Fence
from perdure.store import rows
from perdure.store.sqlite.concern import Access, Concern, packed
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.queues import registered_queue
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
                for name, limit in request.shares
                if self._is_unlimited(transaction, name)
                for row in taking.first_of(name, limit - counts[name])
            ]
            taken = taking.take(found, transaction.now_ms, rate_limited=False)
            return claimed_runs([*before, *taken])

        return await self._database.write(work)

    def _is_unlimited(self, transaction: Transaction, name: str) -> bool:
        """Whether the queue is open and without shared limits by now, whatever the caller knew."""
        queue = registered_queue(transaction, self._queries, name, self._application)
        if queue is None:
            return name in INTERNAL_QUEUES
        settings = queue.settings
        return not (queue.is_paused or settings.partitioned or settings.limits.are_shared)

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
