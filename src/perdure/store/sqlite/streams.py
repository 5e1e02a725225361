"""Appending values to streams, and reading them."""

from collections.abc import Sequence

from perdure.model.answer import LOST, MINE, WRITTEN, Answer
from perdure.model.talk import Appending
from perdure.model.workflow import StepRow
from perdure.ports.store.streams import Reading, StreamPage
from perdure.store import rows
from perdure.store.sqlite.concern import Concern
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.steps import in_the_way, insert_step
from perdure.store.sqlite.transaction import Transaction


class Streams(Concern):
    """`StreamStore`."""

    async def append(self, items: Sequence[Appending]) -> list[Answer[StepRow]]:
        """See `perdure.ports.store.StreamStore.append`."""
        return await self._database.write(
            lambda transaction: [self._append(transaction, item) for item in items]
        )

    def _append(self, transaction: Transaction, item: Appending) -> Answer[StepRow]:
        queries = self._queries
        if item.caller is not None:
            obstacle = in_the_way(transaction, queries, item.caller)
            if obstacle is not None:
                return obstacle
            insert_step(transaction, queries, item.caller, self._application)
        else:
            logged = (item.workflow_id, item.append_id)
            if transaction.row(queries["logged_appends"], logged):
                return MINE
            if not transaction.row(queries["owned_run"], (item.workflow_id, item.owner)):
                return LOST
            transaction.change(queries["log_append"], logged)
        value = (item.key, item.value, item.step_id, item.serialization)
        transaction.change(queries["append"], (item.workflow_id, *value))
        return WRITTEN

    async def stream_pages(self, readings: Sequence[Reading]) -> list[StreamPage]:
        """See `perdure.ports.store.StreamStore.stream_pages`."""

        def work(connection: Connection) -> list[StreamPage]:
            with connection.snapshot():
                return [self._page(connection, reading) for reading in readings]

        return await self._database.read(work)

    def _page(self, connection: Connection, reading: Reading) -> StreamPage:
        key = reading.key
        state = connection.row(self._queries["workflow_state"], {"id": key.workflow_id})
        found = connection.rows(
            self._queries["stream_pages"],
            {
                "id": key.workflow_id,
                "key": key.key,
                "first": reading.offset,
                "most": reading.limit,
            },
        )
        return StreamPage(
            tuple(map(rows.stream_row, found)),
            None if state is None else rows.awaited_state(state["status"]),
        )
