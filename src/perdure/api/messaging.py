"""Messages to workflows: sent from anywhere, received once, in order."""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast, overload

from perdure.api.call_options import checked_id
from perdure.api.waiting import Limit, TimedCall, body_only, heard, kernel_here
from perdure.engine.context import TRACK
from perdure.engine.journal import DurableCall
from perdure.engine.kernel import Kernel
from perdure.engine.run import Run
from perdure.engine.signals import Interest
from perdure.errors import (
    InvalidArgument,
    PerdureError,
    UndecodableValue,
    UnknownDestination,
    WorkflowError,
)
from perdure.logic.durations import Duration
from perdure.model.answer import Answer, AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.talk import NewMessage, Receiving, Sending
from perdure.model.wire import NULL_TOPIC, PORTABLE_JSON, RECV, SEND, SEND_BULK
from perdure.model.workflow import StepRow
from perdure.ports.store.hints import MESSAGE
from perdure.serialization import ValueCodec

T = TypeVar("T")

SendAnswer = Answer[StepRow | frozenset[WorkflowId]]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of several that are sent together."""

    destination: str
    message: Any
    topic: str | None = None
    idempotency_key: str | None = None


class SendCall(DurableCall[None]):
    """One sending; in a workflow a step, recorded with the messages or not at all."""

    __slots__ = ("_kernel", "_messages", "_to_forks")

    def __init__(
        self, name: str, messages: Sequence[Message], *, to_forks: bool, kernel: Kernel | None
    ) -> None:
        refusal: PerdureError | None = None
        self._messages: tuple[NewMessage, ...] = ()
        try:
            self._kernel = kernel_here("send", kernel)
            self._messages = _encoded(self._kernel, messages)
        except PerdureError as error:
            refusal = error
        self._to_forks = to_forks
        super().__init__(name, refusal)

    async def plain(self) -> None:
        """Send; nothing is recorded."""
        if not self._messages:
            return
        lane = self._kernel.talk.sends
        await lane.room()
        entry = lane.submit(Sending(self._messages, None, self._to_forks), _keep)
        missing = self._sent(await entry.future)
        if missing is not None:
            raise missing

    async def perform(self, run: Run) -> None:
        """Send and record it; what cannot be sent is recorded as the step's error."""
        caller = self.checkpoint(run, run.kernel.time.now_ms())
        journal, lane = run.kernel.journal, run.kernel.talk.sends
        item = Sending(self._messages, caller, self._to_forks)
        answer = await journal.submit(run, lane, item, self.known_id)
        missing = self._sent(answer)
        if missing is not None:
            text = run.kernel.registry.serialization.errors.encode(missing)
            row = caller._replace(error=text, serialization=PORTABLE_JSON)
            standing = await journal.record(run, row)
            if standing is not None:
                return await self.replay(run, standing)
            raise missing
        if answer.kind is AnswerKind.CONFLICT:
            standing = answer.standing if isinstance(answer.standing, StepRow) else None
            if standing is None or standing.name != self.name:
                raise run.disagree(self.known_id, self.name, standing)
            await self.replay(run, standing)
        return None

    async def replay(self, run: Run, row: StepRow) -> None:
        """It was sent, or could not be."""
        if row.error:
            raise run.error_of(row)

    def _sent(self, answer: SendAnswer) -> WorkflowError | None:
        """Who waits here hears of it; the destinations that do not exist are an error."""
        if answer.kind is AnswerKind.CONFLICT and isinstance(answer.standing, frozenset):
            return UnknownDestination(min(answer.standing))
        signals = self._kernel.talk.signals
        for message in self._messages:
            signals.hear(f"{MESSAGE}{message.destination}::{message.topic}")
        return None


def _keep(answer: Answer[Any]) -> None:
    """Marks an item as not to be withdrawn when its caller is cancelled."""


def _encoded(kernel: Kernel, messages: Sequence[Message]) -> tuple[NewMessage, ...]:
    """The rows of messages, checked before any is sent."""
    codec = kernel.registry.serialization.value(Any, "message")
    rows: list[NewMessage] = []
    seen: set[tuple[str, str]] = set()
    for message in messages:
        destination = checked_id(message.destination)
        key = message.idempotency_key
        if key is None:
            message_id = f"{secrets.token_hex(16)}::{destination}"
        else:
            if not isinstance(key, str) or not key.strip() or "\x00" in key:
                raise InvalidArgument(f"idempotency_key={key!r}: it must be a text not blank")
            if (key, destination) in seen:
                raise InvalidArgument(
                    f"two messages to {destination!r} have the idempotency key {key!r}"
                )
            seen.add((key, destination))
            message_id = f"{key}::{destination}"
        text, _ = codec.encode(message.message)
        rows.append(NewMessage(message_id, destination, _topic(message.topic), text, PORTABLE_JSON))
    return tuple(rows)


def _topic(topic: str | None) -> str:
    if topic is None:
        return NULL_TOPIC
    if not isinstance(topic, str) or "\x00" in topic:
        raise InvalidArgument(f"topic={topic!r}: it must be a text, or None for the default one")
    return topic


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
    `to_forks` the workflows that were forked from the destination get it too. Raises
    `UnknownDestination` if there is no such workflow; a finished one keeps it unread.

    >>> await send(order_id, {"approved": True}, "decision")
    """
    return send_on(None, [Message(destination, message, topic, idempotency_key)], to_forks=to_forks)


def send_bulk(messages: Iterable[Message], *, to_forks: bool = False) -> SendCall:
    """Send several messages, all or none, in one step."""
    return SendCall(SEND_BULK, list(messages), to_forks=to_forks, kernel=None)


def send_on(kernel: Kernel | None, messages: Sequence[Message], *, to_forks: bool) -> SendCall:
    """The same on one engine."""
    return SendCall(SEND, messages, to_forks=to_forks, kernel=kernel)


class RecvCall(TimedCall[T]):
    """One wait for a message; taking it and recording that are one transaction."""

    __slots__ = ("_topic", "_type")

    def __init__(self, topic: str | None, timeout: Duration | None, annotation: Any) -> None:
        refusal = body_only("recv")
        self._topic = NULL_TOPIC
        try:
            self._topic = _topic(topic)
        except PerdureError as error:
            refusal = error
        self._type = annotation
        super().__init__(RECV, timeout, refusal)

    async def plain(self) -> T:
        """Never: a message that nothing records would be lost."""
        raise AssertionError("recv outside of a body is refused")

    async def perform(self, run: Run) -> T:
        """Take the oldest message of the topic, or wait for one until the time is up."""
        kernel = run.kernel
        started_at_ms = kernel.time.now_ms()
        limit = self.limit(run)
        with kernel.talk.signals.listening(Interest(MESSAGE, run.workflow_id, self._topic)) as ear:
            while True:
                ear.clear()
                row = await self._take(run, started_at_ms, limit)
                if row is not None:
                    return await self.replay(run, row)
                if limit.row is not None:
                    await kernel.journal.record(run, limit.row)
                    limit = limit._replace(row=None)
                left_s = limit.left_s(kernel)
                if left_s is not None and left_s <= 0:
                    return await self._nothing(run, started_at_ms)
                await heard(kernel, ear, left_s)

    async def _take(self, run: Run, started_at_ms: int, limit: Limit) -> StepRow | None:
        """The step's record with the message in it, None if there was none."""
        item = Receiving(
            self._topic, self.checkpoint(run, started_at_ms, serialization=None), limit.row
        )
        track = TRACK.get()
        step_id = self.known_id

        def late(answer: Answer[StepRow]) -> None:
            if track is not None and answer.standing is not None:
                track.took(step_id)

        answer = await run.kernel.journal.submit(run, run.kernel.talk.receives, item, step_id, late)
        row = answer.standing
        if row is not None and row.name != self.name:
            raise run.disagree(step_id, self.name, row)
        if row is not None and track is not None and track.is_leaf:
            # Its code sees it when its scope ends, and only if it wins.
            track.took(step_id)
        return row

    async def _nothing(self, run: Run, started_at_ms: int) -> T:
        row = self.checkpoint(run, started_at_ms, output="null", serialization=PORTABLE_JSON)
        standing = await run.kernel.journal.record(run, row)
        if standing is not None:
            return await self.replay(run, standing)
        return cast("T", None)

    async def replay(self, run: Run, row: StepRow) -> T:
        """The message that was taken, or None where there was none in time."""
        if row.output == "null" and row.serialization == PORTABLE_JSON:
            return cast("T", None)
        codec: ValueCodec[T] = run.kernel.registry.serialization.value(self._type, "message")
        try:
            return codec.decode(row.output, row.serialization)
        except UndecodableValue as error:
            raise run.unreadable(row.step_id, error) from error


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
    once, also over restarts: the instant at which the time is up survives them. `into` is what the
    message is read as, such as a dataclass; without it JSON's own kinds.

    >>> decision = await recv("decision", timeout=timedelta(days=1), into=Decision)
    """
    return RecvCall(topic, timeout, into)
