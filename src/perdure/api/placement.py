"""Where a call puts a workflow: in which queue, and how it stands there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypedDict

import msgspec

from perdure.api.options import checked_choice, checked_flag, checked_text
from perdure.api.queue import Queue, queue_name
from perdure.config import APPLICATION_NAMES, is_application_name
from perdure.engine.intake import Intake
from perdure.engine.queues import RegisteredQueues
from perdure.errors import InvalidArgument, UnknownQueue, UnknownVersion
from perdure.logic.durations import Duration, seconds_of, to_ms
from perdure.model.queue import QueueRow
from perdure.model.status import WorkflowState
from perdure.model.wire import INTERNAL_QUEUE

LARGEST_PRIORITY = 2**31 - 1


class DedupPolicy(Enum):
    """What a call does when a live workflow of its queue holds its `dedup_id`."""

    REJECT = "reject"
    """Raise `QueueDeduplicated`."""

    RETURN_EXISTING = "return_existing"
    """Give a handle to the holder; this call's arguments are not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Debounce:
    """Lets calls of a workflow with one key that come in quick succession become one.

    The first makes a workflow that waits for `period`. Each later call that comes meanwhile pushes
    it back by `period` again, but to no later than `timeout` after the first, and replaces its
    arguments: those of the last call run. Once the time has come the next call makes another. Keys
    belong to one workflow function and queue.
    """

    key: str = field(kw_only=False)
    period: Duration
    timeout: Duration | None = None

    def __post_init__(self) -> None:
        checked_text("key", self.key)
        seconds_of(self.period, "period", zero=False)
        if self.timeout is not None:
            seconds_of(self.timeout, "timeout", zero=False)

    @property
    def period_ms(self) -> int:
        """For how long a call pushes the workflow back."""
        return to_ms(seconds_of(self.period, "period"))

    @property
    def timeout_ms(self) -> int:
        """How long after the first call the workflow begins at the latest; 0 if that is open."""
        return 0 if self.timeout is None else to_ms(seconds_of(self.timeout, "timeout"))

    @property
    def delay_ms(self) -> int:
        """For how long the first call lets the workflow wait."""
        return min(self.period_ms, self.timeout_ms or self.period_ms)

    def dedup_id(self, name: str) -> str:
        """What holds the key on a queue, for a workflow of that name."""
        return checked_text("debounce", f"{name}-{self.key}")


class PlacementOptions(TypedDict, total=False):
    """Options of a call that puts a workflow into a queue; None is the same as not given.

    `priority` is a whole number from 1, and the smaller is begun first; without one it comes before
    all that have one. `delay` is how long it must wait at least. While a workflow with the same
    `dedup_id` waits or runs in the queue, `dedup_policy` decides (REJECT). `partition_key` says
    which partition of a partitioned queue it belongs to. `application` is the one that runs it,
    `version` the version of it: those of this engine, or the latest version of another application,
    unless given. A queue or version that is not registered is refused unless `allow_unknown_queue`
    or `allow_unknown_version` says that somebody registers it later. `debounce` lets calls that
    come in quick succession become one; see `Debounce`.
    """

    priority: int | None
    delay: Duration | None
    dedup_id: str | None
    dedup_policy: DedupPolicy | None
    partition_key: str | None
    version: str | None
    application: str | None
    debounce: Debounce | None
    allow_unknown_queue: bool
    allow_unknown_version: bool


class Placement(msgspec.Struct, frozen=True):
    """A queue and how a workflow stands in it, checked as far as a call can be by itself.

    Without a queue it begins where it is called.
    """

    queue: str | None = None
    state: WorkflowState = WorkflowState.PENDING
    priority: int = 0
    delay_ms: int | None = None
    dedup_id: str | None = None
    joins_holder: bool = False
    partition_key: str | None = None
    version: str | None = None
    application: str | None = None
    debounce: Debounce | None = None
    allow_unknown_queue: bool = False
    allow_unknown_version: bool = False


HERE: Final = Placement()


def placement_of(queue: Queue | str | None, options: PlacementOptions) -> Placement:
    """Where the options put a workflow; raises `InvalidArgument` naming the wrong one."""
    if options.get("debounce") is not None:
        return _debounced(queue, options)
    if queue is None:
        _refuse_without_queue(options)
        return HERE
    dedup_id, policy = options.get("dedup_id"), options.get("dedup_policy")
    if policy is not None and dedup_id is None:
        raise InvalidArgument("dedup_policy= needs dedup_id=: without one nothing is a duplicate")
    policy = DedupPolicy.REJECT if policy is None else policy
    policy = checked_choice("dedup_policy", DedupPolicy, policy)
    delay_ms = _delay_ms(options.get("delay"))
    return Placement(
        queue=queue_name(queue),
        state=WorkflowState.DELAYED if delay_ms else WorkflowState.ENQUEUED,
        priority=_priority(options.get("priority")),
        delay_ms=delay_ms,
        dedup_id=_text("dedup_id", dedup_id),
        joins_holder=policy is DedupPolicy.RETURN_EXISTING,
        partition_key=_text("partition_key", options.get("partition_key")),
        version=_text("version", options.get("version")),
        application=_application(options.get("application")),
        allow_unknown_queue=_flag("allow_unknown_queue", options),
        allow_unknown_version=_flag("allow_unknown_version", options),
    )


def _debounced(queue: Queue | str | None, options: PlacementOptions) -> Placement:
    """Where a debounced call goes: its key takes the place of a deduplication id."""
    debounce = options.get("debounce")
    if not isinstance(debounce, Debounce):
        raise InvalidArgument(f"debounce={debounce!r}: write Debounce(key, period=...)")
    for option in ("priority", "delay", "dedup_id", "dedup_policy", "partition_key"):
        if options.get(option) is not None:
            raise InvalidArgument(
                f"{option}= cannot go with debounce=, which decides when the workflow begins and "
                "what is a duplicate of it"
            )
    return Placement(
        queue=INTERNAL_QUEUE if queue is None else queue_name(queue),
        state=WorkflowState.DELAYED,
        delay_ms=debounce.delay_ms,
        version=_text("version", options.get("version")),
        application=_application(options.get("application")),
        debounce=debounce,
        allow_unknown_queue=_flag("allow_unknown_queue", options),
        allow_unknown_version=_flag("allow_unknown_version", options),
    )


def _refuse_without_queue(options: Mapping[str, object]) -> None:
    for option in PlacementOptions.__annotations__:
        given = options.get(option)
        if given is not None and given is not False:
            raise InvalidArgument(
                f"{option}= needs queue=: a workflow that is in no queue starts here and now"
            )


def _priority(priority: int | None) -> int:
    if priority is None:
        return 0
    if type(priority) is not int or not 1 <= priority <= LARGEST_PRIORITY:
        raise InvalidArgument(
            f"priority={priority!r}: it must be a whole number from 1 to {LARGEST_PRIORITY:,}; "
            "leave it out for what comes before all that have one"
        )
    return priority


def _delay_ms(delay: Duration | None) -> int | None:
    return None if delay is None else to_ms(seconds_of(delay, "delay")) or None


def _text(option: str, value: str | None) -> str | None:
    return None if value is None else checked_text(option, value)


def _flag(option: str, options: Mapping[str, Any]) -> bool:
    value = options.get(option)
    return False if value is None else checked_flag(option, value)


def _application(name: str | None) -> str | None:
    if name is not None and not (isinstance(name, str) and is_application_name(name)):
        raise InvalidArgument(f"application={name!r}: {APPLICATION_NAMES}")
    return name


async def check_placements(intake: Intake, placements: Sequence[Placement]) -> None:
    """Raise what one of them cannot be for, by what is registered now.

    `UnknownQueue`, `UnknownVersion`, or `InvalidArgument` for what its queue does not take.
    """
    by_application: dict[str | None, list[Placement]] = {}
    for placement in placements:
        by_application.setdefault(intake.foreign(placement.application), []).append(placement)
    for application, placed in by_application.items():
        for placement in placed:
            if placement.queue is None or placement.queue == INTERNAL_QUEUE:
                continue
            if application is None:
                await _check_queue(intake.queues, placement, placement.queue)
            else:
                await _check_queue_of(intake, application, placement, placement.queue)
        await _check_versions(intake, application, placed)


async def _check_versions(
    intake: Intake, application: str | None, placements: Sequence[Placement]
) -> None:
    """Raise `UnknownVersion` for what the application, None for this one, has not registered."""
    given = {each.version for each in placements if not each.allow_unknown_version}
    asked = sorted(version for version in given if version not in (None, intake.version))
    if not asked:
        return
    speaker = intake.desk.speaker
    rows = await speaker.retry(lambda: speaker.store.versions(application), "reading the versions")
    known = {row.name for row in rows}
    for version in asked:
        if version not in known:
            raise UnknownVersion(version, application or intake.desk.application)


async def _check_queue_of(
    intake: Intake, application: str, placement: Placement, name: str
) -> None:
    """As `_check_queue`, for a queue of another application."""
    speaker = intake.desk.speaker
    found = await speaker.retry(lambda: speaker.store.queues(application), "reading the queues")
    rows = {row.name: row for row in found}
    if name not in rows and not placement.allow_unknown_queue:
        raise UnknownQueue(name, sorted(rows))
    _check_fit(rows.get(name), placement)


async def _check_queue(queues: RegisteredQueues, placement: Placement, name: str) -> None:
    row = queues.known(name)
    if row is None or queues.is_stale or misfit(row, placement):
        # Nothing is said of what may have changed since it was read.
        await queues.refresh()
        row = queues.known(name)
    if row is None and not placement.allow_unknown_queue:
        row = await queues.require(name)
    _check_fit(row, placement)


def _check_fit(row: QueueRow | None, placement: Placement) -> None:
    reason = None if row is None else misfit(row, placement)
    if reason is not None:
        raise InvalidArgument(reason)


def misfit(row: QueueRow, placement: Placement) -> str | None:
    """What a registered queue refuses a workflow for."""
    settings = row.settings
    if settings.partitioned and placement.debounce is not None:
        return f"queue {row.name!r} is partitioned and takes no debounced workflows"
    if settings.partitioned and placement.partition_key is None:
        return (
            f"queue {row.name!r} is partitioned and takes nothing without a key: say which "
            "partition with partition_key="
        )
    if not settings.partitioned and placement.partition_key is not None:
        return (
            f"queue {row.name!r} is not partitioned: leave partition_key= out, or declare the "
            "queue with partitioned=True"
        )
    if placement.priority and not settings.priority_enabled:
        return (
            f"queue {row.name!r} knows no priorities: leave priority= out, or declare the queue "
            "with priority_enabled=True"
        )
    return None
