"""Looking at workflows from outside: one implementation for the engine, the client and the CLI."""

import builtins
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from functools import partial
from typing import Any, TypeVar, Unpack, overload

import msgspec

from perdure.api.call_options import checked_id
from perdure.api.filters import (
    FilterOptions,
    ListOptions,
    StepFilterOptions,
    checked_limit,
    conditions,
    listing_of,
)
from perdure.api.options import checked_choice, checked_flag
from perdure.api.pages import Page, page_of_workflows
from perdure.api.payloads import Payloads
from perdure.api.questions import QuestionCall, Shape, page_shape, plain_shape
from perdure.api.values import checked_key
from perdure.engine.context import PLACE
from perdure.engine.talk import Speaker
from perdure.errors import InvalidArgument, WorkflowNotFound
from perdure.logic.durations import Duration, seconds_of, to_ms
from perdure.logic.explaining import Explanation, explain
from perdure.logic.trees import arranged
from perdure.model.ids import StepId, WorkflowId
from perdure.model.listing import (
    Branch,
    CountKey,
    CountRequest,
    ListingRequest,
    StepCount,
    StepCountRequest,
    StepKey,
    StepsRequest,
    StreamSummary,
    WorkflowCount,
)
from perdure.model.talk import EventRow, Key, MessageRow, StreamRow
from perdure.model.wire import (
    COUNT_STEPS,
    COUNT_WORKFLOWS,
    GET_EVENTS,
    GET_STATUS,
    LIST_ANCESTORS,
    LIST_MESSAGES,
    LIST_STEPS,
    LIST_STREAMS,
    LIST_TREE,
    LIST_WORKFLOWS,
    READ_STREAM,
    STREAM_CLOSED,
)
from perdure.model.workflow import StepRow, WorkflowRow
from perdure.ports.store.streams import Reading

T = TypeVar("T")
K = TypeVar("K", CountKey, StepKey)

_AT_ONCE = 1000
"""Rows of one statement, where all are wanted."""

_AT_ONCE_WITH_PAYLOADS = 100
_MOST_GENERATIONS = 10_000

_LARGEST = 2**31 - 2
"""Of the ids of steps, and of places in a stream."""

_WORKFLOWS: Shape[Page[WorkflowRow, str]] = page_shape(WorkflowRow, str)
_STEPS: Shape[Page[StepRow, int]] = page_shape(StepRow, int)
_VALUES: Shape[Page[StreamRow, int]] = page_shape(StreamRow, int)


class Listing:
    """The reading half of `Workflows`.

    With `records` each question that is asked in the body of a workflow is a step of it.
    """

    def __init__(self, speaker: Speaker, *, records: bool) -> None:
        self._speaker = speaker
        self._store = speaker.store
        self._retry = speaker.retry
        self._records = records

    def get(self, workflow_id: str, *, with_payloads: bool = False) -> Awaitable[WorkflowRow]:
        """One workflow's row, whatever application's; raises `WorkflowNotFound`."""
        full = checked_flag("with_payloads", with_payloads)
        asked = ListingRequest(
            ids=(checked_id(workflow_id),), limit=1, with_inputs=full, with_outputs=full
        )

        async def ask() -> WorkflowRow:
            rows = await self._rows(asked)
            if not rows:
                raise WorkflowNotFound(workflow_id)
            return rows[0]

        return self._question(GET_STATUS, ask, plain_shape(WorkflowRow))

    def list(self, **options: Unpack[ListOptions]) -> Awaitable[Page[WorkflowRow, str]]:
        """A page of the workflows that meet all conditions; at most `limit` (100) of them.

        The page's `next` continues it: rows that are inserted or changed meanwhile neither repeat
        nor hide another. Payloads stay in the database unless asked for. Raises `InvalidArgument`
        for what cannot be meant, and `ListingTooSlow` where no condition narrows a large number.

        >>> failed = await engine.workflows.list(states="ERROR", created_from=yesterday)
        """
        return self._list(listing_of(options))

    async def iterate(self, **options: Unpack[ListOptions]) -> AsyncIterator[WorkflowRow]:
        """All the workflows that meet all conditions, read page by page; at most `limit` if given.

        >>> async for row in engine.workflows.iterate(names="convert", with_outputs=True):
        ...     print(row.workflow_id, row.output)
        """
        left = options.pop("limit", None)
        if left is not None:
            checked_limit(left, most=2**63 - 1)
        asked = listing_of(options)
        heavy = asked.with_inputs or asked.with_outputs
        step = _AT_ONCE_WITH_PAYLOADS if heavy else _AT_ONCE
        while left is None or left > 0:
            limit = step if left is None else min(step, left)
            page = await self._list(msgspec.structs.replace(asked, limit=limit))
            for row in page:
                yield row
            if page.next is None:
                return
            left = None if left is None else left - len(page)
            asked = listing_of({**options, "after": page.next})

    @overload
    def count(self, **options: Unpack[FilterOptions]) -> Awaitable[int]: ...
    @overload
    def count(
        self,
        *,
        by: CountKey | str | Collection[CountKey | str],
        span: Duration = 60,
        limit: int = 1000,
        **options: Unpack[FilterOptions],
    ) -> Awaitable[builtins.list[WorkflowCount]]: ...
    def count(
        self,
        *,
        by: CountKey | str | Collection[CountKey | str] | None = None,
        span: Duration = 60,
        limit: int = 1000,
        **options: Unpack[FilterOptions],
    ) -> Awaitable[Any]:
        """How many workflows meet all conditions, or how many of each kind.

        `by` is one or several of `state`, `queue`, `name`, `version`, `executor`, `application`,
        and `created`, `started` or `completed`, which count by spans of time of that length. The
        earliest spans come first, then the largest numbers.

        >>> await engine.workflows.count(states="ENQUEUED", queues="media")
        >>> await engine.workflows.count(by=("state", "created"), span=timedelta(hours=1))
        """
        asked = CountRequest(
            by=() if by is None else _counted_by(by, CountKey),
            span_ms=_span_ms(span),
            limit=checked_limit(limit),
            **conditions(options),
        )

        async def ask() -> builtins.list[WorkflowCount]:
            return await self._asked(
                partial(self._store.count_workflows, asked), "counting workflows"
            )

        async def number() -> int:
            return (await ask())[0].number

        if by is None:
            return self._question(COUNT_WORKFLOWS, number, plain_shape(int))
        return self._question(COUNT_WORKFLOWS, ask, plain_shape(builtins.list[WorkflowCount]))

    def count_steps(
        self,
        *,
        by: StepKey | str | Collection[StepKey | str] = StepKey.NAME,
        span: Duration = 60,
        limit: int = 1000,
        **options: Unpack[StepFilterOptions],
    ) -> Awaitable[builtins.list[StepCount]]:
        """How many steps of each kind were recorded, how many failed, and the longest time of one.

        `by` is `name`, or `completed`, which counts by spans of time of that length, or both.

        >>> await engine.workflows.count_steps(names="transcode", completed_from=an_hour_ago)
        """
        fields = conditions(options, StepFilterOptions)
        asked = StepCountRequest(
            by=_counted_by(by, StepKey),
            names=fields.get("names"),
            completed=fields["completed"],
            any_application=fields.get("any_application", False),
            span_ms=_span_ms(span),
            limit=checked_limit(limit),
        )

        async def ask() -> builtins.list[StepCount]:
            found = await self._asked(partial(self._store.count_steps, asked), "counting steps")
            return builtins.list(found)

        return self._question(COUNT_STEPS, ask, plain_shape(builtins.list[StepCount]))

    def children(
        self, workflow_id: str, **options: Unpack[ListOptions]
    ) -> Awaitable[Page[WorkflowRow, str]]:
        """A page of the workflows that a workflow started, of whatever application."""
        if options.get("parents") is not None:
            raise InvalidArgument("parents: the children of one workflow are asked for")
        narrowed = ListOptions(any_application=True)
        narrowed.update(options)
        narrowed["parents"] = checked_id(workflow_id)
        return self._list(listing_of(narrowed))

    def tree(self, workflow_id: str, *, limit: int = 1000) -> Awaitable[builtins.list[Branch]]:
        """A workflow and everything below it, each under its parent, in the order of creation.

        In one statement, whatever the depth. Raises `WorkflowNotFound`, and `InvalidArgument` if
        there are more than `limit` below it.
        """
        root, most = checked_id(workflow_id), checked_limit(limit)

        async def ask() -> builtins.list[Branch]:
            rows = await self._rows(ListingRequest(ids=(root,), limit=1))
            if not rows:
                raise WorkflowNotFound(root)
            below = await self._asked(
                partial(self._store.list_descendants, root, most + 1), "reading a tree"
            )
            if len(below) > most:
                raise InvalidArgument(
                    f"workflow {root!r} has more than {most:,} descendants: raise limit=, or go "
                    "through its children"
                )
            return arranged(rows[0], below)

        return self._question(LIST_TREE, ask, plain_shape(builtins.list[Branch]))

    def ancestors(self, workflow_id: str) -> Awaitable[builtins.list[WorkflowRow]]:
        """The workflow that started it, the one that started that, and so on up to the root."""
        below = checked_id(workflow_id)

        async def ask() -> builtins.list[WorkflowRow]:
            found = await self._asked(
                partial(self._store.list_ancestors, below, _MOST_GENERATIONS), "reading ancestors"
            )
            return found or await self._none_of(below)

        return self._question(LIST_ANCESTORS, ask, plain_shape(builtins.list[WorkflowRow]))

    def steps(
        self,
        workflow_id: str,
        *,
        after: int | None = None,
        limit: int | None = None,
        with_outputs: bool = True,
    ) -> Awaitable[Page[StepRow, int]]:
        """The recorded steps of a workflow, by step id; raises `WorkflowNotFound`.

        All of them, or at most `limit`, from behind the id `after` on; the page's `next` continues
        it. Other SDKs count from 0.
        """
        found = checked_id(workflow_id)
        most = None if limit is None else checked_limit(limit)
        first = -1 if after is None else _position("after", after)
        full = checked_flag("with_outputs", with_outputs)

        async def ask() -> Page[StepRow, int]:
            steps: builtins.list[StepRow] = []
            while most is None or len(steps) <= most:
                limit = _AT_ONCE if most is None else min(_AT_ONCE, most + 1 - len(steps))
                behind = steps[-1].step_id if steps else StepId(first)
                wanted = StepsRequest(found, behind, limit, full)
                read = await self._asked(partial(self._store.list_steps, wanted), "reading steps")
                steps += read
                if len(read) < limit:
                    break
            if not steps:
                await self._none_of(found)
            if most is None or len(steps) <= most:
                return Page(steps)
            return Page(steps[:most], steps[most - 1].step_id)

        return self._question(LIST_STEPS, ask, _STEPS)

    def events(self, workflow_id: str) -> Awaitable[builtins.list[EventRow]]:
        """What a workflow published, by key, as it is stored; raises `WorkflowNotFound`."""
        found = checked_id(workflow_id)

        async def ask() -> builtins.list[EventRow]:
            rows = await self._asked(partial(self._store.events_of, found), "reading events")
            return rows or await self._none_of(found)

        return self._question(GET_EVENTS, ask, plain_shape(builtins.list[EventRow]))

    def messages(
        self, workflow_id: str, *, unread: bool = False, limit: int = 1000
    ) -> Awaitable[builtins.list[MessageRow]]:
        """The messages to a workflow as they are stored, the oldest first, up to `limit`.

        Those of one topic are in the order of sending; between topics a millisecond is the finest
        order there is. With `unread` only those that it has not received. Raises
        `WorkflowNotFound`.
        """
        found = checked_id(workflow_id)
        most, is_unread = checked_limit(limit), checked_flag("unread", unread)

        async def ask() -> builtins.list[MessageRow]:
            rows = await self._asked(
                partial(self._store.list_messages, found, most, is_unread=is_unread),
                "reading messages",
            )
            return builtins.list(rows) or await self._none_of(found)

        return self._question(LIST_MESSAGES, ask, plain_shape(builtins.list[MessageRow]))

    def streams(self, workflow_id: str) -> Awaitable[builtins.list[StreamSummary]]:
        """The streams of a workflow, by key: how much is in them, and whether they are closed.

        Raises `WorkflowNotFound`.
        """
        found = checked_id(workflow_id)

        async def ask() -> builtins.list[StreamSummary]:
            rows = await self._asked(partial(self._store.list_streams, found), "reading streams")
            return builtins.list(rows) or await self._none_of(found)

        return self._question(LIST_STREAMS, ask, plain_shape(builtins.list[StreamSummary]))

    def stream(
        self, workflow_id: str, key: str, *, offset: int = 0, limit: int = 100
    ) -> Awaitable[Page[StreamRow, int]]:
        """A page of what is in a stream, as it is stored; its `next` is the next `offset`.

        Nothing is waited for; `Client.read_stream` follows a stream. Raises `WorkflowNotFound`.
        """
        at = Key(checked_id(workflow_id), checked_key(key))
        most = checked_limit(limit)
        begin = _position("offset", offset)

        async def ask() -> Page[StreamRow, int]:
            reading = Reading(at, begin, most + 1)
            (page,) = await self._asked(
                partial(self._store.stream_pages, [reading]), "reading a stream"
            )
            if page.state is None:
                raise WorkflowNotFound(at.workflow_id)
            rows = [row for row in page.rows if row.value != STREAM_CLOSED]
            if len(rows) <= most:
                return Page(rows)
            return Page(rows[:most], rows[most].offset)

        return self._question(READ_STREAM, ask, _VALUES)

    def payloads(self, row: WorkflowRow) -> Payloads:
        """The payloads of a row that was read with them, decoded as they are asked for.

        >>> row = await engine.workflows.get("convert-intro", with_payloads=True)
        >>> engine.workflows.payloads(row).output
        """
        return Payloads(row, self._speaker.serialization)

    async def explain(self, workflow_id: str) -> Explanation:
        """Why a workflow does not run, or that it does, and what to do; raises `WorkflowNotFound`.

        >>> print((await engine.workflows.explain("convert-intro")).text)
        """
        asked = checked_id(workflow_id)
        found = await self._asked(
            partial(self._store.circumstances, asked), f"explaining workflow {workflow_id!r}"
        )
        if found is None:
            raise WorkflowNotFound(workflow_id)
        return explain(found)

    def _list(self, asked: ListingRequest) -> Awaitable[Page[WorkflowRow, str]]:
        # One more says whether there are more.
        wanted = msgspec.structs.replace(asked, limit=asked.limit + 1)

        async def ask() -> Page[WorkflowRow, str]:
            return page_of_workflows(await self._rows(wanted), asked.limit)

        return self._question(LIST_WORKFLOWS, ask, _WORKFLOWS)

    async def _rows(self, wanted: ListingRequest) -> builtins.list[WorkflowRow]:
        return await self._asked(partial(self._store.list_workflows, wanted), "listing workflows")

    async def _none_of(self, workflow_id: WorkflowId) -> builtins.list[Any]:
        """Nothing, if there is such a workflow."""
        if not await self._rows(ListingRequest(ids=(workflow_id,), limit=1)):
            raise WorkflowNotFound(workflow_id)
        return []

    async def _asked(self, operation: Callable[[], Awaitable[T]], what: str) -> T:
        # In a step as patiently as in a body: that the engine stops is no failure of the step.
        return await self._speaker.ask(operation, what, is_patient=PLACE.get() is not None)

    def _question(
        self, name: str, ask: Callable[[], Awaitable[T]], shape: Shape[T]
    ) -> Awaitable[T]:
        if self._records:
            return QuestionCall(name, self._speaker, ask, shape)
        return ask()


def _position(option: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise InvalidArgument(f"{option}={value!r}: it must be a whole number from 0 on")
    return value


def _span_ms(span: Duration) -> int:
    return max(1, to_ms(seconds_of(span, "span", zero=False)))


def _counted_by(by: str | Collection[str], kind: type[K]) -> tuple[K, ...]:
    several = (by,) if isinstance(by, str) else by
    if not isinstance(several, Collection) or isinstance(several, bytes | bytearray) or not several:
        raise InvalidArgument(f"by={by!r}: it must be a text, or a list of texts")
    return tuple(dict.fromkeys(checked_choice("by", kind, key) for key in several))
