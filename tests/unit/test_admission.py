"""How many workflows a claim may take, by the limits of a queue and by what uses them up."""

from __future__ import annotations

import pytest

from perdure.logic.admission import PartitionRooms, Room, room_of_queue, rooms_of_partitions
from perdure.model.queue import PartitionHead, QueueLimits, Rate, Usage

NOTHING = Usage()
PLENTY = Room(100)


def room(limits: QueueLimits, usage: Usage = NOTHING, *, running: int = 0, most: int = 100) -> Room:
    """The room of a whole queue."""
    return room_of_queue(limits, usage, running, most)


def head(
    key: str, pending: int = 0, claims: int = 0, frees_at_ms: int | None = None
) -> PartitionHead:
    """A partition with work."""
    return PartitionHead(key, Usage(pending, claims, frees_at_ms))


def rooms(
    limits: QueueLimits, *heads: PartitionHead, total: Room = PLENTY, **running: int
) -> PartitionRooms:
    """The room of partitions."""
    return rooms_of_partitions(limits, heads, running, total)


def test_without_limits_there_is_room_for_what_is_wanted() -> None:
    assert room(QueueLimits(), Usage(pending=1000, claims=1000), running=1000) == Room(100)
    assert room(QueueLimits(), most=0) == Room(0)


@pytest.mark.parametrize(("running", "left"), [(0, 3), (2, 1), (3, 0), (7, 0)])
def test_the_process_runs_no_more_than_its_share(running: int, left: int) -> None:
    assert room(QueueLimits(worker=3), running=running) == Room(left)


@pytest.mark.parametrize(("pending", "left"), [(0, 3), (2, 1), (3, 0), (7, 0)])
def test_the_fleet_runs_no_more_than_the_limit(pending: int, left: int) -> None:
    """More may run than the limit where it was lowered meanwhile."""
    assert room(QueueLimits(concurrency=3), Usage(pending=pending)) == Room(left)


@pytest.mark.parametrize(("claims", "left"), [(0, 5), (4, 1), (5, 0), (9, 0)])
def test_no_more_start_in_a_window_than_the_rate(claims: int, left: int) -> None:
    assert room(QueueLimits(rate=Rate(5, 1.0)), Usage(claims=claims)) == Room(left)


def test_the_tightest_limit_decides() -> None:
    limits = QueueLimits(worker=9, concurrency=8, rate=Rate(7, 1.0))
    assert room(limits) == Room(7)
    assert room(limits, Usage(pending=3)) == Room(5)
    assert room(limits, Usage(pending=3), running=5) == Room(4)
    assert room(limits, Usage(pending=3), running=5, most=2) == Room(2)


def test_a_used_up_rate_says_when_it_frees() -> None:
    limits = QueueLimits(concurrency=2, rate=Rate(5, 1.0))
    assert room(limits, Usage(claims=5, frees_at_ms=77)) == Room(0, 77)
    assert room(limits, Usage(pending=2, claims=1)) == Room(0, None)


def test_limits_of_partitions_do_not_bind_the_whole() -> None:
    limits = QueueLimits(partition_worker=1, partition_concurrency=1, partition_rate=Rate(1, 1.0))
    assert room(limits, Usage(pending=50, claims=50), running=50) == Room(100)


def test_every_partition_has_room_of_its_own() -> None:
    limits = QueueLimits(partition_worker=3, partition_concurrency=4, partition_rate=Rate(5, 1.0))
    found = rooms(
        limits,
        head("free"),
        head("running"),
        head("pending", pending=3),
        head("claimed", pending=1, claims=4),
        head("full", pending=4),
        running=2,
    )
    assert found.by_key == {"free": 3, "running": 1, "pending": 1, "claimed": 1}
    assert found.total == PLENTY


def test_partitions_have_no_more_room_than_the_whole() -> None:
    found = rooms(QueueLimits(partition_concurrency=4), head("a"), head("b"), total=Room(3))
    assert found == PartitionRooms({"a": 3, "b": 3}, Room(3))


def test_a_full_queue_has_no_room_in_any_partition() -> None:
    full = Room(0, 55)
    assert rooms(QueueLimits(), head("a"), head("b"), total=full) == PartitionRooms({}, full)


def test_without_partitions_with_work_nothing_is_taken() -> None:
    assert rooms(QueueLimits(partition_concurrency=1)) == PartitionRooms({}, Room(0))


def test_the_first_partition_to_free_says_when() -> None:
    limits = QueueLimits(partition_concurrency=1, partition_rate=Rate(2, 1.0))
    waiting = [head("a", claims=2, frees_at_ms=90), head("b", claims=2, frees_at_ms=80)]
    assert rooms(limits, *waiting) == PartitionRooms({}, Room(0, 80))
    assert rooms(limits, head("c", pending=1), *waiting) == PartitionRooms({}, Room(0, 80))
    assert rooms(limits, head("c", pending=1)) == PartitionRooms({}, Room(0))


def test_partitions_that_wait_are_not_forgotten_beside_one_with_room() -> None:
    """Whoever takes what there is room for still learns when there is more."""
    limits = QueueLimits(partition_rate=Rate(2, 1.0))
    found = rooms(limits, head("a", claims=2, frees_at_ms=90), head("b", claims=1))
    assert found == PartitionRooms({"b": 1}, Room(100, 90))
