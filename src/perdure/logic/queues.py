"""Which declarations of a queue make sense, and who may change a registered one."""

from dataclasses import replace
from enum import Enum

from perdure.errors import ConfigurationError, QueueOwnedByAnother
from perdure.model.queue import QueueLimits, QueueRow, QueueSettings, Rate
from perdure.model.wire import INTERNAL_QUEUES, RESERVED_PREFIXES

LARGEST_LIMIT = 2**31 - 1
"""The largest number of the shared columns."""


class OnConflict(Enum):
    """What registering a queue does when one of that name is registered already."""

    UPDATE_IF_LATEST_VERSION = "update_if_latest_version"
    """Change it to what is declared if this application's version is the latest registered."""

    ALWAYS_UPDATE = "always_update"
    """Change it to what is declared."""

    NEVER_UPDATE = "never_update"
    """Leave it as it is registered."""


def check_name(name: str) -> str:
    """A name a queue may have; raises `ConfigurationError`."""
    if not isinstance(name, str) or not name.strip() or "\x00" in name:
        raise ConfigurationError(f"queue name {name!r}: it must be a text that is not blank")
    if name in INTERNAL_QUEUES or name.startswith(RESERVED_PREFIXES):
        raise ConfigurationError(
            f"queue {name!r}: names that begin with {' or '.join(RESERVED_PREFIXES)} are reserved"
        )
    return name


def check_settings(settings: QueueSettings) -> QueueSettings:
    """The settings, if all can be honoured; raises `ConfigurationError` naming the wrong one."""
    check_name(settings.name)
    limits = settings.limits
    for option, limit in (
        ("worker_concurrency", limits.worker),
        ("global_concurrency", limits.concurrency),
        ("partition_worker_concurrency", limits.partition_worker),
        ("partition_concurrency", limits.partition_concurrency),
    ):
        _check_count(settings, option, limit)
    _check_rate(settings, "rate_limit", limits.rate)
    _check_rate(settings, "partition_rate_limit", limits.partition_rate)
    if not settings.base_polling_interval_s > 0:
        raise _refusal(settings, "base_polling_interval must be more than 0 s")
    if settings.max_polling_interval_s < settings.base_polling_interval_s:
        raise _refusal(settings, "max_polling_interval must not be below base_polling_interval")
    if limits.of_partitions and not settings.partitioned:
        raise _refusal(settings, "a limit of partitions needs partitioned=True")
    _check_order(settings, limits)
    return settings


def _check_order(settings: QueueSettings, limits: QueueLimits) -> None:
    """A narrower scope cannot be allowed more than a wider one that contains it."""
    for narrow, low, wide, high in (
        ("worker_concurrency", limits.worker, "global_concurrency", limits.concurrency),
        (
            "partition_worker_concurrency",
            limits.partition_worker,
            "worker_concurrency",
            limits.worker,
        ),
        (
            "partition_worker_concurrency",
            limits.partition_worker,
            "partition_concurrency",
            limits.partition_concurrency,
        ),
        (
            "partition_worker_concurrency",
            limits.partition_worker,
            "global_concurrency",
            limits.concurrency,
        ),
        (
            "partition_concurrency",
            limits.partition_concurrency,
            "global_concurrency",
            limits.concurrency,
        ),
    ):
        if low is not None and high is not None and low > high:
            raise _refusal(settings, f"{narrow}={low} is more than {wide}={high}")
    part, whole = limits.partition_rate, limits.rate
    if part and whole and part.limit * whole.period_s > whole.limit * part.period_s:
        raise _refusal(settings, "partition_rate_limit is faster than rate_limit")


def _check_count(settings: QueueSettings, option: str, limit: int | None) -> None:
    if limit is None:
        return
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= LARGEST_LIMIT:
        raise _refusal(
            settings,
            f"{option}={limit!r} must be a whole number from 1 to {LARGEST_LIMIT:,}, or None for "
            "no limit; to stop a queue, pause it",
        )


def _check_rate(settings: QueueSettings, option: str, rate: Rate | None) -> None:
    if rate is None:
        return
    _check_count(settings, f"{option}.limit", rate.limit)
    if not rate.period_s > 0:
        raise _refusal(settings, f"{option}.period must be more than 0 s")


def _refusal(settings: QueueSettings, reason: str) -> ConfigurationError:
    return ConfigurationError(f"queue {settings.name!r}: {reason}")


def registered(
    wanted: QueueSettings,
    standing: QueueRow | None,
    policy: OnConflict,
    *,
    is_latest: bool,
    application: str,
) -> QueueSettings | None:
    """What to store when `wanted` is registered over `standing`; None leaves it as it is.

    Raises `QueueOwnedByAnother` whatever the policy if it belongs to another application.
    """
    if standing is None:
        return wanted
    refuse_foreign(standing, application)
    updates = policy is OnConflict.ALWAYS_UPDATE or (
        policy is OnConflict.UPDATE_IF_LATEST_VERSION and is_latest
    )
    return wanted if updates and wanted != standing.settings else None


def refuse_foreign(standing: QueueRow, application: str) -> None:
    """Raise `QueueOwnedByAnother` if the queue belongs to another application."""
    holder = standing.application_name
    if holder is not None and holder != application:
        raise QueueOwnedByAnother(standing.name, holder)


def as_stored(settings: QueueSettings) -> QueueSettings:
    """A queue that others registered: a limit of partitions is what partitions it."""
    return replace(settings, partitioned=settings.partitioned or settings.limits.of_partitions)
