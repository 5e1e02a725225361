"""Starting and enqueueing workflows."""

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from perdure.errors import LeaseLost
from perdure.model.answer import BUSY, LOST, MINE, WRITTEN, Answer, AnswerKind
from perdure.model.ids import ExecutorId
from perdure.model.status import WorkflowState
from perdure.model.workflow import StandingWorkflow, Start
from perdure.store import rows
from perdure.store.postgres.batch import in_waves, packed, packed_columns, past_duplicates
from perdure.store.postgres.concern import Concern, boot_of
from perdure.store.postgres.failures import DuplicateKey
from perdure.store.postgres.lanes import Record
from perdure.store.postgres.steps import OPTIMISTIC_FROM

StartAnswer = Answer[StandingWorkflow]

_NUMBERS: Final = frozenset({10, 13, 14, 15, 22, 25, 30, 31, 33})
"""Whole numbers among the fields of a new workflow and, from 23 on, of a caller and its place."""


class Starts(Concern):
    """`RunStore.start`."""

    async def start(
        self, items: Sequence[Start], executor_id: ExecutorId | None
    ) -> list[Answer[StandingWorkflow]]:
        """See `perdure.ports.store.RunStore.start`."""
        if _has_children(items):
            return await in_waves(items, _keys, partial(self._start_children, executor_id))
        if len(items) >= OPTIMISTIC_FROM and not any(_may_meet_another(item) for item in items):
            try:
                return await self._start("start", executor_id, items)
            except DuplicateKey:
                pass
        return await in_waves(items, _keys, partial(self._start, "start_around", executor_id))

    async def _start_children(
        self, executor_id: ExecutorId | None, items: Sequence[Start]
    ) -> list[StartAnswer]:
        if not _has_children(items):
            return await self._start("start_around", executor_id, items)
        # The parent may record another step there after the statement began.
        return await past_duplicates(lambda: self._start("start_children", executor_id, items))

    async def _start(
        self, query: str, executor_id: ExecutorId | None, items: Sequence[Start]
    ) -> list[StartAnswer]:
        separator, null, *columns = _columns(items)
        (row,) = await self._database.hot(
            "start",
            query,
            separator,
            null,
            None if executor_id is None else boot_of(executor_id),
            executor_id,
            self._database.offset_ms,
            self._application,
            self._access.application_id,
            *columns,
        )
        if not row["held"]:
            raise LeaseLost(f"the lease of {executor_id} was taken over or never written")
        if row["places"] is None:
            return [WRITTEN] * len(items)
        return await self._start_answers(items, {int(place) for place in row["places"]})

    async def _start_answers(self, items: Sequence[Start], written: set[int]) -> list[StartAnswer]:
        """The answers; `written` are places from 1, the reasons of the others are looked up."""
        left = [item for place, item in enumerate(items, 1) if place not in written]
        standing = iter(
            await self._database.hot(
                "start", "standing_workflows", *packed([_asked(item) for item in left], {4})
            )
        )
        return [
            WRITTEN if place in written else _verdict(item, next(standing))
            for place, item in enumerate(items, 1)
        ]


def _columns(items: Sequence[Start]) -> list[Any]:
    workflows = [item.workflow for item in items]
    callers = [
        (*item.caller, place) for place, item in enumerate(items, 1) if item.caller is not None
    ]
    if not callers:
        return packed(workflows, _NUMBERS)
    columns = [*zip(*workflows, strict=True), *zip(*callers, strict=True)]
    return packed_columns(columns, _NUMBERS)


def _has_children(items: Sequence[Start]) -> bool:
    return any(item.caller is not None for item in items)


def _may_meet_another(item: Start) -> bool:
    """Whether refusing the item may be what it is for: that is no reason to fail a statement."""
    return item.workflow.deduplication_id is not None


def _keys(item: Start) -> Iterable[Hashable]:
    yield item.workflow.workflow_id
    if item.caller is not None:
        yield item.caller.workflow_id, item.caller.step_id


def _asked(item: Start) -> tuple[Any, ...]:
    new, caller = item.workflow, item.caller
    return (
        new.workflow_id,
        new.queue_name,
        new.deduplication_id,
        caller.workflow_id if caller is not None else None,
        caller.step_id if caller is not None else None,
    )


def _verdict(item: Start, row: Record) -> StartAnswer:
    new, caller = item.workflow, item.caller
    if row["workflow_uuid"] is not None:
        if (row["workflow_uuid"], row["creator_xid"]) == (new.workflow_id, new.creator):
            return MINE
        return Answer(AnswerKind.CONFLICT, rows.standing_workflow(row))
    if caller is None:
        # Whatever stood in the way is gone.
        return BUSY
    if row["step_stands"]:
        return Answer(AnswerKind.CONFLICT)
    if row["parent_state"] != WorkflowState.PENDING or row["parent_owner"] != caller.owner:
        return LOST
    return BUSY
