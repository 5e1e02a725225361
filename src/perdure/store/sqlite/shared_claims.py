"""Claims from queues with limits that the fleet shares.

One write transaction is the lock: nobody claims between the look at what uses a limit up and the
claim, so no queue is ever found contended.
"""

from collections import Counter
from collections.abc import Sequence
from sqlite3 import Row

from msgspec.structs import replace

from perdure.logic.admission import Room, room_of_queue, rooms_of_partitions
from perdure.model.queue import Load, PartitionHead, QueueRow, QueueTurn, Rate
from perdure.model.workflow import SharedClaim, SharedRequest
from perdure.store.sqlite.concern import Access, Concern, packed
from perdure.store.sqlite.partitions import choose, visit
from perdure.store.sqlite.queues import registered_queue
from perdure.store.sqlite.taking import Taken, Taking, claimed_runs
from perdure.store.sqlite.transaction import Transaction
from perdure.store.sqlite.usage import Usages, period_ms
from perdure.store.tokens import RecentTokens

PRUNED_AT_ONCE = 1000
"""More than a claim logs, so that what is kept does not grow."""


class SharedClaims(Concern):
    """`ClaimStore.claim_shared`."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._shared_claims_tried = RecentTokens()

    async def claim_shared(self, request: SharedRequest) -> SharedClaim:
        """See `perdure.ports.store.ClaimStore.claim_shared`."""
        repeated = self._shared_claims_tried.note(request.claimant.token)

        def work(transaction: Transaction) -> SharedClaim:
            self._require_lease(transaction, request.claimant.executor_id)
            claim = _SharedClaim(self._access, transaction, request, repeated=repeated)
            turns = tuple(claim.turn(load) for load in request.loads)
            return SharedClaim(tuple(claimed_runs(claim.taken)), turns)

        return await self._database.write(work)


class _SharedClaim:
    """One call inside its transaction; `taken` is what it took so far."""

    def __init__(
        self, access: Access, transaction: Transaction, request: SharedRequest, *, repeated: bool
    ) -> None:
        self._queries = access.queries
        self._application = access.application
        self._transaction = transaction
        self._limit = request.limit
        self._taking = Taking(access, transaction, request.claimant)
        self._usages = Usages(
            transaction.rows, access.queries, access.application, transaction.now_ms
        )
        self._before = self._taking.before() if repeated else []
        self.taken: list[Taken] = list(self._before)

    def turn(self, load: Load) -> QueueTurn:
        """Claim from one queue what its limits leave room for."""
        name = load.queue_name
        turn = QueueTurn(name, after_key=load.after_key)
        queue = registered_queue(self._transaction, self._queries, name, self._application)
        if queue is None or queue.is_paused:
            return turn
        before = [row for row in self._before if row["queue_name"] == name]
        running = load.running + len(before)
        left = max(self._limit - len(self.taken), 0)
        limits = queue.settings.limits
        usage = self._usages.of_queue(name, limits)
        # One more than may be taken shows whether the limits would let more through.
        room = room_of_queue(limits, usage, running, left + 1)
        if room.count == 0:
            turn = replace(turn, is_full=True, frees_at_ms=room.frees_at_ms)
        elif left == 0:
            turn = replace(turn, has_more=True)
        elif queue.settings.partitioned:
            turn = self._turn_of_partitions(queue, load, before, room, left)
        else:
            count = min(room.count, left)
            taken = self._take(queue, self._taking.first_of(name, count))
            turn = replace(turn, taken=taken, has_more=taken == left and room.count > left)
        return replace(turn, taken=turn.taken + len(before))

    def _turn_of_partitions(
        self, queue: QueueRow, load: Load, before: Sequence[Taken], room: Room, left: int
    ) -> QueueTurn:
        name, limits = queue.name, queue.settings.limits
        seen = visit(self._transaction, self._queries, name, load.after_key)
        usages = self._usages.of_partitions(name, limits, seen.keys)
        running = Counter(dict(load.by_partition))
        running.update(row["queue_partition_key"] for row in before)
        heads = [PartitionHead(key, usages[key]) for key in seen.keys]
        rooms = rooms_of_partitions(limits, heads, running, Room(min(room.count, left)))
        chosen = choose(self._taking, name, rooms.by_key, rooms.total.count)
        taken = self._take(queue, chosen)
        # A whole round past partitions that gave nothing is a reason to pause.
        goes_on = seen.has_more and (taken > 0 or not seen.went_round)
        is_full = bool(heads) and not rooms.by_key and not goes_on
        has_more = room.count > left if taken == left else goes_on and taken < room.count
        return QueueTurn(
            name,
            taken=taken,
            is_full=is_full,
            frees_at_ms=rooms.total.frees_at_ms,
            has_more=has_more,
            after_key=seen.keys[-1] if seen.keys else load.after_key,
        )

    def _take(self, queue: QueueRow, found: Sequence[Row]) -> int:
        """Take these rows, and write them down where a rate counts them."""
        if not found:
            return 0
        limits = queue.settings.limits
        rates = [rate for rate in (limits.rate, limits.partition_rate) if rate is not None]
        at_ms = self._instant(queue.name, found) if rates else self._transaction.now_ms
        taken = self._taking.take(found, at_ms, rate_limited=bool(rates))
        if rates:
            self._log(queue.name, taken, at_ms, rates)
        self.taken += taken
        return len(taken)

    def _instant(self, queue_name: str, found: Sequence[Row]) -> int:
        """Now, or as soon as none of the workflows was claimed at that very millisecond."""
        asked = {
            "queue": queue_name,
            "now": self._transaction.now_ms,
            "ids": packed(row["workflow_uuid"] for row in found),
        }
        latest = self._transaction.row(self._queries["latest_logged_claim"], asked)
        if latest is None or latest["started_at"] is None:
            return self._transaction.now_ms
        after_ms: int = latest["started_at"] + 1
        return after_ms

    def _log(
        self, queue_name: str, taken: Sequence[Taken], at_ms: int, rates: Sequence[Rate]
    ) -> None:
        self._transaction.change_each(
            self._queries["log_claim"],
            [
                (queue_name, at_ms, row["workflow_uuid"], row["queue_partition_key"])
                for row in taken
            ],
        )
        longest_ms = max(period_ms(rate) for rate in rates)
        pruned = {
            "queue": queue_name,
            "before": self._transaction.now_ms - 2 * longest_ms,
            "limit": PRUNED_AT_ONCE,
        }
        self._transaction.change(self._queries["prune_rate_log"], pruned)
