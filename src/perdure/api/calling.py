"""Calls of workflows: to start one, and to wait for its result as well."""

from typing import TypeVar

from perdure.api.debouncing import DebounceCall
from perdure.api.handle import ResultCall
from perdure.api.starting import Prepared, StartCall
from perdure.engine.journal import PendingCall
from perdure.errors import PerdureError

R = TypeVar("R")


def start_call(name: str, start: Prepared | PerdureError) -> StartCall[R] | DebounceCall[R]:
    """The call that starts a workflow, debounced or not."""
    if isinstance(start, Prepared) and start.plan.options.placement.debounce is not None:
        return DebounceCall(name, start)
    return StartCall(name, start)


class RunCall(PendingCall[R]):
    """One run: a start and the wait for its result, with two ids inside a workflow."""

    __slots__ = ("_result", "_start")

    def __init__(self, name: str, start: Prepared | PerdureError) -> None:
        self._start: StartCall[R] | DebounceCall[R] = start_call(name, start)
        refusal = self._start.refusal
        self._result: ResultCall[R] = ResultCall(None, refusal=refusal)
        super().__init__(self._start.name, self._start.step_id)

    async def _drive(self) -> R:
        handle = await self._start
        self._result.target = handle.target
        return await self._result

    def spend(self) -> None:
        """See `PendingCall.spend`."""
        self._start.spend()
        self._result.spend()
