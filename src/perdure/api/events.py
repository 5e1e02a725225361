"""Events: values a workflow publishes under keys, for whoever wants to know."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast, overload

from perdure.api.call_options import checked_id
from perdure.api.values import checked_key, encoded
from perdure.api.waiting import (
    NOTHING,
    Left,
    TimedCall,
    body_only,
    countdown,
    found,
    heard,
    is_plain,
    speaker_here,
)
from perdure.engine.journal import DurableCall
from perdure.engine.run import Run
from perdure.engine.signals import Interest
from perdure.engine.talk import Speaker
from perdure.errors import PerdureError, UndecodableValue
from perdure.logic.durations import Duration
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
                self._text = encoded(speaker_here("set_event"), value, f"event {key!r}")
            except PerdureError as error:
                refusal = error
        super().__init__(SET_EVENT, refusal)

    async def perform(self, run: Run) -> None:
        """Publish, and tell who waits after the commit."""
        kernel = run.kernel
        caller = self.checkpoint(run, kernel.time.now_ms())
        item = NewEvent(self._key, self._text, PORTABLE_JSON, caller)
        answer = await kernel.journal.submit(run, kernel.talk.events, item, self.known_id)
        if answer.kind is AnswerKind.CONFLICT:
            await kernel.journal.adopt(run, self.known_id, self.name, answer.standing)
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

    __slots__ = ("_at", "_codec", "_speaker")

    def __init__(
        self,
        speaker: Speaker | None,
        workflow_id: str,
        key: str,
        timeout: Duration | None,
        annotation: Any,
    ) -> None:
        refusal: PerdureError | None = None
        self._at = Key(WorkflowId(workflow_id), key)
        try:
            self._speaker = speaker_here("get_event", speaker)
            self._at = Key(checked_id(workflow_id), checked_key(key))
            self._codec: ValueCodec[T] = event_codec(self._speaker, key, annotation)
        except PerdureError as error:
            refusal = error
        super().__init__(GET_EVENT, timeout, refusal, is_plain=is_plain(speaker))

    async def plain(self) -> T:
        """Wait; nothing is recorded."""
        left_s = countdown(self._speaker.clock, self._timeout_s)
        is_patient = self._place is not None
        row = await event_row(self._speaker, self._at, left_s, is_patient=is_patient)
        if row is None:
            return cast("T", None)
        return self._codec.decode(row.value, row.serialization)

    async def perform(self, run: Run) -> T:
        """Wait, record what was found, and return it."""
        kernel = run.kernel
        started_at_ms = kernel.time.now_ms()
        limit = self.limit(run)

        async def begin_to_wait() -> None:
            if limit.row is not None:
                await kernel.journal.record(run, limit.row)

        row = await event_row(
            kernel.talk,
            self._at,
            lambda: limit.left_s(kernel),
            is_patient=True,
            begin_to_wait=begin_to_wait,
        )
        output, label = NOTHING if row is None else (row.value, row.serialization)
        checkpoint = self.checkpoint(run, started_at_ms, output=output, serialization=label)
        standing = await kernel.journal.record(run, checkpoint)
        if standing is not None:
            return await self.replay(run, standing)
        return self._found(run, output, label)

    async def replay(self, run: Run, row: StepRow) -> T:
        """What was found then."""
        return self._found(run, row.output, row.serialization)

    def _found(self, run: Run, text: str | None, label: str | None) -> T:
        return cast("T", found(run, self.known_id, text, label, self._codec))


def event_codec(speaker: Speaker, key: str, annotation: Any) -> ValueCodec[Any]:
    """How the value of an event is read."""
    return speaker.serialization.value(annotation, f"event {key!r}")


async def event_row(
    speaker: Speaker,
    key: Key,
    left_s: Left,
    *,
    is_patient: bool,
    begin_to_wait: Callable[[], Awaitable[None]] | None = None,
) -> EventRow | None:
    """The value under a key, waited for; None when the time is up."""
    interest = Interest(EVENT, *key)
    with speaker.signals.listening(interest, is_patient=is_patient) as ear:
        while True:
            ear.clear()
            rows = await speaker.ask(
                lambda: speaker.store.events([key]), "reading an event", is_patient=is_patient
            )
            if rows:
                return rows[0]
            if left_s() == 0:
                return None
            if begin_to_wait is not None:
                await begin_to_wait()
                begin_to_wait = None
            await heard(speaker, ear, left_s())


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
    the value it found; `timeout=0` looks once. `into` is what the value is read as.

    >>> progress = await get_event(order_id, "progress", timeout=5)
    """
    return GetEventCall(None, workflow_id, key, timeout, into)


class GetEventsCall(DurableCall[Mapping[str, Any]]):
    """One look at everything a workflow published."""

    __slots__ = ("_speaker", "_workflow_id")

    def __init__(self, speaker: Speaker | None, workflow_id: str) -> None:
        refusal: PerdureError | None = None
        self._workflow_id = WorkflowId(workflow_id)
        try:
            self._speaker = speaker_here("get_events", speaker)
            self._workflow_id = checked_id(workflow_id)
        except PerdureError as error:
            refusal = error
        super().__init__(GET_EVENTS, refusal, is_plain=is_plain(speaker))

    async def plain(self) -> Mapping[str, Any]:
        """Read them."""
        is_patient = self._place is not None
        return await all_events(self._speaker, self._workflow_id, is_patient=is_patient)

    async def perform(self, run: Run) -> Mapping[str, Any]:
        """Read them, and record what they were."""
        started_at_ms = run.kernel.time.now_ms()
        try:
            values = await self.plain()
        except UndecodableValue as error:
            raise run.unreadable(self.known_id, error) from error
        text, _ = self._codec(run).encode(dict(values))
        checkpoint = self.checkpoint(run, started_at_ms, output=text, serialization=PORTABLE_JSON)
        standing = await run.kernel.journal.record(run, checkpoint)
        return values if standing is None else await self.replay(run, standing)

    async def replay(self, run: Run, row: StepRow) -> Mapping[str, Any]:
        """What they were then."""
        try:
            return self._codec(run).decode(row.output, row.serialization)
        except UndecodableValue as error:
            raise run.unreadable(row.step_id, error) from error

    def _codec(self, run: Run) -> ValueCodec[dict[str, Any]]:
        return run.kernel.registry.serialization.value(dict[str, Any], "events")


async def all_events(
    speaker: Speaker, workflow_id: WorkflowId, *, is_patient: bool
) -> Mapping[str, Any]:
    """Everything a workflow published, by key."""
    rows = await speaker.ask(
        lambda: speaker.store.events_of(workflow_id), "reading events", is_patient=is_patient
    )
    return {
        row.key: event_codec(speaker, row.key, Any).decode(row.value, row.serialization)
        for row in rows
    }


def get_events(workflow_id: str) -> GetEventsCall:
    """Everything a workflow published, by key; empty if there is nothing or no such workflow."""
    return GetEventsCall(None, workflow_id)
