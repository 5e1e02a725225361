"""Publishing values under keys, and reading them."""

from collections.abc import Hashable, Iterable, Sequence

from perdure.model.answer import Answer
from perdure.model.ids import WorkflowId
from perdure.model.talk import EventRow, Key, NewEvent
from perdure.model.workflow import StepRow
from perdure.store import rows
from perdure.store.postgres.batch import in_waves, packed
from perdure.store.postgres.concern import Concern
from perdure.store.postgres.steps import (
    CHECKPOINT_NUMBERS,
    recorded_answers,
    step_place,
    with_application,
)


class Events(Concern):
    """`EventStore`."""

    async def publish(self, items: Sequence[NewEvent]) -> list[Answer[StepRow]]:
        """See `perdure.ports.store.EventStore.publish`."""
        return await in_waves(items, _keys, self._publish)

    async def _publish(self, items: Sequence[NewEvent]) -> list[Answer[StepRow]]:
        values = [(*item.caller, item.key, item.value, item.serialization) for item in items]
        columns = with_application(
            packed(values, CHECKPOINT_NUMBERS), self._application, self._database.offset_ms
        )
        (row,) = await self._database.hot("publish", "publish", *columns)
        callers = [item.caller for item in items]
        return await recorded_answers(self._database, "publish", callers, row)

    async def events(self, keys: Sequence[Key]) -> list[EventRow]:
        """See `perdure.ports.store.EventStore.events`."""
        if not keys:
            return []
        asked = packed(list(dict.fromkeys(keys)))
        return [rows.event_row(row) for row in await self._database.kept("events", *asked)]

    async def events_of(self, workflow_id: WorkflowId) -> list[EventRow]:
        """See `perdure.ports.store.EventStore.events_of`."""
        found = await self._database.fetch("events_of", workflow_id)
        return [rows.event_row(row) for row in found]


def _keys(item: NewEvent) -> Iterable[Hashable]:
    yield step_place(item.caller)
