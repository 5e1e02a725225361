"""Taking work from queues, and watching over what was taken."""

from collections.abc import Sequence
from typing import Protocol

from perdure.model.ids import ExecutorId, WorkflowId
from perdure.model.queue import Swept
from perdure.model.workflow import ClaimedRun, ClaimRequest, Fence, SharedClaim, SharedRequest


class ClaimStore(Protocol):
    """From ENQUEUED to PENDING."""

    async def claim(self, request: ClaimRequest) -> list[ClaimedRun]:
        """Take ENQUEUED rows, of each of the request's queues up to its share, and return them.

        For queues without limits that the fleet shares: nothing is counted. One that has some by
        now, is paused or not registered (the internal ones are always) gives nothing. Order, in
        each queue and of what is returned: priority, then creation, then id. Rows locked by others
        are skipped. Sets state PENDING, owner = `token`, executor, version, application, start
        time, `rate_limited` false, attempts + 1, `updated_at`, and the deadline (kept if set, else
        database clock + timeout).
        Holds the lease's key-share lock as `start` does; raises `LeaseLost` and claims nothing if
        it is gone. Repeating a call with the same token after an unknown outcome also returns the
        rows the first try claimed (PENDING rows bearing the token).
        """
        ...

    async def claim_shared(self, request: SharedRequest) -> SharedClaim:
        """The same from registered queues with limits that the fleet shares: exact, at any time.

        In one transaction: the rows of the request's queues are locked, in the order of their
        names and without waiting (one that is locked by somebody is `contended`); a later statement
        reads what each limit is used by; then as many rows are claimed as `logic.admission` leaves
        room for. The limits are those of the locked rows, whatever the caller knew; a paused queue
        gives nothing.

        Counted are rows of this application and of none: PENDING rows against the concurrency; for
        a rate the claims in the rate log of the last period, and shared rows with `rate_limited`
        that started in it, are neither ENQUEUED nor DELAYED, and have no entry in the log with the
        same workflow id and start time. A claim from a queue with a rate writes `rate_limited`
        true and an entry of the log, with one time for both that is read after the lock.

        From a partitioned queue only rows with a key are claimed. The keys with ENQUEUED rows are
        visited in order from `after_key` on, a bounded number of them, beginning again at the first
        one after the last; each gives as many as its own limits leave room for. Taken are first
        those of the most urgent priority, then the first of every partition, then the second of
        every partition, and so on. Otherwise everything is as in `claim`.
        """
        ...

    async def lost(self, fences: Sequence[Fence]) -> list[WorkflowId]:
        """Of these executions, the ones whose row is no longer PENDING under their owner token."""
        ...

    async def owned(self, executor_id: ExecutorId) -> list[Fence]:
        """Every PENDING row of this executor with its owner token (rows without one left out)."""
        ...

    async def sweep(self, limit: int) -> Swept:
        """Move what is due and end what is overdue, in one transaction; rows locked are skipped.

        Up to `limit` DELAYED rows whose `delay_until` has come become ENQUEUED, the longest due
        first; `updated_at` stays as the other SDKs leave it, and a debounced row's deduplication id
        is cleared. Up to `limit` ENQUEUED, DELAYED or PENDING rows whose deadline has come become
        CANCELLED, as a `Cancel` does it. Only rows of this application or of none.
        """
        ...
