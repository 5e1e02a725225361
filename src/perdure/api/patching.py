"""Changing the code of workflows that are under way: markers say which runs have the new code.

Whether a marker stands is known when the call is built, for the history has been read by then: a
call that has none takes no step id, so that all ids after it are those of the old code.
"""

from typing import ClassVar, Final

from perdure.api.options import checked_text
from perdure.api.waiting import body_only
from perdure.engine.context import PLACE, TRACK, Branch
from perdure.engine.journal import DurableCall, PendingCall, current_task
from perdure.engine.run import Run
from perdure.errors import PerdureError
from perdure.logic.numbering import Numbering
from perdure.model.ids import StepId
from perdure.model.wire import PATCH_PREFIX
from perdure.model.workflow import StepRow


class PatchCall(DurableCall[bool]):
    """A marker that stands, or is to: its record has a name and nothing else."""

    __slots__ = ()

    async def plain(self) -> bool:
        """What has no history has the new code."""
        return True

    async def perform(self, run: Run) -> bool:
        """Write the marker; a run that did so takes the new way at every replay."""
        row = self.checkpoint(run, run.kernel.time.now_ms())
        await run.kernel.journal.record(run, row)
        return True

    async def replay(self, run: Run, row: StepRow) -> bool:
        """It stands."""
        del run, row
        return True


class UnmarkedCall(DurableCall[bool]):
    """No marker stands here, and none is written."""

    __slots__ = ()

    is_recorded: ClassVar[bool] = False

    async def plain(self) -> bool:
        """There is none."""
        return False

    async def perform(self, run: Run) -> bool:
        """The same."""
        del run
        return False


def patch(name: str) -> PendingCall[bool]:
    """Whether the run has the new code from here on: true unless it went on from here before.

    A run that comes here for the first time records that in a step named after the patch. One that
    was begun with the old code, and has recorded anything after this place, goes the old way. A run
    meets other code only where the version stays the same, as it does by default. When no run of
    the old code is left, replace it by `deprecate_patch`, and remove that when no run with a marker
    is left. Outside a workflow it is true; inside a step it raises `WrongPlace`.

    >>> if await patch("tax-service"):
    ...     tax = await tax_of(order)
    ... else:
    ...     tax = await old_tax_of(order)
    """
    call, refusal = _checked("patch", name)
    if refusal is None and _went_on_unmarked(call):
        return UnmarkedCall(call)
    return PatchCall(call, refusal)


def deprecate_patch(name: str) -> PendingCall[bool]:
    """Say where a patch was whose old code is gone, while runs that recorded it may be left.

    It never records anything, and says whether this run has the marker.

    >>> await deprecate_patch("tax-service")
    """
    call, refusal = _checked("deprecate_patch", name)
    if refusal is not None or _stands(call):
        return PatchCall(call, refusal)
    return UnmarkedCall(call)


def _checked(what: str, name: str) -> tuple[str, PerdureError | None]:
    """The name of the marker, and why there can be none here."""
    marker = f"{PATCH_PREFIX}{checked_text('name', name)}"
    return marker, None if PLACE.get() is None else body_only(what)


_NOTHING: Final[dict[StepId, StepRow]] = {}


def _place(marker: str) -> tuple[Numbering, dict[StepId, StepRow]] | None:
    """The ids and the history of the calling code; None where it can take no id."""
    place = PLACE.get()
    if type(place) is not Branch or type(place.numbering) is not Numbering:
        return None
    if current_task(marker, place) is not place.task:
        return None
    return place.numbering, place.run.history or _NOTHING


def _stands(marker: str) -> bool:
    """Whether the marker is recorded here; outside a workflow there is none."""
    at = _place(marker)
    if at is None:
        return False
    numbering, history = at
    row = history.get(StepId(numbering.upcoming))
    return row is not None and row.name == marker


def _went_on_unmarked(marker: str) -> bool:
    """Whether the run has recorded something from here on, and not the marker.

    What is recorded out of order, by calls that were under way together, may begin further on. A
    branch that has decided its scope recorded nothing more, and its scope went on.
    """
    at = _place(marker)
    if at is None:
        return False
    numbering, history = at
    row = history.get(StepId(numbering.upcoming))
    if row is not None:
        return row.name != marker
    track = TRACK.get()
    return (track is not None and track.is_sealed) or any(map(numbering.is_ahead, history))
