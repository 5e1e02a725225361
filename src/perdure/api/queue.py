"""Queues as a user declares them."""

from dataclasses import KW_ONLY, dataclass, field
from typing import TypedDict

from perdure.engine.queues import QueueDeclaration
from perdure.errors import ConfigurationError, InvalidArgument
from perdure.logic.durations import Duration, seconds_of
from perdure.logic.queues import OnConflict, check_name, check_settings
from perdure.model.queue import QueueLimits, QueueSettings, Rate


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `limit` workflows begin in any window of `period`, in seconds or as a timedelta."""

    limit: int
    period: Duration


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue: calls name it, and every process that serves it keeps its limits.

    `worker_concurrency` is how many of its workflows run in one process at a time,
    `global_concurrency` in all processes together, `rate_limit` how many begin within a time; None
    does not bind. Where `priority_enabled`, a call may have a priority: none comes first, then 1,
    2, and so on. On a `partitioned` queue every call has a `partition_key`, and the `partition_*`
    limits hold for each key by itself; giving one of them makes the queue partitioned. The polling
    intervals bound how often a process looks where nothing tells it that work has come.
    `on_conflict` says what becomes of a queue of that name that is registered already.

    Raises `ConfigurationError` for what cannot work, alone or together.

    >>> media = Queue("media", worker_concurrency=2, rate_limit=RateLimit(100, period=60))
    """

    name: str
    _: KW_ONLY
    worker_concurrency: int | None = None
    global_concurrency: int | None = None
    rate_limit: RateLimit | None = None
    priority_enabled: bool = True
    partitioned: bool = False
    partition_concurrency: int | None = None
    partition_worker_concurrency: int | None = None
    partition_rate_limit: RateLimit | None = None
    base_polling_interval: Duration = 1.0
    max_polling_interval: Duration = 120.0
    on_conflict: OnConflict = OnConflict.UPDATE_IF_LATEST_VERSION
    settings: QueueSettings = field(init=False, repr=False, compare=False)
    """What of it is stored."""

    def __post_init__(self) -> None:
        check_name(self.name)
        for option in ("priority_enabled", "partitioned"):
            value = getattr(self, option)
            if not isinstance(value, bool):
                raise self._refusal(f"{option} must be True or False, not {value!r}")
        if not isinstance(self.on_conflict, OnConflict):
            raise self._refusal(f"on_conflict must be one of OnConflict, not {self.on_conflict!r}")
        limits = QueueLimits(
            worker=self.worker_concurrency,
            concurrency=self.global_concurrency,
            rate=self._rate("rate_limit", self.rate_limit),
            partition_worker=self.partition_worker_concurrency,
            partition_concurrency=self.partition_concurrency,
            partition_rate=self._rate("partition_rate_limit", self.partition_rate_limit),
        )
        object.__setattr__(self, "partitioned", self.partitioned or limits.of_partitions)
        settings = QueueSettings(
            name=self.name,
            limits=limits,
            priority_enabled=self.priority_enabled,
            partitioned=self.partitioned,
            base_polling_interval_s=self._seconds("base_polling_interval"),
            max_polling_interval_s=self._seconds("max_polling_interval"),
        )
        object.__setattr__(self, "settings", check_settings(settings))

    @property
    def declaration(self) -> QueueDeclaration:
        """What an engine registers."""
        return QueueDeclaration(self.settings, self.on_conflict)

    def _rate(self, option: str, given: RateLimit | None) -> Rate | None:
        if given is None:
            return None
        if not isinstance(given, RateLimit):
            raise self._refusal(f"{option} must be RateLimit(limit, period), not {given!r}")
        what = f"queue {self.name!r}: {option}.period"
        return Rate(
            given.limit, seconds_of(given.period, what, zero=False, error=ConfigurationError)
        )

    def _seconds(self, option: str) -> float:
        what = f"queue {self.name!r}: {option}"
        return seconds_of(getattr(self, option), what, zero=False, error=ConfigurationError)

    def _refusal(self, reason: str) -> ConfigurationError:
        return ConfigurationError(f"queue {self.name!r}: {reason}")


class QueueChanges(TypedDict, total=False):
    """Options of a queue to change, with their new values; None lifts a limit."""

    worker_concurrency: int | None
    global_concurrency: int | None
    rate_limit: RateLimit | None
    priority_enabled: bool
    partitioned: bool
    partition_concurrency: int | None
    partition_worker_concurrency: int | None
    partition_rate_limit: RateLimit | None
    base_polling_interval: Duration
    max_polling_interval: Duration


def options_of(settings: QueueSettings) -> QueueChanges:
    """A stored queue as the options that declare it."""
    limits = settings.limits
    return {
        "worker_concurrency": limits.worker,
        "global_concurrency": limits.concurrency,
        "rate_limit": _rate_limit(limits.rate),
        "priority_enabled": settings.priority_enabled,
        "partitioned": settings.partitioned,
        "partition_concurrency": limits.partition_concurrency,
        "partition_worker_concurrency": limits.partition_worker,
        "partition_rate_limit": _rate_limit(limits.partition_rate),
        "base_polling_interval": settings.base_polling_interval_s,
        "max_polling_interval": settings.max_polling_interval_s,
    }


def _rate_limit(rate: Rate | None) -> RateLimit | None:
    return None if rate is None else RateLimit(rate.limit, rate.period_s)


def queue_name(queue: Queue | str) -> str:
    """The name of a queue that a call is for; raises `InvalidArgument`."""
    if isinstance(queue, Queue):
        return queue.name
    try:
        return check_name(queue)
    except ConfigurationError as error:
        raise InvalidArgument(f"queue={queue!r}: {error}") from None
