"""Changing workflows from outside: one implementation for the engine, the client and the CLI."""

from collections.abc import Awaitable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

from perdure.api.call_options import Ids, checked_id, checked_ids, several_ids
from perdure.api.handle import Target, WorkflowHandle
from perdure.api.options import checked_choice, checked_flag, checked_text, refuse_unknown
from perdure.api.queue import Queue, queue_name
from perdure.api.running import RUNNING
from perdure.api.transfer import Transfers
from perdure.api.values import attributes_text
from perdure.engine.context import PLACE
from perdure.errors import InvalidArgument
from perdure.logic.durations import Duration, seconds_of, to_ms
from perdure.model.ids import WorkflowId
from perdure.model.management import (
    Cancel,
    Delete,
    Fork,
    ForkItem,
    ForkPoint,
    LastStep,
    Resume,
    Rewind,
    SetAttributes,
    SetDelay,
)

Handle = WorkflowHandle[Any]

_LARGEST_STEP = 2**31 - 1


class RewindOptions(TypedDict, total=False):
    """Where a workflow that is rewound goes on.

    `queue` is by default the internal one, which every process serves; `partition_key` belongs to
    one that is partitioned. `version` is the application version that runs it, that of its row
    unless given.
    """

    queue: Queue | str | None
    partition_key: str | None
    version: str | None


class ForkOptions(RewindOptions, total=False):
    """Where forks go on, and with which children.

    `version` is by default the latest. `timeout` bounds a fork from when it begins; the source's
    does not. `children` names, for children that the source started, the workflows that stand for
    them in the fork, such as forks of them; without one the fork waits for the source's own child.
    """

    timeout: Duration | None
    children: Mapping[str, str]


class Workflows(Transfers):
    """The workflows of one database: looked at, stopped, continued, copied, repaired, removed.

    Commands find workflows of whatever application. Each is one transaction; what it is refused for
    changes nothing. In the body of a workflow of the same engine a command is a step, recorded in
    its own transaction, and so is its refusal.
    """

    def cancel(self, ids: Ids, *, children: bool = False) -> Awaitable[list[WorkflowId]]:
        """Cancel workflows unless they have their outcome; returns the ids that were.

        They stop at their next durable call at the latest, at once where they only wait. With
        `children` all their descendants are cancelled too, also those that are started meanwhile;
        they come behind. Unknown ids are passed over.

        >>> await engine.workflows.cancel(["convert-intro", "convert-outro"], children=True)
        """
        return self._give(Cancel(checked_ids(ids), checked_flag("children", children)), list)

    def resume(self, ids: Ids, *, queue: Queue | str | None = None) -> Awaitable[list[Handle]]:
        """Let workflows go on that were cancelled, set aside, or stand still.

        They go on where they stopped, through `queue` or else the internal one, with a full timeout
        and all their attempts. Those that have their outcome are left alone. A partitioned queue
        takes those that have a key. Returns a handle to each, in the order of the ids. Raises
        `WorkflowNotFound`, and then none is resumed, and `UnknownQueue`.
        """
        named = checked_ids(ids)
        handles = [self._handle(each) for each in named]
        return self._give(Resume(named, _queue(queue)), lambda _: handles)

    def fork(
        self,
        workflow_id: str,
        point: ForkPoint = 1,
        *,
        id: str | None = None,
        **options: Unpack[ForkOptions],
    ) -> Awaitable[Handle]:
        """Copy a workflow that goes on from a step, under an id of its own; returns its handle.

        `point` is the first step that runs afresh: its number, the name of a step, whose last call
        is meant, or `LastStep.FAILED`. Steps before it, events and stream values are copied;
        messages are not. The source stays what it is. Raises `WorkflowNotFound`, `WorkflowIdInUse`,
        `NoForkPoint`, `UnknownQueue` and `UnknownVersion`.

        >>> handle = await engine.workflows.fork("convert-intro", "transcode")
        """
        fork_id = None if id is None else [id]
        command = self._forks([workflow_id], point, fork_id, options)
        return self._give(command, lambda forks: self._handle(forks[0]))

    def fork_many(
        self,
        ids: Iterable[str],
        point: ForkPoint = 1,
        *,
        fork_ids: Iterable[str] | None = None,
        **options: Unpack[ForkOptions],
    ) -> Awaitable[list[Handle]]:
        """Fork several workflows, all or none, each at its own step of that name or kind.

        Returns their handles in the order of the ids. `fork_ids` are theirs, where they are chosen.

        >>> failed = await engine.workflows.list(states="ERROR", versions="broken")
        >>> await engine.workflows.fork_many(
        ...     [row.workflow_id for row in failed], LastStep.FAILED
        ... )
        """
        command = self._forks(ids, point, fork_ids, options)
        return self._give(command, lambda forks: [self._handle(each) for each in forks])

    def rewind(
        self, workflow_id: str, point: ForkPoint = 1, **options: Unpack[RewindOptions]
    ) -> Awaitable[Handle]:
        """Let an ended workflow run again from a step, under its own id; returns its handle.

        What it recorded from there on is removed: steps, events, consumed messages and its outcome.
        Whoever waits for it then waits again. Raises `WorkflowNotFound`, `WorkflowNotEnded`,
        `NoForkPoint`, `UnknownQueue` and `UnknownVersion`.
        """
        refuse_unknown(options, RewindOptions, InvalidArgument)
        token = self._desk.ids.token()
        command = Rewind(checked_id(workflow_id), token, _point(point), **_place(options))
        handle = self._handle(command.workflow_id)
        return self._give(command, lambda _: handle)

    def delete(self, ids: Ids, *, children: bool = False) -> Awaitable[list[WorkflowId]]:
        """Remove workflows with all that belongs to them; returns the ids that were removed.

        Whatever state they are in: whoever runs one stops. With `children` all their descendants
        too, which come behind. Unknown ids are passed over. Raises `WorkflowBusy` in a workflow
        that would remove itself.
        """
        return self._give(Delete(checked_ids(ids), checked_flag("children", children)), list)

    def set_delay(
        self, ids: Ids, delay: Duration | None = None, *, until: datetime | None = None
    ) -> Awaitable[list[WorkflowId]]:
        """Move the moment at which delayed workflows come up; returns the ids that were moved.

        To `delay` from now, or to `until`. Those that are not delayed, or not any more, are left
        alone.
        """
        if (delay is None) == (until is None):
            raise InvalidArgument("give delay= or until=, one of them")
        delay_ms = None if delay is None else to_ms(seconds_of(delay, "delay"))
        return self._give(SetDelay(checked_ids(ids), delay_ms, _instant(until)), list)

    def set_attributes(
        self, workflow_id: str, attributes: Mapping[str, Any] | None, *, merge: bool = False
    ) -> Awaitable[None]:
        """Replace a workflow's attributes, or with `merge` set those named; None clears them.

        Merged are the top-level keys; a None among the values is stored. Raises `WorkflowNotFound`.
        """
        named = checked_id(workflow_id)
        if attributes is not None and not isinstance(attributes, Mapping):
            raise InvalidArgument(f"attributes must be a mapping or None, not {attributes!r}")
        if attributes is None and merge:
            raise InvalidArgument("merge=True needs attributes to merge; None clears them")
        text = None
        if attributes is not None:
            text = attributes_text(self._speaker.serialization, attributes)
        return self._give(SetAttributes(named, text, checked_flag("merge", merge)), lambda _: None)

    def _forks(
        self,
        sources: Iterable[str],
        point: ForkPoint,
        fork_ids: Iterable[str] | None,
        options: ForkOptions,
    ) -> Fork:
        refuse_unknown(options, ForkOptions, InvalidArgument)
        found = several_ids("ids", sources)
        chosen = None if fork_ids is None else several_ids("fork_ids", fork_ids)
        if chosen is not None and len(chosen) != len(found):
            raise InvalidArgument(f"{len(found)} ids and {len(chosen)} fork_ids: as many of both")
        new = chosen or [self._desk.ids.workflow_id() for _ in found]
        children = _children(options.get("children"))
        timeout = options.get("timeout")
        return Fork(
            tuple(
                ForkItem(source, fork_id, _point(point), children)
                for source, fork_id in zip(found, new, strict=True)
            ),
            timeout_ms=None
            if timeout is None
            else to_ms(seconds_of(timeout, "timeout", zero=False)),
            **_place(options),
        )

    def _handle(self, workflow_id: WorkflowId) -> Handle:
        codec = self._speaker.serialization.value(Any, f"result of {workflow_id!r}")
        return WorkflowHandle(Target(self._desk, workflow_id, codec, must_exist=True))


def workflows() -> Workflows:
    """The workflows of the database, through the engine that runs the calling workflow.

    What `engine.workflows` is, for code that has no engine at hand; outside of a workflow through
    the only one that is running. Raises `NotRunning` and `AmbiguousEngine`.

    >>> await workflows().cancel(order_id, children=True)
    """
    place = PLACE.get()
    kernel = RUNNING.only_one("workflows()") if place is None else place.run.kernel
    return Workflows(kernel.desk, records=True)


def _point(point: ForkPoint) -> ForkPoint:
    if isinstance(point, LastStep):
        return checked_choice("point", LastStep, point)
    if isinstance(point, str):
        return checked_text("point", point)
    if type(point) is not int or not 1 <= point <= _LARGEST_STEP:
        raise InvalidArgument(
            f"point={point!r}: it must be a step's number from 1 on, its name, or a LastStep"
        )
    return point


def _place(options: RewindOptions) -> dict[str, Any]:
    """What of the options says where workflows go on."""
    queue, key = _queue(options.get("queue")), options.get("partition_key")
    if key is not None and queue is None:
        raise InvalidArgument("partition_key= needs queue=: the internal queue has no partitions")
    version = options.get("version")
    return {
        "queue_name": queue,
        "partition_key": None if key is None else checked_text("partition_key", key),
        "version": None if version is None else checked_text("version", version),
    }


def _queue(queue: Queue | str | None) -> str | None:
    return None if queue is None else queue_name(queue)


def _children(children: Mapping[str, str] | None) -> tuple[tuple[WorkflowId, WorkflowId], ...]:
    if children is None:
        return ()
    if not isinstance(children, Mapping):
        raise InvalidArgument(f"children must map ids to ids, not {children!r}")
    return tuple((checked_id(old), checked_id(new)) for old, new in children.items())


def _instant(until: datetime | None) -> int | None:
    if until is None:
        return None
    if not isinstance(until, datetime) or until.utcoffset() is None:
        raise InvalidArgument(f"until must be a datetime with a time zone, not {until!r}")
    return int(until.timestamp() * 1000)
