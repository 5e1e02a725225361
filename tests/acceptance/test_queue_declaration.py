"""Declaring a queue: what cannot be honoured is refused where it is written."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from perdure import ConfigurationError, Engine, OnConflict, Queue, RateLimit
from perdure.model.queue import QueueLimits, QueueSettings, Rate


def test_a_queue_without_options_limits_nothing() -> None:
    assert Queue("q").settings == QueueSettings(
        name="q",
        limits=QueueLimits(),
        priority_enabled=True,
        partitioned=False,
        base_polling_interval_s=1.0,
        max_polling_interval_s=120.0,
    )
    assert Queue("q").on_conflict is OnConflict.UPDATE_IF_LATEST_VERSION


def test_durations_are_seconds_or_timedeltas() -> None:
    queue = Queue(
        "q",
        rate_limit=RateLimit(5, timedelta(minutes=1)),
        base_polling_interval=timedelta(milliseconds=50),
        max_polling_interval=2,
    )
    assert queue.settings.limits.rate == Rate(5, 60.0)
    assert queue.settings.base_polling_interval_s == 0.05
    assert queue.settings.max_polling_interval_s == 2.0


def test_a_queue_is_a_value() -> None:
    """Options are given by name, and do not change afterwards."""
    assert Queue("q", worker_concurrency=2) == Queue("q", worker_concurrency=2)
    assert Queue("q") != Queue("q", worker_concurrency=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Queue("q").worker_concurrency = 3  # type: ignore[misc]
    positional: Any = Queue
    with pytest.raises(TypeError):
        positional("q", 2)


@pytest.mark.parametrize(
    "limit",
    [
        {"partition_concurrency": 1},
        {"partition_worker_concurrency": 1},
        {"partition_rate_limit": RateLimit(1, 1)},
    ],
    ids=lambda limit: next(iter(limit)),
)
def test_a_limit_of_each_partition_makes_the_queue_partitioned(limit: dict[str, Any]) -> None:
    queue = Queue("q", **limit)
    assert queue.partitioned
    assert queue.settings.partitioned
    assert Queue("q", partitioned=True).settings.limits == QueueLimits()


@pytest.mark.parametrize("name", ["", "  ", "a\x00b", "\ud800", "_dbos_mine", "_perdure_mine", 3])
def test_what_is_no_name_of_a_queue(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="queue"):
        Queue(name)


@pytest.mark.parametrize("name", ["_dbos_internal_queue", "_perdure_internal_queue"])
def test_the_internal_queues_are_nobody_s_to_declare(name: str) -> None:
    with pytest.raises(ConfigurationError, match="reserved"):
        Queue(name)


COUNTS = (
    "worker_concurrency",
    "global_concurrency",
    "partition_worker_concurrency",
    "partition_concurrency",
)


@pytest.mark.parametrize("option", COUNTS)
@pytest.mark.parametrize("count", [0, -1, True, 1.5, "1", 2**31])
def test_what_is_no_number_of_workflows(option: str, count: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"'q': {option}=.* whole number"):
        Queue("q", **{option: count})


@pytest.mark.parametrize("option", ["rate_limit", "partition_rate_limit"])
@pytest.mark.parametrize(
    "rate",
    [RateLimit(0, 1), RateLimit(True, 1), RateLimit(1, 0), RateLimit(1, float("nan")), (1, 1)],
)
def test_what_is_no_rate(option: str, rate: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"'q': {option}"):
        Queue("q", **{option: rate})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"base_polling_interval": 0}, "base_polling_interval"),
        ({"base_polling_interval": "1 s"}, "base_polling_interval"),
        ({"base_polling_interval": 2, "max_polling_interval": 1}, "max_polling_interval"),
        ({"max_polling_interval": float("inf")}, "max_polling_interval"),
        ({"priority_enabled": 1}, "priority_enabled"),
        ({"partitioned": None}, "partitioned"),
        ({"on_conflict": "always_update"}, "on_conflict"),
    ],
)
def test_what_is_no_value_of_an_option(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'q'.*{named}"):
        Queue("q", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"worker_concurrency": 3, "global_concurrency": 2},
        {"partition_worker_concurrency": 3, "worker_concurrency": 2},
        {"partition_worker_concurrency": 3, "partition_concurrency": 2},
        {"partition_worker_concurrency": 3, "global_concurrency": 2},
        {"partition_concurrency": 3, "global_concurrency": 2},
        {"partition_rate_limit": RateLimit(3, 1), "rate_limit": RateLimit(2, 1)},
        {"partition_rate_limit": RateLimit(2, 1), "rate_limit": RateLimit(20, 11)},
    ],
)
def test_a_narrow_limit_above_a_wider_one_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        Queue("q", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"worker_concurrency": 2, "global_concurrency": 2},
        {"partition_rate_limit": RateLimit(2, 1), "rate_limit": RateLimit(20, 10)},
        {"partition_rate_limit": RateLimit(1, 10), "rate_limit": RateLimit(1, 1)},
    ],
)
def test_a_narrow_limit_up_to_the_wider_one_is_accepted(options: dict[str, Any]) -> None:
    assert Queue("q", **options).settings.name == "q"


@pytest.mark.parametrize("queues", [["q"], [Queue("q"), Queue("r"), Queue("q", partitioned=True)]])
def test_an_engine_takes_queues_each_of_them_once(queues: list[Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"queues=\[\.\.\.\]"):
        Engine("memory:", queues=queues)


@pytest.mark.parametrize("listen", ["emails", [""], [3]])
def test_an_engine_listens_to_a_list_of_names(listen: Any) -> None:
    with pytest.raises(ConfigurationError, match="listen"):
        Engine("memory:", listen=listen)
