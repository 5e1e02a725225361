"""Waiting for several workflows at once."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeVar

from perdure.api.call_options import checked_id
from perdure.api.handle import WorkflowHandle
from perdure.api.options import checked_several
from perdure.api.running import RUNNING, check_loop
from perdure.engine.context import PLACE, Branch
from perdure.engine.desk import Desk
from perdure.engine.journal import DurableCall
from perdure.engine.run import Run
from perdure.engine.waiter import Waiter
from perdure.errors import InvalidArgument, PerdureError, WrongPlace
from perdure.model.ids import WorkflowId
from perdure.model.wire import PORTABLE_JSON, WAIT_FIRST
from perdure.model.workflow import StepRow

T_co = TypeVar("T_co", covariant=True)

Reference = str | WorkflowHandle[Any]
"""A workflow by its id or by a handle."""


class WaitCall(DurableCall[T_co]):
    """One wait for several workflows; `_ids` are theirs."""

    __slots__ = ("_ids", "_waiter")

    waits: ClassVar[bool] = True

    def __init__(self, name: str, workflows: Iterable[Reference]) -> None:
        refusal: PerdureError | None = None
        self._ids: list[WorkflowId] = []
        try:
            references = _several(workflows)
            self._waiter = _desk_of(name, references).waiter
            self._ids = [_id_of(each) for each in references]
        except PerdureError as error:
            refusal = error
        super().__init__(name, refusal)


class FirstCall(WaitCall[WorkflowId]):
    """One wait for the first of several workflows to end; in a workflow it is a step."""

    __slots__ = ()

    async def plain(self) -> WorkflowId:
        """Wait; nothing is recorded."""
        is_patient = self._place is not None
        return await first_of(self._waiter, self._ids, is_patient=is_patient)

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


class JoinCall(WaitCall[None]):
    """One wait for all of several workflows. It chooses nothing, so that it takes no step id."""

    __slots__ = ()

    is_recorded: ClassVar[bool] = False

    async def plain(self) -> None:
        """Wait."""
        await self._waiter.all(self._ids, is_patient=self._place is not None)

    async def perform(self, run: Run) -> None:
        """The same."""
        del run
        await self.plain()


def select_workflow(workflows: Iterable[Reference]) -> FirstCall:
    """Wait until the first of several workflows has ended, however; returns its id.

    One shared wait, however many there are. Ids of workflows that do not exist are waited for. In a
    workflow it is a step; the others go on.

    >>> first = await select_workflow([one, another])
    """
    return FirstCall(WAIT_FIRST, workflows)


def join(workflows: Iterable[Reference]) -> JoinCall:
    """Wait until all of several workflows have ended, however; their results are for `result()`.

    One shared wait, which takes no step id.
    """
    return JoinCall("join", workflows)


async def first_of(waiter: Waiter, ids: Sequence[WorkflowId], *, is_patient: bool) -> WorkflowId:
    """The first of these workflows to end."""
    if not ids:
        raise InvalidArgument("select_workflow needs at least one workflow")
    return await waiter.first(ids, is_patient=is_patient)


def ids_of(desk: Desk, workflows: Iterable[Reference]) -> list[WorkflowId]:
    """Their ids; raises `WrongPlace` for a handle of another engine or client."""
    references = _several(workflows)
    for each in references:
        if isinstance(each, WorkflowHandle) and each.target.desk is not desk:
            raise WrongPlace(f"{each!r} belongs to another engine or client; give its id")
    return [_id_of(each) for each in references]


def _desk_of(what: str, workflows: Sequence[Reference]) -> Desk:
    """The engine that waits: the run's, the handles', or the only one."""
    place = PLACE.get()
    own = None if place is None else place.run.kernel.desk
    of_handles = [each.target.desk for each in workflows if isinstance(each, WorkflowHandle)]
    if own is not None and (type(place) is Branch or not of_handles):
        desk = own
    else:
        desk = of_handles[0] if of_handles else RUNNING.only_one(what).desk
    if any(each is not desk for each in of_handles):
        raise WrongPlace(
            f"{what} waits for workflows of one engine; wait for those of another in a step of "
            "their own"
        )
    desk.speaker.check_open()
    check_loop(desk.speaker)
    return desk


def _several(workflows: Iterable[Reference]) -> list[Reference]:
    return checked_several("workflows", workflows, "ids or handles")


def _id_of(reference: Reference) -> WorkflowId:
    if isinstance(reference, WorkflowHandle):
        return reference.workflow_id
    return checked_id(reference)
