"""Which partitions of a queue a claim looks at, and which of their rows it takes."""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from sqlite3 import Row

from perdure.store.sqlite.taking import Taking
from perdure.store.sqlite.transaction import Transaction

KEYS_AT_ONCE = 256

_BEHIND = "\x00"
"""What makes a text the first one after another."""


@dataclass(frozen=True, slots=True)
class Visit:
    """The keys a claim looks at, in the order of the visit.

    `has_more`: there are others. `went_round`: it began again at the first.
    """

    keys: tuple[str, ...]
    has_more: bool
    went_round: bool


def visit(
    transaction: Transaction, queries: Mapping[str, str], queue_name: str, after_key: str
) -> Visit:
    """The next keys of which rows are ENQUEUED, once around at most."""

    def keys(first: str, last: str | None, limit: int) -> list[str]:
        asked = {"queue": queue_name, "first": first, "last": last, "limit": limit}
        return [key for (key,) in transaction.rows(queries["partition_keys"], asked)]

    # One more than is looked at shows whether there are others.
    ahead = keys(after_key + _BEHIND, None, KEYS_AT_ONCE + 1)
    if len(ahead) > KEYS_AT_ONCE:
        return Visit(tuple(ahead[:KEYS_AT_ONCE]), has_more=True, went_round=False)
    again = keys("", after_key, KEYS_AT_ONCE + 1 - len(ahead))
    found = (*ahead, *again)
    return Visit(found[:KEYS_AT_ONCE], has_more=len(found) > KEYS_AT_ONCE, went_round=True)


def choose(taking: Taking, queue_name: str, rooms: Mapping[str, int], total: int) -> list[Row]:
    """The rows to take of partitions with so much room each, `total` at most.

    The most urgent first, then the first of every partition before the second of any.
    """
    if not rooms or total <= 0:
        return []
    firsts = taking.first_of_each(queue_name, rooms)
    page = -(-total // max(len(firsts), 1))

    def ranked(first: Row) -> Iterator[tuple[int, int, int, str, int]]:
        room = min(rooms[first["key"]], total)
        found, rank = [first], 0
        while found:
            for row in found:
                yield row["priority"], rank, row["created_at"], row["workflow_uuid"], row["place"]
                rank += 1
            limit = min(page, room - rank)
            found = taking.page_of(queue_name, first["key"], limit, rank) if limit > 0 else []

    merged = heapq.merge(*map(ranked, firsts))
    return taking.in_places(place for *_, place in islice(merged, total))
