"""Which declarations of a queue make sense, and who may change a registered one."""

from enum import Enum

from msgspec.structs import replace

from perdure.errors import ConfigurationError, QueueOwnedByAnother
from perdure.model.queue import QueueLimits, QueueRow, QueueSettings, Rate
from perdure.model.wire import RESERVED_PREFIXES

LARGEST_LIMIT = 2**31 - 1
"""The largest number of the shared columns."""

SHORTEST_S = 0.001
"""Instants are whole milliseconds, so that nothing shorter can be told apart from nothing."""

LONGEST_S = 1e9
"""Some 30 years, so that no sum of an instant and a duration leaves its column."""


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
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"queue name {name!r}: it must be a text that is not blank")
    if "\x00" in name or any("\ud800" <= character <= "\udfff" for character in name):
        raise ConfigurationError(
            f"queue name {name!r}: no database stores NUL or half a character; leave it out"
        )
    if name.startswith(RESERVED_PREFIXES):
        raise ConfigurationError(
            f"queue {name!r}: names that begin with {' or '.join(RESERVED_PREFIXES)} are reserved; "
            "choose another"
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
        if limit is not None:
            _check_count(settings, option, limit, " or None for no limit")
    _check_rate(settings, "rate_limit", limits.rate)
    _check_rate(settings, "partition_rate_limit", limits.partition_rate)
    _check_seconds(settings, "base_polling_interval", settings.base_polling_interval_s)
    _check_seconds(settings, "max_polling_interval", settings.max_polling_interval_s)
    if settings.max_polling_interval_s < settings.base_polling_interval_s:
        raise _refusal(
            settings,
            f"max_polling_interval={settings.max_polling_interval_s:g} s is below "
            f"base_polling_interval={settings.base_polling_interval_s:g} s: raise it to that",
        )
    if limits.of_partitions and not settings.partitioned:
        raise _refusal(settings, "a limit of each partition needs partitioned=True")
    _check_order(settings, limits)
    return settings


def _check_order(settings: QueueSettings, limits: QueueLimits) -> None:
    """A narrower scope cannot be allowed more than a wider one that contains it."""
    worker = ("worker_concurrency", limits.worker)
    whole = ("global_concurrency", limits.concurrency)
    worker_part = ("partition_worker_concurrency", limits.partition_worker)
    part = ("partition_concurrency", limits.partition_concurrency)
    for (narrow, low), (wide, high) in (
        (worker, whole),
        (worker_part, worker),
        (worker_part, part),
        (worker_part, whole),
        (part, whole),
    ):
        if low is not None and high is not None and low > high:
            raise _refusal(
                settings,
                f"{narrow}={low} is more than {wide}={high}, which would always bind first: lower "
                "it or leave it out",
            )
    fast, slow = limits.partition_rate, limits.rate
    if fast and slow and fast.limit * slow.period_s > slow.limit * fast.period_s:
        raise _refusal(
            settings,
            f"partition_rate_limit ({_rate_text(fast)}) is faster than rate_limit "
            f"({_rate_text(slow)}): slow it down or leave it out",
        )


def _check_count(settings: QueueSettings, option: str, limit: int, otherwise: str = "") -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= LARGEST_LIMIT:
        raise _refusal(
            settings,
            f"{option}={limit!r} must be a whole number from 1 to {LARGEST_LIMIT:,}{otherwise}; to "
            "stop a queue, pause it",
        )


def _check_rate(settings: QueueSettings, option: str, rate: Rate | None) -> None:
    if rate is None:
        return
    _check_count(settings, f"{option}.limit", rate.limit)
    _check_seconds(settings, f"{option}.period", rate.period_s)


def _check_seconds(settings: QueueSettings, option: str, seconds: float) -> None:
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    # The comparison is false for NaN, too.
    if not is_number or not SHORTEST_S <= seconds <= LONGEST_S:
        raise _refusal(
            settings,
            f"{option}={seconds!r} must be a number of seconds from {SHORTEST_S:g} to "
            f"{LONGEST_S:,.0f}",
        )


def _rate_text(rate: Rate) -> str:
    return f"{rate.limit} in {rate.period_s:g} s"


def _refusal(settings: QueueSettings, reason: str) -> ConfigurationError:
    return ConfigurationError(f"queue {settings.name!r}: {reason}")


def registered(
    wanted: QueueSettings,
    standing: QueueRow | None,
    policy: OnConflict,
    *,
    is_latest: bool,
    application: str | None,
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


def is_foreign(standing: QueueRow, application: str | None) -> bool:
    """Whether it belongs to another application; to whoever acts in no name none does."""
    return None not in (standing.application_name, application) and (
        standing.application_name != application
    )


def refuse_foreign(standing: QueueRow, application: str | None) -> None:
    """Raise `QueueOwnedByAnother` if the queue belongs to another application."""
    holder = standing.application_name
    if holder is not None and is_foreign(standing, application):
        raise QueueOwnedByAnother(standing.name, holder)


def as_stored(settings: QueueSettings) -> QueueSettings:
    """A queue that others registered: a limit of partitions is what partitions it."""
    return replace(settings, partitioned=settings.partitioned or settings.limits.of_partitions)
