"""Streams: values a workflow appends under keys, for readers who follow."""

import hashlib
from typing import Any, ClassVar, Generic, Self, TypeVar

from perdure.api.call_options import checked_id
from perdure.api.events import checked_key
from perdure.api.waiting import heard, kernel_here
from perdure.engine.context import PLACE, StepScope
from perdure.engine.journal import DurableCall
from perdure.engine.kernel import Kernel
from perdure.engine.run import Run
from perdure.engine.signals import Interest
from perdure.errors import (
    InvalidArgument,
    NotRunning,
    PerdureError,
    StreamTimeout,
    UndecodableValue,
    WorkflowError,
    WorkflowNotFound,
)
from perdure.logic.durations import Duration, seconds_of
from perdure.model.answer import AnswerKind
from perdure.model.status import ACTIVE
from perdure.model.talk import Appending, Key, StreamRow
from perdure.model.wire import (
    CLOSE_STREAM,
    PORTABLE_JSON,
    READ_STREAM,
    STREAM_CLOSED,
    WRITE_STREAM,
)
from perdure.model.workflow import StepRow
from perdure.ports.store.hints import STREAM
from perdure.ports.store.streams import Reading
from perdure.serialization import ValueCodec

T = TypeVar("T")

PAGE = 100
"""How many values a reader reads ahead."""


class AppendCall(DurableCall[None]):
    """One value appended to a stream of the workflow itself, in its body or in a step of it."""

    __slots__ = ("_key", "_text")

    def __init__(self, name: str, key: str, text: str, refusal: PerdureError | None) -> None:
        self._key, self._text = key, text
        if refusal is None and PLACE.get() is None:
            refusal = NotRunning(f"{name} was called outside a workflow: it has no stream to write")
        super().__init__(name, refusal)

    async def perform(self, run: Run) -> None:
        """Append and record it, then tell who reads."""
        checkpoint = self.checkpoint(run, run.kernel.time.now_ms())
        await self._append(
            run,
            Appending(
                run.workflow_id,
                run.owner,
                self.known_id,
                self._key,
                self._text,
                PORTABLE_JSON,
                caller=checkpoint,
            ),
        )

    async def plain(self) -> None:
        """Append from inside a step; an attempt that is made again finds it appended."""
        place = self._place
        if type(place) is not StepScope:
            raise AssertionError("outside of a workflow it is refused")
        run = place.run
        digest = hashlib.sha256(self._text.encode()).hexdigest()[:32]
        number = place.count_append()
        append_id = f"{place.step_id}:{self._key}:{number}:{digest}"
        await self._append(
            run,
            Appending(
                run.workflow_id,
                run.owner,
                place.step_id,
                self._key,
                self._text,
                PORTABLE_JSON,
                append_id=append_id,
            ),
        )

    async def _append(self, run: Run, item: Appending) -> None:
        kernel = run.kernel
        answer = await kernel.journal.submit(run, kernel.talk.appends, item, item.step_id)
        if answer.kind is AnswerKind.CONFLICT:
            raise run.disagree(item.step_id, self.name, answer.standing)
        kernel.talk.announcements.stream(Key(run.workflow_id, self._key))

    async def replay(self, run: Run, row: StepRow) -> None:
        """It was appended."""


def write_stream(key: str, value: Any) -> AppendCall:
    """Append a value to a stream of this workflow, for `read_stream` to follow.

    In a body it is a step: appended once. In a step each attempt appends; what an earlier attempt
    appended in the same place of the same step is not appended again.

    >>> await write_stream("tokens", "Hello")
    """
    try:
        checked = checked_key(key)
        kernel = kernel_here("write_stream")
        text, _ = kernel.registry.serialization.value(Any, f"stream {key!r}").encode(value)
    except PerdureError as refusal:
        return AppendCall(WRITE_STREAM, key, "", refusal)
    return AppendCall(WRITE_STREAM, checked, text, None)


def close_stream(key: str) -> AppendCall:
    """Say that nothing more follows in a stream of this workflow: its readers end there.

    A stream also ends when its workflow does.
    """
    try:
        return AppendCall(CLOSE_STREAM, checked_key(key), STREAM_CLOSED, None)
    except PerdureError as refusal:
        return AppendCall(CLOSE_STREAM, key, "", refusal)


class StreamReader(Generic[T]):
    """Follows one stream: an async iterator over its values, in the order they were written.

    It ends at the stream's close, or when the workflow has ended and every value was delivered.
    `offset` is that of the next value. In a workflow each value is a recorded step.
    """

    def __init__(
        self,
        kernel: Kernel | None,
        workflow_id: str,
        key: str,
        offset: int,
        timeout: Duration | None,
        annotation: Any,
    ) -> None:
        self.kernel = kernel_here("read_stream", kernel)
        self.workflow_id = checked_id(workflow_id)
        self.key = checked_key(key)
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            raise InvalidArgument(f"offset={offset!r}: values are counted from 0")
        self.offset = offset
        self.timeout_s = None if timeout is None else seconds_of(timeout, "timeout")
        self.codec: ValueCodec[T] = self.kernel.registry.serialization.value(
            annotation, f"value of stream {key!r}"
        )
        self._ahead: list[StreamRow] = []
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if self._is_over:
            raise StopAsyncIteration
        try:
            found = await ReadCall(self)
        except BaseException:
            self._is_over = True
            raise
        if found is None:
            self._is_over = True
            raise StopAsyncIteration
        return self.value(found.value, found.serialization)

    def value(self, text: str, serialization: str | None) -> T:
        """A value as it is read here; one that cannot be fails alone."""
        return self.codec.decode(text, serialization)

    async def next_row(self) -> StreamRow | None:
        """The row at the offset, waited for; None at the end of the stream."""
        kernel = self.kernel
        until_ms = None
        if self.timeout_s is not None:
            until_ms = kernel.time.now_ms() + self.timeout_s * 1000
        interest = Interest(STREAM, self.workflow_id, self.key, self.offset)
        with kernel.talk.signals.listening(interest) as ear:
            while True:
                ear.clear()
                row = await self._look()
                if row is not None:
                    return None if _is_close(row) else row
                if self._is_over:
                    return None
                left_s = None
                if until_ms is not None:
                    left_s = max(kernel.time.seconds_until(until_ms), 0.0)
                    if left_s <= 0:
                        raise StreamTimeout(self.workflow_id, self.key, self.timeout_s or 0)
                await heard(kernel, ear, left_s)

    async def _look(self) -> StreamRow | None:
        if self._ahead:
            return self._ahead[0]
        kernel = self.kernel
        reading = Reading(Key(self.workflow_id, self.key), self.offset, PAGE)
        (page,) = await kernel.retry(
            lambda: kernel.store.stream_pages([reading]), "reading a stream"
        )
        if page.state is None:
            raise WorkflowNotFound(self.workflow_id)
        self._ahead = list(page.rows)
        if not page.rows and page.state not in ACTIVE:
            self._is_over = True
        return self._ahead[0] if self._ahead else None

    def take(self) -> None:
        """The row at the offset was delivered."""
        if self._ahead:
            del self._ahead[0]
        self.offset += 1


class ReadCall(DurableCall["StreamRow | None"]):
    """One step of a reader: the next value, or None at the end."""

    __slots__ = ("_reader",)

    waits: ClassVar[bool] = True

    def __init__(self, reader: StreamReader[Any]) -> None:
        self._reader = reader
        super().__init__(READ_STREAM)

    async def plain(self) -> StreamRow | None:
        """Read it."""
        row = await self._reader.next_row()
        if row is not None:
            self._reader.take()
        return row

    async def perform(self, run: Run) -> StreamRow | None:
        """Read it, record it, and only then hand it out."""
        started_at_ms = run.kernel.time.now_ms()
        row: StreamRow | None = None
        failure: WorkflowError | None = None
        try:
            row = await self._reader.next_row()
        except (StreamTimeout, WorkflowNotFound) as error:
            failure = error
        if failure is not None:
            text = run.kernel.registry.serialization.errors.encode(failure)
            checkpoint = self.checkpoint(
                run, started_at_ms, error=text, serialization=PORTABLE_JSON
            )
        elif row is None:
            checkpoint = self.checkpoint(
                run, started_at_ms, output=STREAM_CLOSED, serialization=PORTABLE_JSON
            )
        else:
            checkpoint = self.checkpoint(
                run, started_at_ms, output=row.value, serialization=row.serialization
            )
        standing = await run.kernel.journal.record(run, checkpoint)
        if standing is not None:
            return await self.replay(run, standing)
        if failure is not None:
            raise failure
        if row is not None:
            self._reader.take()
        return row

    async def replay(self, run: Run, row: StepRow) -> StreamRow | None:
        """What was read then."""
        if row.error:
            raise run.error_of(row)
        found = StreamRow(self._reader.offset, row.output or "", row.serialization, row.step_id)
        if _is_close(found):
            return None
        try:
            self._reader.value(found.value, found.serialization)
        except UndecodableValue as error:
            raise run.unreadable(row.step_id, error) from error
        self._reader.take()
        return found


def _is_close(row: StreamRow) -> bool:
    """Whether the row ends the stream; other SDKs write it without the quotes of JSON."""
    return row.value in (STREAM_CLOSED, STREAM_CLOSED.strip('"'))


def read_stream(
    workflow_id: str,
    key: str,
    *,
    offset: int = 0,
    timeout: Duration | None = None,
    into: Any = Any,
) -> StreamReader[Any]:
    """Follow a stream of a workflow from `offset` on, as it is written.

    An async iterator; `timeout` bounds the wait for each value and raises `StreamTimeout`. A
    workflow that does not exist raises `WorkflowNotFound`. In a workflow each value is a step.

    >>> async for token in read_stream(workflow_id, "tokens"):
    ...     print(token, end="")
    """
    return StreamReader(None, workflow_id, key, offset, timeout, into)
