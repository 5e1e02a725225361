"""Publishing values under keys, and reading them."""

from collections.abc import Sequence

from perdure.model.answer import WRITTEN, Answer
from perdure.model.ids import StepId, WorkflowId
from perdure.model.talk import EventRow, Key, NewEvent
from perdure.model.workflow import StepRow
from perdure.store import rows
from perdure.store.sqlite.concern import Concern, packed
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.steps import in_the_way, insert_step
from perdure.store.sqlite.transaction import Transaction


class Events(Concern):
    """`EventStore`."""

    async def publish(self, items: Sequence[NewEvent]) -> list[Answer[StepRow]]:
        """See `perdure.ports.store.EventStore.publish`."""

        def work(transaction: Transaction) -> list[Answer[StepRow]]:
            latest: dict[Key, StepId] = {}
            return [self._publish(transaction, item, latest) for item in items]

        return await self._database.write(work)

    def _publish(
        self, transaction: Transaction, item: NewEvent, latest: dict[Key, StepId]
    ) -> Answer[StepRow]:
        """Write one; `latest` are the steps whose values of this batch are the present ones."""
        queries, step = self._queries, item.caller
        obstacle = in_the_way(transaction, queries, step)
        if obstacle is not None:
            return obstacle
        insert_step(transaction, queries, step, self._application)
        value = (item.key, item.value, item.serialization)
        transaction.change(
            queries["insert_event_history"], (step.workflow_id, step.step_id, *value)
        )
        key = Key(step.workflow_id, item.key)
        if latest.get(key, step.step_id) <= step.step_id:
            latest[key] = step.step_id
            transaction.change(queries["set_event"], (step.workflow_id, *value))
        return WRITTEN

    async def events(self, keys: Sequence[Key]) -> list[EventRow]:
        """See `perdure.ports.store.EventStore.events`."""
        asked = {"keys": packed(dict.fromkeys(keys))}
        return await self._read_events("events", asked)

    async def events_of(self, workflow_id: WorkflowId) -> list[EventRow]:
        """See `perdure.ports.store.EventStore.events_of`."""
        return await self._read_events("events_of", {"id": workflow_id})

    async def _read_events(self, query: str, asked: dict[str, str]) -> list[EventRow]:
        def work(connection: Connection) -> list[EventRow]:
            return [rows.event_row(row) for row in connection.rows(self._queries[query], asked)]

        return await self._database.read(work)
