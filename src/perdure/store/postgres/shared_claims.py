"""Taking work from queues with limits that the fleet shares.

One READ COMMITTED transaction: the rows of the queues are locked, and a later statement reads what
their limits are used by. It therefore sees everything that claims before this one did, and until
this one is over no other uses a limit up.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from perdure.logic.admission import Room, room_of_queue, rooms_of_partitions
from perdure.model.queue import Load, PartitionHead, QueueRow, QueueTurn, Usage
from perdure.model.workflow import SharedClaim, SharedRequest
from perdure.store import rows
from perdure.store.postgres.batch import packed_numbers
from perdure.store.postgres.claims import claiming, found_by, in_order
from perdure.store.postgres.concern import Access, Concern, boot_of
from perdure.store.postgres.lanes import Record, Transaction
from perdure.store.tokens import RecentTokens

LEAST_VISITED: Final = 64
MOST_VISITED: Final = 256
"""Partitions of a queue that one claim looks at: twice as many as it may take, within bounds."""

PRUNED_AT_ONCE: Final = 1000
"""Entries of a queue's rate log that one claim forgets."""

_IDLE_HOLDER: Final = "2s"
"""How long a process that stands still can keep a queue from the others."""


class SharedClaims(Concern):
    """`ClaimStore.claim_shared`."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._tried_shared = RecentTokens()

    async def claim_shared(self, request: SharedRequest) -> SharedClaim:
        """See `perdure.ports.store.ClaimStore.claim_shared`."""
        repeated = self._tried_shared.note(request.claimant.token)
        async with self._database.hot_transaction("claim_shared") as transaction:
            claim = _Claim(self._access, transaction, request)
            locked, contended = await claim.lock()
            before = await claim.before() if repeated else []
            offers = await claim.offers(locked, before)
            taken = await claim.take(offers, request.limit - len(before))
        turns = _Turns(before, taken, request.limit)
        return SharedClaim(
            tuple(in_order([*before, *taken])),
            tuple(
                turns.of(load, offers.get(load.queue_name), contended=load.queue_name in contended)
                for load in request.loads
            ),
        )


class _Offer(msgspec.Struct, frozen=True):
    """What the limits of a queue leave to a claim.

    `shares` says how many to look for in which partition (None: in the whole queue), `most` how
    many to take of them, `room` how many the limits of the whole queue would allow, as far as that
    matters. `goes_on`: there are partitions that were not looked at, `from_start`: it began again
    at the first.
    """

    after_key: str
    shares: tuple[tuple[str | None, int], ...] = ()
    most: int = 0
    room: int = 0
    is_full: bool = False
    frees_at_ms: int | None = None
    goes_on: bool = False
    from_start: bool = False
    is_rated: bool = False


class _Claim:
    """One claim, statement by statement."""

    def __init__(self, access: Access, transaction: Transaction, request: SharedRequest) -> None:
        self._queries = access.database.queries
        self._offset_ms = access.database.offset_ms
        self._application = access.application
        self._transaction = transaction
        self._request = request

    async def lock(self) -> tuple[list[str], set[str]]:
        """The queues whose lock this claim has, and those whose lock somebody else has."""
        claimant = self._request.claimant
        found = await self._fetch(
            "lock_queues",
            boot_of(claimant.executor_id),
            [load.queue_name for load in self._request.loads],
            self._application,
            _IDLE_HOLDER,
        )
        if not found:
            found_by(found, claimant)
        names = {row["name"]: row["is_locked"] for row in found if row["name"] is not None}
        return (
            [name for name, is_locked in names.items() if is_locked],
            {name for name, is_locked in names.items() if not is_locked},
        )

    async def before(self) -> list[Record]:
        """What an earlier try with the same token took."""
        return await self._fetch("claimed_before", self._request.claimant.token, self._offset_ms)

    async def offers(self, locked: Sequence[str], before: Sequence[Record]) -> dict[str, _Offer]:
        """What may be taken from each of the locked queues."""
        if not locked:
            return {}
        usage = await self._fetch("queue_usage", locked, self._application, self._offset_ms)
        loads = _loads(self._request, before)
        most = max(self._request.limit - len(before), 0)
        offers: dict[str, _Offer] = {}
        partitioned: dict[str, tuple[QueueRow, _Offer]] = {}
        for row in usage:
            queue = rows.queue_row(row)
            offer = _offer_of_queue(queue, rows.usage(row), loads[queue.name], most)
            if queue.settings.partitioned and offer.most > 0:
                partitioned[queue.name] = (queue, offer)
            else:
                offers[queue.name] = offer
        visits = min(max(2 * most, LEAST_VISITED), MOST_VISITED)
        heads = await self._heads(partitioned, loads, visits)
        for name, (queue, offer) in partitioned.items():
            found = _offer_of_partitions(queue, heads[name], loads[name], offer)
            offers[name] = replace(found, goes_on=len(heads[name]) == visits)
        return offers

    async def _heads(
        self, queues: Collection[str], loads: Mapping[str, Load], visits: int
    ) -> dict[str, list[Record]]:
        heads: dict[str, list[Record]] = {name: [] for name in queues}
        if heads:
            found = await self._fetch(
                "partition_heads",
                list(heads),
                self._application,
                self._offset_ms,
                [loads[name].after_key for name in heads],
                visits,
            )
            for row in found:
                heads[row["queue_name"]].append(row)
        return heads

    async def take(self, offers: Mapping[str, _Offer], limit: int) -> list[Record]:
        """Claim as many rows as the offers allow, `limit` at most."""
        shares = [
            (name, key, share, offer.most)
            for name, offer in offers.items()
            for key, share in offer.shares
        ]
        if not shares:
            return []
        names, keys, counts, totals = map(list, zip(*shares, strict=True))
        claimant = self._request.claimant
        found = await self._fetch(
            "claim_shared",
            *claiming(claimant, names, self._application, self._offset_ms),
            packed_numbers(counts),
            [name for name, offer in offers.items() if offer.is_rated],
            keys,
            packed_numbers(totals),
            limit,
            PRUNED_AT_ONCE,
        )
        return found_by(found, claimant)

    async def _fetch(self, query: str, *arguments: Any) -> list[Record]:
        return await self._transaction.fetch(self._queries[query], *arguments)


class _Turns:
    """What is told of each queue after a claim."""

    def __init__(self, before: Sequence[Record], taken: Sequence[Record], limit: int) -> None:
        self._before = Counter(row["queue_name"] for row in before)
        self._taken = Counter(row["queue_name"] for row in taken)
        self._is_cut = len(before) + len(taken) >= limit

    def of(self, load: Load, offer: _Offer | None, *, contended: bool) -> QueueTurn:
        """The turn of one queue; there is no offer from one that is not locked, or not there."""
        name = load.queue_name
        taken = self._taken[name]
        turn = QueueTurn(
            name,
            taken=taken + self._before[name],
            contended=contended,
            after_key=load.after_key,
        )
        if offer is None:
            return turn
        may_hold_more = self._is_cut or taken >= offer.most
        # A whole round past partitions that gave nothing is a reason to pause.
        goes_on = offer.goes_on and (taken > 0 or not offer.from_start)
        has_more = offer.room > taken and (may_hold_more or goes_on)
        return replace(
            turn,
            is_full=offer.is_full and not has_more,
            frees_at_ms=offer.frees_at_ms,
            has_more=has_more,
            after_key=offer.after_key,
        )


def _loads(request: SharedRequest, before: Sequence[Record]) -> dict[str, Load]:
    """What this process runs of each queue, with the rows it does not know yet that it has."""
    loads = {load.queue_name: load for load in request.loads}
    for row in before:
        load, key = loads.get(row["queue_name"]), row["queue_partition_key"]
        if load is None:
            continue
        by_partition = Counter(dict(load.by_partition))
        if key is not None:
            by_partition[key] += 1
        loads[load.queue_name] = replace(
            load, running=load.running + 1, by_partition=tuple(by_partition.items())
        )
    return loads


def _offer_of_queue(queue: QueueRow, usage: Usage, load: Load, most: int) -> _Offer:
    limits = queue.settings.limits
    if queue.is_paused:
        return _Offer(load.after_key)
    # One more than can be taken, to learn whether there would be room for it.
    room = room_of_queue(limits, usage, load.running, most + 1)
    count = min(room.count, most)
    return _Offer(
        load.after_key,
        shares=((None, count),) if count > 0 else (),
        most=count,
        room=room.count,
        is_full=room.count == 0,
        frees_at_ms=room.frees_at_ms,
        is_rated=limits.rate is not None or limits.partition_rate is not None,
    )


def _offer_of_partitions(
    queue: QueueRow, heads: Sequence[Record], load: Load, whole: _Offer
) -> _Offer:
    if not heads:
        return replace(whole, shares=())
    rooms = rooms_of_partitions(
        queue.settings.limits,
        [PartitionHead(row["key"], rows.usage(row)) for row in heads],
        dict(load.by_partition),
        Room(whole.most),
    )
    return replace(
        whole,
        after_key=heads[-1]["key"],
        shares=tuple(rooms.by_key.items()),
        is_full=not rooms.by_key,
        frees_at_ms=rooms.total.frees_at_ms,
        from_start=heads[-1]["wrapped"],
    )
