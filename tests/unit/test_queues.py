"""Which declarations of a queue make sense, and who may change a registered one."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perdure.errors import ConfigurationError, QueueOwnedByAnother
from perdure.logic.queues import (
    LARGEST_LIMIT,
    OnConflict,
    as_stored,
    check_name,
    check_settings,
    refuse_foreign,
    registered,
)
from perdure.model.queue import QueueLimits, QueueRow, QueueSettings, Rate
from perdure.model.wire import FOREIGN_INTERNAL_QUEUE, INTERNAL_QUEUE
from tests.support import rows

COUNTS = {
    "worker": "worker_concurrency",
    "concurrency": "global_concurrency",
    "partition_worker": "partition_worker_concurrency",
    "partition_concurrency": "partition_concurrency",
}
RATES = {"rate": "rate_limit", "partition_rate": "partition_rate_limit"}


def refused(settings: QueueSettings) -> str:
    """What the refusal of these settings says."""
    with pytest.raises(ConfigurationError) as caught:
        check_settings(settings)
    text = str(caught.value)
    assert text.startswith(f"queue {settings.name!r}: ")
    return text


def row(settings: QueueSettings, application: str | None = "app") -> QueueRow:
    """That queue, registered."""
    return QueueRow(
        settings=settings,
        application_name=application,
        paused_at_ms=None,
        created_at_ms=1,
        updated_at_ms=1,
    )


@pytest.mark.parametrize("name", ["media", "a b", "ünïcode ☃😀", "'\"%_::;--", "dbos_x", "x" * 500])
def test_any_other_text_is_a_name(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", " ", "\n\t", None, 7, b"media"])
def test_a_blank_is_no_name(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="not blank"):
        check_name(name)


@pytest.mark.parametrize("name", ["a\x00b", "a\ud800", "\udfff"])
def test_what_no_database_stores_is_no_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match="leave it out"):
        check_name(name)


@pytest.mark.parametrize("name", [INTERNAL_QUEUE, FOREIGN_INTERNAL_QUEUE, "_dbos_x", "_perdure_"])
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="reserved; choose another"):
        check_name(name)
    with pytest.raises(ConfigurationError, match="reserved"):
        check_settings(rows.queue(name))


def test_a_queue_without_limits_is_a_queue() -> None:
    settings = rows.queue()
    assert check_settings(settings) is settings
    assert settings.limits == QueueLimits()


@pytest.mark.parametrize("number", [0, -1, LARGEST_LIMIT + 1, 1.0, "2", True, math.nan])
@pytest.mark.parametrize("field", COUNTS)
def test_a_limit_is_a_number_that_lets_something_run(field: str, number: Any) -> None:
    text = refused(rows.queue(partitioned=True, **{field: number}))
    assert f"{COUNTS[field]}={number!r}" in text
    assert "a whole number from 1 to 2,147,483,647 or None for no limit" in text
    assert "pause" in text


@pytest.mark.parametrize("number", [1, LARGEST_LIMIT])
@pytest.mark.parametrize("field", COUNTS)
def test_a_limit_may_be_any_number_the_column_holds(field: str, number: int) -> None:
    check_settings(rows.queue(partitioned=True, **{field: number}))


@pytest.mark.parametrize("number", [0, -5, 2.5, True, None])
@pytest.mark.parametrize("field", RATES)
def test_a_rate_lets_something_start(field: str, number: Any) -> None:
    text = refused(rows.queue(partitioned=True, **{field: Rate(number, 1.0)}))
    assert f"{RATES[field]}.limit={number!r}" in text
    assert "None for no limit" not in text


@pytest.mark.parametrize("period", [0, -1.0, 0.0009, math.nan, math.inf, 1e12, "1", True, None])
@pytest.mark.parametrize("field", RATES)
def test_a_period_is_a_time_that_passes(field: str, period: Any) -> None:
    text = refused(rows.queue(partitioned=True, **{field: Rate(5, period)}))
    assert f"{RATES[field]}.period={period!r}" in text
    assert "from 0.001 to" in text


@pytest.mark.parametrize("period", [0.001, 0.25, 3, 86_400.0, 1e9])
def test_a_period_may_be_a_fraction(period: float) -> None:
    check_settings(rows.queue(rate=Rate(5, period)))


@pytest.mark.parametrize("option", ["base_polling_interval", "max_polling_interval"])
@pytest.mark.parametrize("interval", [0, -1, math.nan, math.inf, "1"])
def test_polling_intervals_are_times_that_pass(option: str, interval: Any) -> None:
    assert f"{option}={interval!r}" in refused(rows.queue(**{f"{option}_s": interval}))


def test_polling_never_gets_faster_by_backing_off() -> None:
    text = refused(rows.queue(base_polling_interval_s=200.0))
    assert "max_polling_interval=120 s is below base_polling_interval=200 s: raise it" in text
    check_settings(rows.queue(base_polling_interval_s=120.0))


@pytest.mark.parametrize(
    ("field", "limit"),
    [("partition_worker", 1), ("partition_concurrency", 1), ("partition_rate", Rate(1, 1.0))],
)
def test_a_limit_of_partitions_needs_partitions(field: str, limit: Any) -> None:
    assert "partitioned=True" in refused(rows.queue(**{field: limit}))
    check_settings(rows.queue(partitioned=True, **{field: limit}))


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("worker", "concurrency"),
        ("partition_worker", "worker"),
        ("partition_worker", "partition_concurrency"),
        ("partition_worker", "concurrency"),
        ("partition_concurrency", "concurrency"),
    ],
)
def test_a_part_is_not_allowed_more_than_the_whole(narrow: str, wide: str) -> None:
    text = refused(rows.queue(partitioned=True, **{narrow: 4, wide: 3}))
    assert f"{COUNTS[narrow]}=4 is more than {COUNTS[wide]}=3" in text
    assert "lower it or leave it out" in text
    check_settings(rows.queue(partitioned=True, **{narrow: 3, wide: 3}))
    check_settings(rows.queue(partitioned=True, **{narrow: 3, wide: 4}))


def test_limits_of_different_things_are_not_compared() -> None:
    """Many processes with few partitions each, and few processes with many."""
    check_settings(rows.queue(partitioned=True, worker=2, partition_concurrency=5))
    check_settings(rows.queue(partitioned=True, worker=5, partition_concurrency=2))


def test_a_part_is_not_faster_than_the_whole() -> None:
    text = refused(rows.queue(partitioned=True, rate=Rate(10, 1.0), partition_rate=Rate(6, 0.5)))
    assert "partition_rate_limit (6 in 0.5 s) is faster than rate_limit (10 in 1 s)" in text
    assert "slow it down" in text
    check_settings(rows.queue(partitioned=True, rate=Rate(10, 1.0), partition_rate=Rate(5, 0.5)))


SMALL, LARGE = rows.queue(concurrency=1), rows.queue(concurrency=9)


@pytest.mark.parametrize("policy", OnConflict)
@pytest.mark.parametrize("is_latest", [True, False])
def test_a_new_queue_is_stored_whatever_the_policy(policy: OnConflict, *, is_latest: bool) -> None:
    wanted = registered(LARGE, None, policy, is_latest=is_latest, application="app")
    assert wanted == LARGE


@pytest.mark.parametrize(
    ("policy", "is_latest", "stored"),
    [
        (OnConflict.UPDATE_IF_LATEST_VERSION, True, LARGE),
        (OnConflict.UPDATE_IF_LATEST_VERSION, False, None),
        (OnConflict.ALWAYS_UPDATE, True, LARGE),
        (OnConflict.ALWAYS_UPDATE, False, LARGE),
        (OnConflict.NEVER_UPDATE, True, None),
        (OnConflict.NEVER_UPDATE, False, None),
    ],
)
@pytest.mark.parametrize("holder", ["app", None])
def test_the_policy_decides_over_a_registered_one(
    policy: OnConflict, stored: QueueSettings | None, holder: str | None, *, is_latest: bool
) -> None:
    standing = row(SMALL, holder)
    found = registered(LARGE, standing, policy, is_latest=is_latest, application="app")
    assert found == stored
    assert registered(SMALL, standing, policy, is_latest=is_latest, application="app") is None


@pytest.mark.parametrize("policy", OnConflict)
def test_a_queue_of_another_application_is_refused_whatever_the_policy(policy: OnConflict) -> None:
    with pytest.raises(QueueOwnedByAnother) as caught:
        registered(SMALL, row(SMALL, "other"), policy, is_latest=True, application="app")
    assert (caught.value.queue, caught.value.holder) == (SMALL.name, "other")
    assert "'other'" in str(caught.value)
    assert "choose another" in str(caught.value)


def test_only_another_application_is_foreign() -> None:
    refuse_foreign(row(SMALL, None), "app")
    refuse_foreign(row(SMALL, "app"), "app")
    with pytest.raises(QueueOwnedByAnother):
        refuse_foreign(row(SMALL, ""), "app")


@pytest.mark.parametrize(
    ("limits", "partitioned"),
    [
        ({}, False),
        ({"concurrency": 1, "worker": 1, "rate": Rate(1, 1.0)}, False),
        ({"partition_worker": 1}, True),
        ({"partition_concurrency": 1}, True),
        ({"partition_rate": Rate(1, 1.0)}, True),
    ],
)
def test_a_limit_of_partitions_partitions_a_queue_of_others(
    limits: dict[str, Any], *, partitioned: bool
) -> None:
    assert as_stored(rows.queue(**limits)).partitioned is partitioned
    explicit = rows.queue(partitioned=True, **limits)
    assert as_stored(explicit) == explicit


def test_limits_say_whether_claims_exclude_each_other() -> None:
    assert not rows.queue(worker=1, partition_worker=1).limits.are_shared
    for field in ("concurrency", "partition_concurrency"):
        assert rows.queue(**{field: 1}).limits.are_shared
    for field in ("rate", "partition_rate"):
        assert rows.queue(**{field: Rate(1, 1.0)}).limits.are_shared
