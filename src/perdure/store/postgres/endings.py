"""The ways out of PENDING that a run takes: finished, given back."""

from collections.abc import Collection, Sequence

from perdure.model.answer import BUSY, LOST, WRITTEN, Answer, AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.status import ACTIVE, WorkflowState
from perdure.model.wire import INTERNAL_QUEUE
from perdure.model.workflow import Finish, Outcome, Release
from perdure.store import rows
from perdure.store.postgres.batch import in_waves, packed, packed_list
from perdure.store.postgres.concern import Concern
from perdure.store.postgres.failures import DuplicateKey
from perdure.store.postgres.lanes import Record

_ENDED = frozenset(state.value for state in WorkflowState if state not in ACTIVE)


class Endings(Concern):
    """`RunStore.finish` and `release`."""

    async def finish(self, items: Sequence[Finish]) -> list[Answer[Outcome]]:
        """See `perdure.ports.store.RunStore.finish`."""
        if items and _all_different(items):
            return await self._finish(items)
        return await in_waves(items, _run, self._finish)

    async def _finish(self, items: Sequence[Finish]) -> list[Answer[Outcome]]:
        try:
            fenced = await self._fenced(items)
        except DuplicateKey:
            fenced = await self._fenced_of("finish_over", items)
        if fenced is None:
            return [WRITTEN] * len(items)
        standing = await self._standing(items, fenced)
        return [_finish_verdict(item, standing) for item in items]

    async def _fenced(self, items: Sequence[Finish]) -> Sequence[Sequence[str]] | None:
        """The (id, owner) of the runs that were ended, None if all were."""
        if len(items) > 1:
            return await self._fenced_of("finish", items)
        given = (*items[0], self._database.offset_ms)
        return None if await self._database.hot("finish", "finish_alone", *given) else []

    async def _fenced_of(
        self, query: str, items: Sequence[Finish]
    ) -> Sequence[Sequence[str]] | None:
        given = (*packed(items), self._database.offset_ms)
        (row,) = await self._database.hot("finish", query, *given)
        fenced: Sequence[Sequence[str]] | None = row["fenced"]
        return fenced

    async def release(self, items: Sequence[Release]) -> list[Answer[Outcome]]:
        """See `perdure.ports.store.RunStore.release`."""
        return await in_waves(items, _run, self._release)

    async def _release(self, items: Sequence[Release]) -> list[Answer[Outcome]]:
        given = [(*item[:3], int(item.give_back)) for item in items]
        (row,) = await self._database.fetch(
            "release", *packed(given, {2, 3}), self._database.offset_ms, INTERNAL_QUEUE
        )
        if row["fenced"] is None:
            return [WRITTEN] * len(items)
        standing = await self._standing(items, row["fenced"])
        return [_release_verdict(item, standing) for item in items]

    async def _standing(
        self, items: Sequence[Finish | Release], fenced: Sequence[Sequence[str]]
    ) -> dict[str, Record | None]:
        """What stands for each run that was not fenced; None where nothing does."""
        ids = {item.workflow_id for item in items} - {WorkflowId(run) for run, _ in fenced}
        found = await self._database.fetch("standing_outcomes", *packed_list(list(ids)))
        return dict.fromkeys(ids) | {row["workflow_uuid"]: row for row in found}


def _run(item: Finish | Release) -> tuple[WorkflowId]:
    return (item.workflow_id,)


def _all_different(items: Collection[Finish]) -> bool:
    return len({item.workflow_id for item in items}) == len(items)


def _finish_verdict(item: Finish, standing: dict[str, Record | None]) -> Answer[Outcome]:
    if item.workflow_id not in standing:
        return WRITTEN
    row = standing[item.workflow_id]
    if row is not None and row["status"] in _ENDED:
        return Answer(AnswerKind.MINE, rows.outcome(row))
    return _held_up(item, row)


def _release_verdict(item: Release, standing: dict[str, Record | None]) -> Answer[Outcome]:
    if item.workflow_id not in standing:
        return WRITTEN
    return _held_up(item, standing[item.workflow_id])


def _held_up(item: Finish | Release, row: Record | None) -> Answer[Outcome]:
    """BUSY if the run is still the item's, so that only a lock can have kept it, else LOST."""
    if row is None or row["status"] != WorkflowState.PENDING or row["owner_xid"] != item.owner:
        return LOST
    return BUSY
