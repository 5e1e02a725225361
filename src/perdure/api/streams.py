"""Streams: values a workflow appends under keys, for readers who follow."""

import asyncio
import hashlib
from collections.abc import Awaitable
from itertools import product
from typing import Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar, overload

from perdure.api.call_options import checked_id
from perdure.api.values import checked_key, encoded
from perdure.api.waiting import countdown, heard, speaker_here
from perdure.engine.context import PLACE, Place, StepScope, describe
from perdure.engine.journal import DurableCall
from perdure.engine.run import Run
from perdure.engine.signals import Interest
from perdure.engine.talk import Speaker
from perdure.errors import (
    BuiltElsewhere,
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
from perdure.model.ids import WorkflowId
from perdure.model.status import ACTIVE
from perdure.model.talk import Appending, Key, StreamRow
from perdure.model.wire import (
    CLOSE_STREAM,
    PICKLED_STREAM_CLOSED,
    PORTABLE_JSON,
    PY_PICKLE,
    READ_STREAM,
    STREAM_CLOSED,
    WRITE_STREAM,
)
from perdure.model.workflow import StepRow
from perdure.ports.store.hints import STREAM
from perdure.ports.store.streams import Reading
from perdure.serialization import ValueCodec

T = TypeVar("T")

PAGE: Final = 100
"""How many values a reader reads ahead."""

_ENDLESS: Final = 2**63
"""No stream gets so far, and no database counts further."""


class AppendCall(DurableCall[None]):
    """One value appended to a stream of the workflow itself, in its body or in a step of it."""

    __slots__ = ("_key", "_text")

    def __init__(self, name: str, key: str, text: str, refusal: PerdureError | None) -> None:
        self._key, self._text = key, text
        super().__init__(name, refusal)

    async def perform(self, run: Run) -> None:
        """Append and record it, then tell who reads."""
        checkpoint = self.checkpoint(run, run.kernel.time.now_ms())
        item = Appending(
            run.workflow_id,
            run.owner,
            self.known_id,
            self._key,
            self._text,
            PORTABLE_JSON,
            caller=checkpoint,
        )
        await self._append(run, item)

    async def plain(self) -> None:
        """Append from inside a step; an attempt that is made again finds it appended."""
        place = self._place
        if type(place) is not StepScope:
            raise AssertionError("outside of a workflow it is refused")
        run = place.run
        digest = hashlib.sha256(f"{self._key}\0{self._text}".encode()).hexdigest()[:32]
        item = Appending(
            run.workflow_id,
            run.owner,
            place.step_id,
            self._key,
            self._text,
            PORTABLE_JSON,
            append_id=f"{place.step_id}:{place.count_append()}:{digest}",
        )
        await self._append(run, item)

    async def _append(self, run: Run, item: Appending) -> None:
        kernel = run.kernel
        answer = await kernel.journal.submit(run, kernel.talk.appends, item, item.step_id)
        if answer.kind is AnswerKind.CONFLICT:
            await kernel.journal.adopt(run, item.step_id, self.name, answer.standing)
        kernel.talk.announcements.stream(Key(run.workflow_id, self._key))

    async def replay(self, run: Run, row: StepRow) -> None:
        """It was appended."""


def write_stream(key: str, value: Any) -> AppendCall:
    """Append a value to a stream of this workflow, for `read_stream` to follow.

    In a body it is a step: appended once. In a step each attempt appends; what an earlier attempt
    appended in the same place of the same step is not appended again.

    >>> await write_stream("tokens", "Hello")
    """
    refusal = _outside(WRITE_STREAM)
    text = ""
    if refusal is None:
        try:
            checked_key(key)
            text = encoded(speaker_here("write_stream"), value, f"value of stream {key!r}")
            if _ends(text, PORTABLE_JSON):
                raise InvalidArgument(f"{value!r} stands for the end of a stream; use close_stream")
        except PerdureError as error:
            refusal = error
    return AppendCall(WRITE_STREAM, key, text, refusal)


def close_stream(key: str) -> AppendCall:
    """Say that nothing more follows in a stream of this workflow: its readers end there.

    A stream also ends when its workflow does.
    """
    refusal = _outside(CLOSE_STREAM)
    if refusal is None:
        try:
            checked_key(key)
        except PerdureError as error:
            refusal = error
    return AppendCall(CLOSE_STREAM, key, STREAM_CLOSED, refusal)


def _outside(what: str) -> PerdureError | None:
    if PLACE.get() is not None:
        return None
    return NotRunning(f"{what} was called outside a workflow: it has no stream to write")


def _ends(text: str, serialization: str | None) -> bool:
    """Whether a value, or the record of a read, is the end of its stream.

    Other SDKs write it without the quotes of JSON, or without a label, and Python records the end
    that it read as a pickle, which need not be loaded to be known.
    """
    return (text, serialization) in _ENDS


_ENDS: Final = frozenset(
    [
        *product((STREAM_CLOSED, STREAM_CLOSED.strip('"')), (PORTABLE_JSON, None, "")),
        *product(PICKLED_STREAM_CLOSED, (PY_PICKLE,)),
    ]
)


class _Position(NamedTuple):
    """How far a reader is."""

    offset: int
    is_over: bool


class StreamReader(Generic[T]):
    """Follows one stream: an async iterator over its values, in the order they were written.

    It ends at the stream's close, or when the workflow has ended and every value was delivered.
    In a workflow each value is a recorded step, and the reader belongs to the place it was made in.
    """

    def __init__(
        self,
        speaker: Speaker,
        key: Key,
        *,
        offset: int = 0,
        timeout: Duration | None = None,
        annotation: Any = Any,
    ) -> None:
        if type(offset) is not int or not 0 <= offset < _ENDLESS:
            raise InvalidArgument(f"offset={offset!r}: values are counted from 0, below 2**63")
        self._speaker = speaker
        self._key = Key(checked_id(key.workflow_id), checked_key(key.key))
        self._timeout_s = None if timeout is None else seconds_of(timeout, "timeout")
        what = f"value of stream {key.key!r}"
        self._codec: ValueCodec[T] = speaker.serialization.value(annotation, what)
        self._position = _Position(offset, is_over=False)
        self._ahead: list[StreamRow] = []
        self._turn = asyncio.Lock()
        self._place: Place | None = PLACE.get()

    @property
    def offset(self) -> int:
        """That of the next value: where another reader would go on."""
        return self._position.offset

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[T]:
        return self.read(is_patient=False)

    async def read(self, *, is_patient: bool) -> T:
        """The next value; raises `StopAsyncIteration` at the end. A patient one outlasts a stop."""
        _, row = await self.take(is_patient=is_patient)
        return self.handed_out(row)

    async def take(self, *, is_patient: bool) -> tuple[_Position, StreamRow | None]:
        """Where it was, and the row that is handed out there; None at the end."""
        async with self._turn:
            before = self._position
            row = await self.next_row(is_patient=is_patient)
            self.deliver(row)
        return before, row

    def misplaced(self) -> BuiltElsewhere | None:
        """Why it cannot be read here: branches share nothing, and a replay may drive one alone."""
        place = PLACE.get()
        if place is self._place:
            return None
        return BuiltElsewhere(
            f"a reader that was made {describe(self._place)} was asked {describe(place)} for a "
            "value; make another where it is read"
        )

    @property
    def turn(self) -> asyncio.Lock:
        """Held while a value is read, so that several at a time get different ones."""
        return self._turn

    @property
    def position(self) -> _Position:
        """How far it is."""
        return self._position

    def go_to(self, position: _Position) -> None:
        """Be so far, as if nothing beyond had been read."""
        self._position = position
        self._ahead.clear()

    def deliver(self, row: StreamRow | None) -> None:
        """That row is handed out, or None: there is no other. A rewind may have left a gap."""
        offset = self._position.offset if row is None else row.offset + 1
        self._position = _Position(offset, is_over=row is None)
        if self._ahead:
            del self._ahead[0]

    def handed_out(self, row: StreamRow | None) -> T:
        """What a read comes to."""
        if row is None:
            raise StopAsyncIteration
        return self.value(row.value, row.serialization)

    def value(self, text: str, serialization: str | None) -> T:
        """A value as it is read here; one that cannot be fails alone."""
        return self._codec.decode(text, serialization)

    async def next_row(self, *, is_patient: bool) -> StreamRow | None:
        """The row at the offset, waited for; None at the end. A failure is the reader's end."""
        if self._position.is_over:
            return None
        left_s = countdown(self._speaker.clock, self._timeout_s)
        interest = Interest(STREAM, *self._key, self._position.offset)
        try:
            with self._speaker.signals.listening(interest, is_patient=is_patient) as ear:
                while not self._ahead:
                    ear.clear()
                    if await self._look(is_patient=is_patient):
                        return None
                    if not self._ahead:
                        if left_s() == 0:
                            raise StreamTimeout(*self._key, self._timeout_s or 0.0)
                        await heard(self._speaker, ear, left_s())
        except PerdureError:
            self._position = self._position._replace(is_over=True)
            raise
        row = self._ahead[0]
        return None if _ends(row.value, row.serialization) else row

    async def _look(self, *, is_patient: bool) -> bool:
        """Read ahead; says whether nothing follows any more."""
        reading = Reading(self._key, self._position.offset, PAGE)
        speaker = self._speaker
        (page,) = await speaker.ask(
            lambda: speaker.store.stream_pages([reading]), "reading a stream", is_patient=is_patient
        )
        if page.state is None:
            raise WorkflowNotFound(self._key.workflow_id)
        self._ahead = list(page.rows)
        return not page.rows and page.state not in ACTIVE


class RecordedReader(StreamReader[T]):
    """A reader of an engine: in the body of a workflow each value is a step."""

    def __anext__(self) -> Awaitable[T]:
        return ReadCall(self)


class ReadCall(DurableCall[T]):
    """One step of a reader: the next value, or the end."""

    __slots__ = ("_before", "_reader")

    waits: ClassVar[bool] = True

    def __init__(self, reader: StreamReader[T]) -> None:
        self._reader = reader
        self._before: _Position | None = None
        super().__init__(READ_STREAM, reader.misplaced())

    def lose(self) -> None:
        """What was read at the moment in which another branch decided is read again."""
        if self._before is not None and self._before < self._reader.position:
            self._reader.go_to(self._before)

    async def plain(self) -> T:
        """Read it."""
        reader = self._reader
        self._before, row = await reader.take(is_patient=self._place is not None)
        return reader.handed_out(row)

    async def perform(self, run: Run) -> T:
        """Read it, record it, and only then hand it out."""
        started_at_ms = run.kernel.time.now_ms()
        reader = self._reader
        async with reader.turn:
            before = reader.position
            failure: WorkflowError | None = None
            output: str | None = STREAM_CLOSED
            label: str | None = PORTABLE_JSON
            error: str | None = None
            row: StreamRow | None = None
            try:
                row = await reader.next_row(is_patient=True)
            except (StreamTimeout, WorkflowNotFound) as refusal:
                failure, output = refusal, None
                error = run.kernel.registry.serialization.errors.encode(refusal)
            if row is not None:
                output, label = row.value, row.serialization
            checkpoint = self.checkpoint(
                run, started_at_ms, output=output, error=error, serialization=label
            )
            standing = await run.kernel.journal.record(run, checkpoint)
            self._before = before
            if standing is not None:
                reader.go_to(before)
                return await self.replay(run, standing)
            reader.deliver(row)
        if failure is not None:
            raise failure
        return self._found(run, output, label)

    async def replay(self, run: Run, row: StepRow) -> T:
        """What was read then."""
        self._before = self._reader.position
        is_end = row.error is not None or _ends(row.output or "", row.serialization)
        found = StreamRow(self._before.offset, row.output or "", row.serialization, row.step_id)
        self._reader.deliver(None if is_end else found)
        if row.error is not None:
            raise run.error_of(row)
        return self._found(run, row.output, row.serialization)

    def _found(self, run: Run, text: str | None, label: str | None) -> T:
        if _ends(text or "", label):
            raise StopAsyncIteration
        try:
            return self._reader.value(text or "", label)
        except UndecodableValue as error:
            raise run.unreadable(self.known_id, error) from error


def reader_on(
    speaker: Speaker | None,
    key: Key,
    offset: int,
    timeout: Duration | None,
    annotation: Any,
) -> StreamReader[Any]:
    """A reader through that engine, its run's, or the only one."""
    found = speaker_here("read_stream", speaker)
    kind = RecordedReader if found.records else StreamReader
    return kind(found, key, offset=offset, timeout=timeout, annotation=annotation)


@overload
def read_stream(
    workflow_id: str, key: str, *, offset: int = 0, timeout: Duration | None = None
) -> StreamReader[Any]: ...
@overload
def read_stream(
    workflow_id: str,
    key: str,
    *,
    offset: int = 0,
    timeout: Duration | None = None,
    into: type[T],
) -> StreamReader[T]: ...
def read_stream(
    workflow_id: str,
    key: str,
    *,
    offset: int = 0,
    timeout: Duration | None = None,
    into: Any = Any,
) -> StreamReader[Any]:
    """Follow a stream of a workflow from `offset` on, as it is written.

    An async iterator; `timeout` bounds the wait for each value and raises `StreamTimeout`, after
    which the reader has ended. A workflow that does not exist raises `WorkflowNotFound`. In a
    workflow each value is a step. `into` is what the values are read as.

    >>> async for token in read_stream(workflow_id, "tokens"):
    ...     print(token, end="")
    """
    return reader_on(None, Key(WorkflowId(workflow_id), key), offset, timeout, into)
