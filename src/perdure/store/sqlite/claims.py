"""Taking work from queues, and watching over what was taken."""

from collections.abc import Sequence
from sqlite3 import Row
from typing import Any

from perdure.model.ids import ExecutorId, WorkflowId
from perdure.model.workflow import ClaimedRun, ClaimRequest, Fence
from perdure.store import rows
from perdure.store.sqlite.concern import Access, Concern, packed
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.instants import later
from perdure.store.sqlite.transaction import Transaction
from perdure.store.tokens import RecentTokens

DUE_AT_ONCE = 1000
"""DELAYED rows one claim moves at least, should there be that many due."""


class Claims(Concern):
    """`RunStore.claim`, `lost` and `owned`."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._tried = RecentTokens()

    async def claim(self, request: ClaimRequest) -> list[ClaimedRun]:
        """See `perdure.ports.store.RunStore.claim`."""
        repeated = self._tried.note(request.token)

        def work(transaction: Transaction) -> list[ClaimedRun]:
            self._require_lease(transaction, request.executor_id)
            before = self._claimed_before(transaction, request) if repeated else []
            self._enqueue_due(transaction, request)
            found = self._candidates(transaction, request, request.limit - len(before))
            taken = [self._taken(row, request, transaction.now_ms) for row in found]
            transaction.change_each(
                self._queries["claim_run"],
                [self._claim(row, request, transaction.now_ms) for row in taken],
            )
            return [rows.claimed_run(row) for row in (*before, *taken)]

        return await self._database.write(work)

    def _claimed_before(
        self, transaction: Transaction, request: ClaimRequest
    ) -> list[dict[str, Any]]:
        found = transaction.rows(self._queries["claimed_before"], {"token": request.token})
        found.sort(key=_claim_order)
        return [_measured(dict(row), transaction.now_ms) for row in found]

    def _enqueue_due(self, transaction: Transaction, request: ClaimRequest) -> None:
        if request.limit <= 0:
            return
        transaction.change(
            self._queries["enqueue_due"],
            {
                "now": transaction.now_ms,
                "queues": packed(request.queues),
                "application": self._application,
                "limit": max(request.limit, DUE_AT_ONCE),
            },
        )

    def _candidates(self, transaction: Transaction, request: ClaimRequest, limit: int) -> list[Row]:
        """The first rows of all the queues: those of each, in order, merged."""
        if limit <= 0:
            return []
        found: list[Row] = []
        keys = packed(request.keys)
        for queue in dict.fromkeys(request.queues):
            found += transaction.rows(
                self._queries["claim_candidates"],
                {
                    "queue": queue,
                    "application": self._application,
                    "version": request.version,
                    "keys": keys,
                    "limit": limit,
                },
            )
        found.sort(key=_claim_order)
        return found[:limit]

    def _taken(self, row: Row, request: ClaimRequest, now_ms: int) -> dict[str, Any]:
        taken = dict(row)
        taken["owner_xid"] = request.token
        taken["recovery_attempts"] = (row["recovery_attempts"] or 0) + 1
        if row["workflow_deadline_epoch_ms"] is None:
            taken["workflow_deadline_epoch_ms"] = later(now_ms, row["workflow_timeout_ms"])
        return _measured(taken, now_ms)

    def _claim(self, row: dict[str, Any], request: ClaimRequest, now_ms: int) -> tuple[Any, ...]:
        return (
            row["workflow_uuid"],
            request.token,
            request.executor_id,
            request.version,
            self._application,
            now_ms,
            row["recovery_attempts"],
            row["workflow_deadline_epoch_ms"],
        )

    async def lost(self, fences: Sequence[Fence]) -> list[WorkflowId]:
        """See `perdure.ports.store.RunStore.lost`."""

        def work(connection: Connection) -> list[WorkflowId]:
            found = connection.rows(self._queries["lost_runs"], {"fences": packed(fences)})
            return [WorkflowId(row["workflow_uuid"]) for row in found]

        return await self._database.read(work)

    async def owned(self, executor_id: ExecutorId) -> list[Fence]:
        """See `perdure.ports.store.RunStore.owned`."""

        def work(connection: Connection) -> list[Fence]:
            found = connection.rows(self._queries["owned_runs"], {"executor": executor_id})
            return [rows.fence(row) for row in found]

        return await self._database.read(work)


def _claim_order(row: Row) -> tuple[int, int, str]:
    return (row["priority"], row["created_at"], row["workflow_uuid"])


def _measured(row: dict[str, Any], now_ms: int) -> dict[str, Any]:
    deadline_ms = row["workflow_deadline_epoch_ms"]
    row["deadline_left_ms"] = None if deadline_ms is None else deadline_ms - now_ms
    return row
