"""How many workflows a claim may take, by the limits of a queue and by what uses them up.

A claim looks at the usage under the queue's lock, so that what is decided here stays true until it
commits: only claims use limits up, and no other claim of this queue is under way.
"""

from collections.abc import Mapping, Sequence

import msgspec

from perdure.model.queue import PartitionHead, QueueLimits, Usage


class Room(msgspec.Struct, frozen=True):
    """How many may be taken; `frees_at_ms` says when time brings more room, where it does."""

    count: int
    frees_at_ms: int | None = None


class PartitionRooms(msgspec.Struct, frozen=True):
    """How many to look for in each partition, and how many to take of them altogether.

    A partition without room is left out; the room of the whole says when the first of them whose
    rate is used up has some again.
    """

    by_key: Mapping[str, int]
    total: Room


def room_of_queue(limits: QueueLimits, usage: Usage, running: int, most: int) -> Room:
    """The room the limits of a whole queue leave to a process that runs `running` of it and wants
    `most`."""
    count = _least(
        most,
        _left(limits.worker, running),
        _left(limits.concurrency, usage.pending),
        _left(limits.rate.limit if limits.rate else None, usage.claims),
    )
    return Room(count, usage.frees_at_ms if count == 0 else None)


def rooms_of_partitions(
    limits: QueueLimits,
    heads: Sequence[PartitionHead],
    running: Mapping[str, int],
    total: Room,
) -> PartitionRooms:
    """The room that their own limits leave to partitions with work, within that of the queue.

    `running` is what this process runs of each.
    """
    by_key: dict[str, int] = {}
    waits: list[int] = []
    for head in heads:
        count = _least(
            total.count,
            _left(limits.partition_worker, running.get(head.key, 0)),
            _left(limits.partition_concurrency, head.usage.pending),
            _left(
                limits.partition_rate.limit if limits.partition_rate else None, head.usage.claims
            ),
        )
        if count > 0:
            by_key[head.key] = count
        elif head.usage.frees_at_ms is not None:
            waits.append(head.usage.frees_at_ms)
    if total.count == 0:
        return PartitionRooms({}, total)
    return PartitionRooms(by_key, Room(total.count if by_key else 0, min(waits, default=None)))


def _left(limit: int | None, used: int) -> int | None:
    return None if limit is None else max(limit - used, 0)


def _least(most: int, *rooms: int | None) -> int:
    return max(min(most, *(most if room is None else room for room in rooms)), 0)
