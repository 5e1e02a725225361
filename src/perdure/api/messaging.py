"""Messages to workflows: sent from anywhere, received once, in order."""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast, overload

from perdure.api.call_options import checked_id
from perdure.api.options import checked_flag, checked_several
from perdure.api.values import checked_key, checked_topic, encoded
from perdure.api.waiting import (
    NOTHING,
    Limit,
    TimedCall,
    body_only,
    found,
    heard,
    is_plain,
    speaker_here,
)
from perdure.engine.context import TRACK, Track
from perdure.engine.journal import DurableCall
from perdure.engine.run import Run
from perdure.engine.signals import Interest
from perdure.engine.talk import Speaker
from perdure.errors import InvalidArgument, PerdureError, UnknownDestination, WorkflowError
from perdure.logic.durations import Duration
from perdure.model.answer import Answer, AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.talk import NewMessage, Receiving, Sending
from perdure.model.wire import PORTABLE_JSON, RECV, SEND, SEND_BULK
from perdure.model.workflow import StepRow
from perdure.ports.store.hints import MESSAGE
from perdure.serialization import ValueCodec

T = TypeVar("T")

SendAnswer = Answer[StepRow | frozenset[WorkflowId]]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of several that are sent together; the fields are those of `send`."""

    destination: str
    message: Any
    topic: str | None = None
    idempotency_key: str | None = None


class SendCall(DurableCall[None]):
    """One sending; in a workflow a step, recorded with the messages or not at all."""

    __slots__ = ("_messages", "_speaker", "_to_forks")

    def __init__(
        self,
        name: str,
        messages: Iterable[Message],
        *,
        to_forks: bool,
        speaker: Speaker | None = None,
    ) -> None:
        refusal: PerdureError | None = None
        self._messages: tuple[NewMessage, ...] = ()
        self._to_forks = to_forks
        try:
            self._speaker = speaker_here("send", speaker)
            self._messages = new_messages(self._speaker, messages)
            checked_flag("to_forks", to_forks)
        except PerdureError as error:
            refusal = error
        super().__init__(name, refusal, is_plain=is_plain(speaker))

    async def plain(self) -> None:
        """Send; nothing is recorded."""
        await post(self._speaker, self._messages, to_forks=self._to_forks)

    async def perform(self, run: Run) -> None:
        """Send and record it; what cannot be sent is recorded as the step's error."""
        caller = self.checkpoint(run, run.kernel.time.now_ms())
        journal, lane = run.kernel.journal, run.kernel.talk.sends
        item = Sending(self._messages, caller, self._to_forks)
        answer = await journal.submit(run, lane, item, self.known_id)
        missing = _told(self._speaker, self._messages, answer)
        if missing is not None:
            text = run.kernel.registry.serialization.errors.encode(missing)
            row = caller._replace(error=text, serialization=PORTABLE_JSON)
            standing = await journal.record(run, row)
            if standing is None:
                raise missing
            await self.replay(run, standing)
        elif answer.kind is AnswerKind.CONFLICT:
            other = answer.standing if isinstance(answer.standing, StepRow) else None
            await self.replay(run, await journal.adopt(run, self.known_id, self.name, other))

    async def replay(self, run: Run, row: StepRow) -> None:
        """It was sent, or could not be."""
        if row.error:
            raise run.error_of(row)


async def post(speaker: Speaker, messages: Sequence[NewMessage], *, to_forks: bool) -> None:
    """Send messages from outside of a body; raises `UnknownDestination`."""
    if not messages:
        return
    lane = speaker.sends
    await lane.room()
    answer = await lane.submit(Sending(tuple(messages), None, to_forks)).future
    missing = _told(speaker, messages, answer)
    if missing is not None:
        raise missing


def _told(
    speaker: Speaker, messages: Iterable[NewMessage], answer: SendAnswer
) -> WorkflowError | None:
    """Who waits here hears of it; the destinations that do not exist are an error."""
    if answer.kind is AnswerKind.CONFLICT and isinstance(answer.standing, frozenset):
        return UnknownDestination(min(answer.standing))
    for message in messages:
        speaker.signals.hear(f"{MESSAGE}{message.destination}::{message.topic}")
    return None


def new_messages(speaker: Speaker, messages: Iterable[Message]) -> tuple[NewMessage, ...]:
    """The rows of messages, checked before any is sent."""
    rows: list[NewMessage] = []
    seen: set[str] = set()
    for message in checked_several("messages", messages, "Messages"):
        if not isinstance(message, Message):
            raise InvalidArgument(f"send_bulk takes Message(...), not {message!r}")
        destination = checked_id(message.destination)
        key = message.idempotency_key
        first = secrets.token_hex(16) if key is None else checked_key(key, "idempotency_key")
        message_id = f"{first}::{destination}"
        if message_id in seen:
            raise InvalidArgument(
                f"two messages to {destination!r} have the idempotency key {key!r}"
            )
        seen.add(message_id)
        text = encoded(speaker, message.message, "message")
        topic = checked_topic(message.topic)
        rows.append(NewMessage(message_id, destination, topic, text, PORTABLE_JSON))
    return tuple(rows)


def send(
    destination: str,
    message: Any,
    topic: str | None = None,
    *,
    idempotency_key: str | None = None,
    to_forks: bool = False,
) -> SendCall:
    """Send a message to a workflow, which takes it with `recv`.

    In a workflow it is a step: sent once, whatever happens. In a step, or outside, it is sent each
    time; an `idempotency_key` makes repeats of it for one destination one message, for ever. With
    `to_forks` the workflows that were forked from the destination get it too. A value that is not
    of JSON's kinds, such as a dataclass, is written by its class, for `recv(into=...)` to read.
    Raises `UnknownDestination` if there is no such workflow; a finished one keeps it unread.

    >>> await send(order_id, {"approved": True}, "decision")
    """
    sent = [Message(destination, message, topic, idempotency_key)]
    return SendCall(SEND, sent, to_forks=to_forks)


def send_bulk(messages: Iterable[Message], *, to_forks: bool = False) -> SendCall:
    """Send several messages, all or none, in one step; see `send`."""
    return SendCall(SEND_BULK, messages, to_forks=to_forks)


class RecvCall(TimedCall[T]):
    """One wait for a message; taking it and recording that are one transaction."""

    __slots__ = ("_codec", "_topic")

    def __init__(self, topic: str | None, timeout: Duration | None, annotation: Any) -> None:
        refusal = body_only("recv")
        self._topic = ""
        if refusal is None:
            try:
                self._topic = checked_topic(topic)
                serialization = speaker_here("recv").serialization
                self._codec: ValueCodec[T] = serialization.value(annotation, "message")
            except PerdureError as error:
                refusal = error
        super().__init__(RECV, timeout, refusal)

    async def plain(self) -> T:
        """Never: a message that nothing records would be lost."""
        raise AssertionError("recv outside of a body is refused")

    async def perform(self, run: Run) -> T:
        """Take the oldest message of the topic, or wait for one until the time is up."""
        kernel, talk = run.kernel, run.kernel.talk
        started_at_ms = kernel.time.now_ms()
        limit = self.limit(run)
        interest = Interest(MESSAGE, run.workflow_id, self._topic)
        with talk.signals.listening(interest, is_patient=True) as ear:
            while True:
                ear.clear()
                row = await self._take(run, started_at_ms, limit)
                if row is not None:
                    return await self.replay(run, row)
                if limit.left_s(kernel) == 0:
                    return await self._nothing(run, started_at_ms)
                if limit.row is not None:
                    await kernel.journal.record(run, limit.row)
                    limit = limit._replace(row=None)
                await heard(talk, ear, limit.left_s(kernel))

    async def _take(self, run: Run, started_at_ms: int, limit: Limit) -> StepRow | None:
        """The step's record with the message in it, None if there was none."""
        journal, step_id, track = run.kernel.journal, self.known_id, TRACK.get()

        def late(answer: Answer[StepRow]) -> None:
            if track is not None and answer.standing is not None:
                track.took(step_id)

        item = Receiving(self._topic, self.checkpoint(run, started_at_ms), limit.row)
        answer = await journal.submit(run, run.kernel.talk.receives, item, step_id, late)
        row = answer.standing
        if answer.kind is AnswerKind.CONFLICT:
            row = await journal.adopt(run, step_id, self.name, row)
        if row is None:
            return None
        if track is not None:
            self.retrace(track, row)
        return row

    def retrace(self, track: Track, row: StepRow) -> None:
        """Code sees the message of a pending call when its scope ends, and only if it wins."""
        if track.is_leaf and not track.is_sealed:
            track.took(row.step_id)
        else:
            track.note(row.step_id)

    async def _nothing(self, run: Run, started_at_ms: int) -> T:
        output, label = NOTHING
        row = self.checkpoint(run, started_at_ms, output=output, serialization=label)
        standing = await run.kernel.journal.record(run, row)
        if standing is not None:
            return await self.replay(run, standing)
        return cast("T", None)

    async def replay(self, run: Run, row: StepRow) -> T:
        """The message that was taken, or None where there was none in time."""
        return cast("T", found(run, row.step_id, row.output, row.serialization, self._codec))


@overload
def recv(topic: str | None = None, *, timeout: Duration | None = None) -> RecvCall[Any]: ...
@overload
def recv(
    topic: str | None = None, *, timeout: Duration | None = None, into: type[T]
) -> RecvCall[T | None]: ...
def recv(
    topic: str | None = None, *, timeout: Duration | None = None, into: Any = Any
) -> RecvCall[Any]:
    """Take the oldest message of a topic, waiting for one; None when `timeout` is up.

    Only in a workflow's body. Messages of a topic come in the order in which they were sent, each
    once, also over restarts: the instant at which the time is up survives them. `timeout=0` looks
    once. `into` is what the message is read as, such as a dataclass; without it JSON's own kinds.

    >>> decision = await recv("decision", timeout=timedelta(days=1), into=Decision)
    """
    return RecvCall(topic, timeout, into)
