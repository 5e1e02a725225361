"""Questions about workflows: plain outside of a workflow, and recorded steps inside."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, TypeVar

from perdure.api.pages import Page
from perdure.api.waiting import is_plain, speaker_here
from perdure.engine.journal import DurableCall
from perdure.engine.run import Run
from perdure.engine.talk import Speaker
from perdure.errors import PerdureError, UndecodableValue, WorkflowNotFound
from perdure.model.wire import PORTABLE_JSON
from perdure.model.workflow import StepRow
from perdure.serialization import ValueCodec

T = TypeVar("T")


class Shape(NamedTuple, Generic[T]):
    """How an answer is recorded: as a value of an annotation, packed and unpacked."""

    annotation: Any
    pack: Callable[[T], Any]
    unpack: Callable[[Any], T]


def plain_shape(annotation: Any) -> Shape[Any]:
    """The answer as it is."""
    return Shape(annotation, lambda answer: answer, lambda record: record)


def page_shape(row: Any, cursor: Any) -> Shape[Page[Any, Any]]:
    """A page of these rows with its cursor."""
    return Shape(
        tuple[list[row], cursor | None],
        lambda page: (list(page), page.next),
        lambda record: Page(*record),
    )


class QuestionCall(DurableCall[T]):
    """One look at the database; in a workflow it is a step that records what was seen."""

    __slots__ = ("_ask", "_shape")

    def __init__(
        self,
        name: str,
        speaker: Speaker,
        ask: Callable[[], Awaitable[T]],
        shape: Shape[T],
    ) -> None:
        refusal: PerdureError | None = None
        self._ask, self._shape = ask, shape
        try:
            speaker_here(name, speaker)
        except PerdureError as error:
            refusal = error
        super().__init__(name, refusal, is_plain=is_plain(speaker))

    async def plain(self) -> T:
        """Look."""
        return await self._ask()

    async def perform(self, run: Run) -> T:
        """Look, and record what was there, or that there was no such workflow."""
        started_at_ms = run.kernel.time.now_ms()
        output = error = missing = None
        try:
            answer = await self._ask()
            output, _ = self._codec(run).encode(self._shape.pack(answer))
        except WorkflowNotFound as refusal:
            missing = refusal
            error = run.kernel.registry.serialization.errors.encode(refusal)
        standing = await run.kernel.journal.record(
            run,
            self.checkpoint(
                run, started_at_ms, output=output, error=error, serialization=PORTABLE_JSON
            ),
        )
        if standing is not None:
            return await self.replay(run, standing)
        if missing is not None:
            raise missing
        return answer

    async def replay(self, run: Run, row: StepRow) -> T:
        """What was there then."""
        if row.error is not None:
            raise run.error_of(row)
        try:
            record = self._codec(run).decode(row.output, row.serialization)
        except UndecodableValue as error:
            raise run.unreadable(row.step_id, error) from error
        return self._shape.unpack(record)

    def _codec(self, run: Run) -> ValueCodec[Any]:
        return run.kernel.registry.serialization.value(self._shape.annotation, self.name)
