"""Starting many workflows in one call: in few statements outside a workflow, as children inside."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from perdure.api.call_options import CallOptions, checked_id
from perdure.api.concurrency import gather
from perdure.api.handle import WorkflowHandle
from perdure.api.placement import check_placements
from perdure.api.starting import (
    Callee,
    Plan,
    Prepared,
    StartCall,
    begun_or_joined,
    compare_arguments,
    plan_of,
)
from perdure.engine.committer import Entry
from perdure.engine.context import PLACE, Branch
from perdure.engine.intake import Intake, StartAnswer
from perdure.engine.journal import DurableCall, PendingCall
from perdure.engine.talk import Speaker
from perdure.errors import InvalidArgument, PerdureError
from perdure.model.ids import WorkflowId
from perdure.model.workflow import NewWorkflow, Start

R = TypeVar("R")

Planned = tuple[Plan, tuple[Any, ...], dict[str, Any], WorkflowId | None]
"""One start before its arguments are encoded."""

StartEntry = Entry[Start, StartAnswer]


class StartManyCall(PendingCall[list[WorkflowHandle[R]]]):
    """Many starts, all of them prepared before the first is written.

    Awaiting it gives the handles in the order of the items. Every start is tried; what refuses one
    is raised after that, with a note that says which item it was.
    """

    __slots__ = ("_call",)

    def __init__(self, name: str, starts: list[Prepared] | PerdureError) -> None:
        super().__init__(name)
        self._call: _Children[R] | _Starts[R]
        if isinstance(starts, list) and type(PLACE.get()) is Branch:
            self._call = _Children(name, starts)
        else:
            self._call = _Starts(name, starts)

    async def _drive(self) -> list[WorkflowHandle[R]]:
        return await self._call

    def spend(self) -> None:
        """See `PendingCall.spend`."""
        self._call.spend()


class _Children(PendingCall[list[WorkflowHandle[R]]]):
    """Inside a workflow: each is a step of its own, with the id it takes here."""

    __slots__ = ("_calls",)

    def __init__(self, name: str, starts: Sequence[Prepared]) -> None:
        super().__init__(name)
        self._calls: list[StartCall[R]] = [
            StartCall(start.plan.definition.key.name, start) for start in starts
        ]

    async def _drive(self) -> list[WorkflowHandle[R]]:
        found = _Found[R]()
        for outcome in await gather(*self._calls, return_exceptions=True):
            if isinstance(outcome, WorkflowHandle):
                found.handles.append(outcome)
            else:
                found.refuse(outcome)
        return found.all()

    def spend(self) -> None:
        """See `PendingCall.spend`."""
        for call in self._calls:
            call.spend()


class _Starts(DurableCall[list[WorkflowHandle[R]]]):
    """Outside of one: rows are written in batches, the next one made while one is on its way."""

    __slots__ = ("_starts",)

    def __init__(self, name: str, starts: list[Prepared] | PerdureError) -> None:
        super().__init__(name, starts if isinstance(starts, PerdureError) else None)
        self._starts = starts if isinstance(starts, list) else []

    async def plain(self) -> list[WorkflowHandle[R]]:
        """Write them, and look at every answer."""
        return await begin_all(self._starts)


async def begin_all(starts: Sequence[Prepared]) -> list[WorkflowHandle[Any]]:
    """Start workflows that have no parents, by one way: check, write, and look at every answer."""
    if not starts:
        return []
    intake = starts[0].plan.intake
    plans = {id(start.plan): start.plan for start in starts}
    await check_placements(intake, [plan.options.placement for plan in plans.values()])
    written: list[tuple[NewWorkflow, StartEntry]] = []
    try:
        await _write(intake, starts, written)
        return await _look_at(intake.desk.speaker, starts, written)
    except BaseException:
        for _, entry in written:
            entry.future.cancel()
        raise


async def _write(
    intake: Intake, starts: Sequence[Prepared], written: list[tuple[NewWorkflow, StartEntry]]
) -> None:
    launches = intake.launches
    size = intake.desk.speaker.store.capabilities.max_batch
    # What is enqueued by one statement is as old as its neighbours and is begun in the order of
    # the ids.
    ids = sorted(intake.desk.ids.workflow_id() for _ in starts)
    for first in range(0, len(starts), size):
        await launches.room()
        for index in range(first, min(first + size, len(starts))):
            launch = starts[index].launch(starts[index].workflow_id or ids[index], None)
            written.append((launch.row, launches.submit(launch)))
        if first:
            await asyncio.wait([written[first - 1][1].future])


async def _look_at(
    speaker: Speaker,
    starts: Sequence[Prepared],
    written: Sequence[tuple[NewWorkflow, StartEntry]],
) -> list[WorkflowHandle[Any]]:
    found = _Found[Any]()
    again: list[NewWorkflow] = []
    for start, (row, entry) in zip(starts, written, strict=True):
        try:
            answer = await entry.future
            workflow_id = begun_or_joined(start, row, answer)
        except Exception as refusal:  # noqa: BLE001 - raised when all were tried
            found.refuse(refusal)
            continue
        if answer.standing is not None and workflow_id == row.workflow_id:
            again.append(row)
        found.handles.append(start.handle(workflow_id, must_exist=True))
    size = speaker.store.capabilities.max_batch
    for first in range(0, len(again), size):
        await compare_arguments(speaker, again[first : first + size])
    return found.all()


class _Found(Generic[R]):
    """The handles so far, in order, and the first refusal with what it was about."""

    def __init__(self) -> None:
        self.handles: list[WorkflowHandle[R]] = []
        self._refusal: BaseException | None = None

    def refuse(self, refusal: BaseException) -> None:
        """The next start was refused."""
        if self._refusal is None:
            refusal.add_note(_note(len(self.handles)))
            self._refusal = refusal

    def all(self) -> list[WorkflowHandle[R]]:
        """Every handle; raises the first refusal."""
        if self._refusal is not None:
            raise self._refusal
        return self.handles


def _note(index: int) -> str:
    return f"(item {index} of many, counted from 0)"


def prepared_each(planned: Iterable[Planned]) -> list[Prepared]:
    """The starts with their arguments encoded; what refuses one has a note that says which."""
    starts: list[Prepared] = []
    try:
        for plan, args, kwargs, workflow_id in planned:
            if plan.options.placement.debounce is not None:
                raise InvalidArgument("debounce= makes one workflow of many calls: call one by one")
            payload = plan.codecs.arguments.encode(args, kwargs, plan.label)
            starts.append(Prepared(plan, payload, workflow_id))
    except PerdureError as refusal:
        refusal.add_note(_note(len(starts)))
        raise
    return starts


def start_many(
    callee: Callee,
    options: CallOptions,
    items: Iterable[tuple[Any, ...]],
    ids: Sequence[str] | None,
) -> StartManyCall[Any]:
    """One workflow with each of these arguments."""
    starts: list[Prepared] | PerdureError
    try:
        if options.workflow_id is not None:
            raise InvalidArgument("id= names one workflow; give start_many its ids=[...]")
        arguments = list(items)
        chosen = _chosen_ids(ids, len(arguments))
        starts = prepared_each(_planned(plan_of(callee, options), arguments, chosen))
    except PerdureError as refusal:
        starts = refusal
    return StartManyCall(callee.name, starts)


def _chosen_ids(ids: Sequence[str] | None, count: int) -> Sequence[WorkflowId | None]:
    if ids is None:
        return [None] * count
    if isinstance(ids, str) or len(ids) != count:
        raise InvalidArgument(f"ids= must be a list of {count} ids, one for each item")
    return [checked_id(each) for each in ids]


def _planned(
    plan: Plan, items: Sequence[tuple[Any, ...]], ids: Sequence[WorkflowId | None]
) -> Iterator[Planned]:
    for args, workflow_id in zip(items, ids, strict=True):
        if not isinstance(args, tuple):
            raise InvalidArgument(
                f"an item of start_many is a tuple of arguments, not {args!r:.40}: write (x,)"
            )
        yield plan, args, {}, workflow_id
