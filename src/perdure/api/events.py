"""Events: values a workflow publishes under keys, for whoever wants to know."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast, overload

from perdure.api.call_options import checked_id
from perdure.api.waiting import Limit, TimedCall, body_only, heard, kernel_here
from perdure.engine.journal import DurableCall
from perdure.engine.kernel import Kernel
from perdure.engine.run import Run
from perdure.engine.signals import Interest
from perdure.errors import InvalidArgument, PerdureError, UndecodableValue
from perdure.logic.durations import Duration, to_ms
from perdure.model.answer import AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.talk import EventRow, Key, NewEvent
from perdure.model.wire import GET_EVENT, GET_EVENTS, PORTABLE_JSON, SET_EVENT
from perdure.model.workflow import StepRow
from perdure.ports.store.hints import EVENT
from perdure.serialization import ValueCodec

T = TypeVar("T")


class SetEventCall(DurableCall[None]):
    """One publication, recorded with its step or not at all."""

    __slots__ = ("_key", "_text")

    def __init__(self, key: str, value: Any) -> None:
        refusal = body_only("set_event")
        self._key, self._text = key, ""
        if refusal is None:
            try:
                self._key = checked_key(key)
                kernel = kernel_here("set_event")
                codec = kernel.registry.serialization.value(Any, f"event {key!r}")
                self._text, _ = codec.encode(value)
            except PerdureError as error:
                refusal = error
        super().__init__(SET_EVENT, refusal)

    async def perform(self, run: Run) -> None:
        """Publish, and tell who waits after the commit."""
        kernel = run.kernel
        item = NewEvent(
            self._key,
            self._text,
            PORTABLE_JSON,
            self.checkpoint(run, kernel.time.now_ms()),
        )
        answer = await kernel.journal.submit(run, kernel.talk.events, item, self.known_id)
        if answer.kind is AnswerKind.CONFLICT:
            raise run.disagree(self.known_id, self.name, answer.standing)
        kernel.talk.announcements.event(Key(run.workflow_id, self._key))

    async def replay(self, run: Run, row: StepRow) -> None:
        """It was published."""

    async def plain(self) -> None:
        """Never: only the body of a workflow publishes."""
        raise AssertionError("set_event outside of a body is refused")


def set_event(key: str, value: Any) -> SetEventCall:
    """Publish a value of this workflow under a key; a later value replaces it.

    Only in a workflow's body, where it is a step. Anybody reads it with `get_event`, also after the
    workflow has ended.

    >>> await set_event("progress", 0.5)
    """
    return SetEventCall(key, value)


class GetEventCall(TimedCall[T]):
    """One wait for an event; in a workflow it is a step that records the value."""

    __slots__ = ("_kernel", "_key", "_type", "_workflow_id")

    def __init__(
        self,
        kernel: Kernel | None,
        workflow_id: str,
        key: str,
        timeout: Duration | None,
        annotation: Any,
    ) -> None:
        refusal: PerdureError | None = None
        self._workflow_id, self._key, self._type = WorkflowId(workflow_id), key, annotation
        try:
            self._kernel = kernel_here("get_event", kernel)
            self._workflow_id = checked_id(workflow_id)
            self._key = checked_key(key)
        except PerdureError as error:
            refusal = error
        super().__init__(GET_EVENT, timeout, refusal)

    async def plain(self) -> T:
        """Wait; nothing is recorded."""
        kernel = self._kernel
        until_ms = None
        if self._timeout_s is not None:
            until_ms = kernel.time.now_ms() + to_ms(self._timeout_s)
        row = await self._wait(kernel, Limit(until_ms, None), None)
        if row is None:
            return cast("T", None)
        return self._codec(kernel).decode(row.value, row.serialization)

    async def perform(self, run: Run) -> T:
        """Wait, record what was found, and return it."""
        kernel = run.kernel
        started_at_ms = kernel.time.now_ms()
        row = await self._wait(kernel, self.limit(run), run)
        output, label = ("null", PORTABLE_JSON) if row is None else (row.value, row.serialization)
        checkpoint = self.checkpoint(run, started_at_ms, output=output, serialization=label)
        standing = await kernel.journal.record(run, checkpoint)
        if standing is not None:
            return await self.replay(run, standing)
        if row is None:
            return cast("T", None)
        try:
            return self._codec(kernel).decode(output, label)
        except UndecodableValue as error:
            raise run.unreadable(self.known_id, error) from error

    async def replay(self, run: Run, row: StepRow) -> T:
        """What was found then."""
        if row.output == "null" and row.serialization == PORTABLE_JSON:
            return cast("T", None)
        try:
            return self._codec(run.kernel).decode(row.output, row.serialization)
        except UndecodableValue as error:
            raise run.unreadable(row.step_id, error) from error

    async def _wait(self, kernel: Kernel, limit: Limit, run: Run | None) -> EventRow | None:
        key = Key(self._workflow_id, self._key)
        interest = Interest(EVENT, self._workflow_id, self._key)
        with kernel.talk.signals.listening(interest) as ear:
            while True:
                ear.clear()
                rows = await kernel.retry(lambda: kernel.store.events([key]), "reading an event")
                if rows:
                    return rows[0]
                if run is not None and limit.row is not None:
                    await kernel.journal.record(run, limit.row)
                    limit = limit._replace(row=None)
                left_s = limit.left_s(kernel)
                if left_s is not None and left_s <= 0:
                    return None
                await heard(kernel, ear, left_s)

    def _codec(self, kernel: Kernel) -> ValueCodec[T]:
        return kernel.registry.serialization.value(self._type, f"event {self._key!r}")


@overload
def get_event(
    workflow_id: str, key: str, *, timeout: Duration | None = None
) -> GetEventCall[Any]: ...
@overload
def get_event(
    workflow_id: str, key: str, *, timeout: Duration | None = None, into: type[T]
) -> GetEventCall[T | None]: ...
def get_event(
    workflow_id: str, key: str, *, timeout: Duration | None = None, into: Any = Any
) -> GetEventCall[Any]:
    """The value a workflow published under a key, waited for; None when `timeout` is up.

    A workflow that does not exist yet may still publish it. In a workflow it is a step that records
    the value it found; `timeout=0` looks once.
    """
    return GetEventCall(None, workflow_id, key, timeout, into)


class GetEventsCall(DurableCall[Mapping[str, Any]]):
    """One look at everything a workflow published."""

    __slots__ = ("_kernel", "_workflow_id")

    def __init__(self, kernel: Kernel | None, workflow_id: str) -> None:
        refusal: PerdureError | None = None
        self._workflow_id = WorkflowId(workflow_id)
        try:
            self._kernel = kernel_here("get_events", kernel)
            self._workflow_id = checked_id(workflow_id)
        except PerdureError as error:
            refusal = error
        super().__init__(GET_EVENTS, refusal)

    async def plain(self) -> Mapping[str, Any]:
        """Read them."""
        kernel = self._kernel
        rows = await kernel.retry(
            lambda: kernel.store.events_of(self._workflow_id), "reading events"
        )
        value = kernel.registry.serialization.value
        return {
            row.key: value(Any, f"event {row.key!r}").decode(row.value, row.serialization)
            for row in rows
        }

    async def perform(self, run: Run) -> Mapping[str, Any]:
        """Read them, and record what they were."""
        started_at_ms = run.kernel.time.now_ms()
        found = await self.plain()
        text, _ = self._codec(run).encode(dict(found))
        checkpoint = self.checkpoint(run, started_at_ms, output=text, serialization=PORTABLE_JSON)
        standing = await run.kernel.journal.record(run, checkpoint)
        return found if standing is None else await self.replay(run, standing)

    async def replay(self, run: Run, row: StepRow) -> Mapping[str, Any]:
        """What they were then."""
        try:
            return self._codec(run).decode(row.output, row.serialization)
        except UndecodableValue as error:
            raise run.unreadable(row.step_id, error) from error

    def _codec(self, run: Run) -> ValueCodec[dict[str, Any]]:
        return run.kernel.registry.serialization.value(dict[str, Any], "events")


def get_events(workflow_id: str) -> GetEventsCall:
    """Everything a workflow published, by key; empty if there is nothing or no such workflow."""
    return GetEventsCall(None, workflow_id)


def checked_key(key: str) -> str:
    """A key that every database can store; raises `InvalidArgument` otherwise."""
    if not isinstance(key, str) or not key.strip() or "\x00" in key:
        raise InvalidArgument(f"key={key!r}: it must be a text that is not blank")
    return key
