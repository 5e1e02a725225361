"""Waiting for several workflows at once."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from perdure.api.call_options import checked_id
from perdure.api.handle import WorkflowHandle
from perdure.api.waiting import kernel_here
from perdure.engine.journal import DurableCall
from perdure.engine.kernel import Kernel
from perdure.engine.run import Run
from perdure.errors import InvalidArgument, PerdureError
from perdure.model.ids import WorkflowId
from perdure.model.wire import PORTABLE_JSON, WAIT_FIRST
from perdure.model.workflow import StepRow

Reference = str | WorkflowHandle[Any]
"""A workflow by its id or by a handle."""


class FirstCall(DurableCall[WorkflowId]):
    """One wait for the first of several workflows to end; in a workflow it is a step."""

    __slots__ = ("_ids", "_kernel")

    waits: ClassVar[bool] = True

    def __init__(self, workflows: Sequence[Reference], kernel: Kernel | None = None) -> None:
        refusal: PerdureError | None = None
        self._ids: list[WorkflowId] = []
        try:
            self._kernel = kernel_here("select_workflow", kernel)
            self._ids = [_id_of(each) for each in workflows]
        except PerdureError as error:
            refusal = error
        super().__init__(WAIT_FIRST, refusal)

    async def plain(self) -> WorkflowId:
        """Wait; nothing is recorded."""
        if not self._ids:
            raise InvalidArgument("select_workflow needs at least one workflow")
        return await self._kernel.waiter.first(self._ids)

    async def perform(self, run: Run) -> WorkflowId:
        """Wait, and record which one it was, or that there was none to wait for."""
        started_at_ms = run.kernel.time.now_ms()
        registry = run.kernel.registry.serialization
        refusal: InvalidArgument | None = None
        output = error = None
        first = WorkflowId("")
        try:
            first = await self.plain()
            output, _ = registry.value(str, "the first workflow").encode(first)
        except InvalidArgument as none:
            refusal = none
            error = registry.errors.encode(none)
        row = self.checkpoint(
            run, started_at_ms, output=output, error=error, serialization=PORTABLE_JSON
        )
        standing = await run.kernel.journal.record(run, row)
        if standing is not None:
            return await self.replay(run, standing)
        if refusal is not None:
            raise refusal
        return first

    async def replay(self, run: Run, row: StepRow) -> WorkflowId:
        """Which one it was then; it must still be among them."""
        if row.error:
            raise run.error_of(row)
        codec = run.kernel.registry.serialization.value(str, "the first workflow")
        first = WorkflowId(codec.decode(row.output, row.serialization))
        if first not in self._ids:
            raise run.disagree(row.step_id, f"{self.name} of {', '.join(self._ids)}", row)
        return first


def select_workflow(workflows: Iterable[Reference]) -> FirstCall:
    """Wait until the first of several workflows has ended, however; returns its id.

    One shared wait, however many there are. Ids of workflows that do not exist are waited for. In a
    workflow it is a step; the others go on.
    """
    return FirstCall(list(workflows))


async def join(workflows: Iterable[Reference]) -> None:
    """Wait until all of several workflows have ended, however; their results are for `result()`.

    One shared wait. It chooses nothing, so that it takes no step id.
    """
    kernel = kernel_here("join")
    await kernel.waiter.all([_id_of(each) for each in workflows])


def _id_of(reference: Reference) -> WorkflowId:
    if isinstance(reference, WorkflowHandle):
        return reference.workflow_id
    return checked_id(reference)
