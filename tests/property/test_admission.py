"""Admission never exceeds a limit and leaves no room unused; incoherent queues are refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure.errors import ConfigurationError
from perdure.logic.admission import room_of_queue, rooms_of_partitions
from perdure.logic.queues import as_stored, check_settings
from perdure.model.queue import PartitionHead, QueueLimits, QueueSettings, Rate, Usage
from tests.support import rows

counts = st.none() | st.integers(1, 9)
numbers = st.integers(0, 12)
rates = st.none() | st.builds(Rate, st.integers(1, 9), st.sampled_from([0.25, 0.5, 1.0, 3.0]))
limits_of_queues = st.builds(
    QueueLimits,
    worker=counts,
    concurrency=counts,
    rate=rates,
    partition_worker=counts,
    partition_concurrency=counts,
    partition_rate=rates,
)
usages = st.builds(Usage, numbers, numbers, st.none() | st.integers(0, 99))
heads_of_queues = st.lists(
    st.builds(PartitionHead, st.sampled_from("abcdef"), usages), unique_by=lambda head: head.key
)


def fits(limit: int | None, used: int, more: int) -> bool:
    """Whether so many more may be added under that limit."""
    return limit is None or used + more <= limit


def whole_fits(limits: QueueLimits, usage: Usage, running: int, more: int) -> bool:
    """Whether every limit of the whole queue allows so many more."""
    return (
        fits(limits.worker, running, more)
        and fits(limits.concurrency, usage.pending, more)
        and fits(limits.rate and limits.rate.limit, usage.claims, more)
    )


def part_fits(limits: QueueLimits, usage: Usage, running: int, more: int) -> bool:
    """Whether every limit of each partition allows so many more."""
    return (
        fits(limits.partition_worker, running, more)
        and fits(limits.partition_concurrency, usage.pending, more)
        and fits(limits.partition_rate and limits.partition_rate.limit, usage.claims, more)
    )


@given(limits_of_queues, usages, numbers, numbers)
def test_a_queue_admits_all_that_its_limits_allow_and_nothing_more(
    limits: QueueLimits, usage: Usage, running: int, most: int
) -> None:
    room = room_of_queue(limits, usage, running, most)
    assert 0 <= room.count <= most
    assert room.count == 0 or whole_fits(limits, usage, running, room.count)
    assert room.count == most or not whole_fits(limits, usage, running, room.count + 1)
    assert room.frees_at_ms is None or room.count == 0


@given(
    limits_of_queues,
    heads_of_queues,
    st.dictionaries(st.sampled_from("abcdefg"), numbers),
    usages,
    numbers,
)
def test_each_partition_admits_all_that_its_limits_allow_and_nothing_more(
    limits: QueueLimits,
    heads: list[PartitionHead],
    running: dict[str, int],
    usage: Usage,
    most: int,
) -> None:
    total = room_of_queue(limits, usage, 0, most)
    rooms = rooms_of_partitions(limits, heads, running, total)
    assert rooms.total.count <= total.count
    assert set(rooms.by_key) <= {head.key for head in heads}
    for head in heads:
        count, runs = rooms.by_key.get(head.key, 0), running.get(head.key, 0)
        assert count <= total.count
        assert count == 0 or part_fits(limits, head.usage, runs, count)
        assert count == total.count or not part_fits(limits, head.usage, runs, count + 1)
    assert bool(rooms.by_key) is (rooms.total.count > 0)


@given(limits_of_queues, usages, numbers, numbers)
def test_more_in_use_never_leaves_more_room(
    limits: QueueLimits, usage: Usage, running: int, most: int
) -> None:
    fuller = [
        (usage, running),
        (replace(usage, pending=usage.pending + 1), running),
        (replace(usage, pending=usage.pending + 1, claims=usage.claims + 1), running),
        (replace(usage, pending=usage.pending + 1, claims=usage.claims + 1), running + 1),
    ]
    found = [room_of_queue(limits, used, runs, most).count for used, runs in fuller]
    assert all(later <= earlier for earlier, later in pairwise(found))


@given(limits_of_queues, usages, numbers, st.integers(1, 12))
def test_one_claim_after_another_ends_at_the_same_limit(
    limits: QueueLimits, usage: Usage, running: int, most: int
) -> None:
    """Whether room is used in one claim or one by one."""
    at_once = room_of_queue(limits, usage, running, most).count
    taken = 0
    while taken < most and room_of_queue(limits, usage, running, 1).count:
        usage = replace(usage, pending=usage.pending + 1, claims=usage.claims + 1)
        running, taken = running + 1, taken + 1
    assert taken == at_once


def is_coherent(settings: QueueSettings) -> bool:
    """The rule, said anew: every limit can bind before those that contain it."""
    limits = settings.limits
    if (
        limits
        != replace(limits, partition_worker=None, partition_concurrency=None, partition_rate=None)
        and not settings.partitioned
    ):
        return False
    chains = (
        (limits.partition_worker, limits.worker, limits.concurrency),
        (limits.partition_worker, limits.partition_concurrency, limits.concurrency),
    )
    for chain in chains:
        bound = [limit for limit in chain if limit is not None]
        if bound != sorted(bound):
            return False
    if limits.rate is None or limits.partition_rate is None:
        return True
    whole, part = limits.rate, limits.partition_rate
    return part.limit / part.period_s <= whole.limit / whole.period_s


@given(limits_of_queues, st.booleans())
def test_a_queue_is_accepted_exactly_if_its_limits_fit_together(
    limits: QueueLimits, partitioned: bool
) -> None:
    settings = QueueSettings(name=rows.QUEUE, limits=limits, partitioned=partitioned)
    if is_coherent(settings):
        assert check_settings(settings) is settings
    else:
        with pytest.raises(ConfigurationError, match=f"queue '{rows.QUEUE}': "):
            check_settings(settings)


@given(limits_of_queues, st.booleans())
def test_what_is_stored_reads_back_as_itself(limits: QueueLimits, partitioned: bool) -> None:
    once = as_stored(QueueSettings(name=rows.QUEUE, limits=limits, partitioned=partitioned))
    assert as_stored(once) == once
    assert once.limits == limits
    assert once.partitioned is (partitioned or limits.of_partitions)
