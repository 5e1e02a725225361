"""Looking at workflows."""

import sqlite3

from perdure.errors import ListingTooSlow, StatementTimeout
from perdure.model.ids import WorkflowId
from perdure.model.listing import (
    CountRequest,
    ListingRequest,
    StepCount,
    StepCountRequest,
    StepsRequest,
    StreamSummary,
    WorkflowCount,
)
from perdure.model.talk import MessageRow
from perdure.model.wire import NULL_TOPIC, STREAM_CLOSED
from perdure.model.workflow import StepRow, WorkflowRow
from perdure.store import compose, listed, rows
from perdure.store.sqlite.concern import Concern, packed
from perdure.store.sqlite.connection import Connection, Parameters
from perdure.store.sqlite.dialect import Dialect

_DIALECT = Dialect()


class Listing(Concern):
    """`ListingStore`."""

    async def list_workflows(self, wanted: ListingRequest) -> list[WorkflowRow]:
        """See `perdure.ports.store.ListingStore.list_workflows`."""
        composed = compose.list_workflows(wanted, self._application, _DIALECT)
        found = await self._looked_up(composed.text, composed.parameters)
        return [listed.listed_workflow(row, wanted) for row in found]

    async def count_workflows(self, wanted: CountRequest) -> list[WorkflowCount]:
        """See `perdure.ports.store.ListingStore.count_workflows`."""
        composed = compose.count_workflows(wanted, self._application, _DIALECT)
        found = await self._looked_up(composed.text, composed.parameters)
        return [listed.workflow_count(row, wanted.by) for row in found]

    async def count_steps(self, wanted: StepCountRequest) -> list[StepCount]:
        """See `perdure.ports.store.ListingStore.count_steps`."""
        asked = listed.counted_steps(wanted, self._application)._asdict()
        if asked["names"] is not None:
            asked["names"] = packed(asked["names"])
        found = await self._looked_up(self._queries["count_steps"], asked | {"limit": wanted.limit})
        return [listed.step_count(row) for row in found]

    async def list_descendants(self, workflow_id: WorkflowId, limit: int) -> list[WorkflowRow]:
        """See `perdure.ports.store.ListingStore.list_descendants`."""
        asked = {"id": workflow_id, "limit": limit}
        found = await self._looked_up(self._queries["descendants"], asked)
        return [rows.workflow_row(row) for row in found]

    async def list_ancestors(self, workflow_id: WorkflowId, limit: int) -> list[WorkflowRow]:
        """See `perdure.ports.store.ListingStore.list_ancestors`."""
        asked = {"id": workflow_id, "limit": limit}
        found = await self._looked_up(self._queries["ancestors"], asked)
        return listed.each_once(rows.workflow_row(row) for row in found)

    async def list_steps(self, wanted: StepsRequest) -> list[StepRow]:
        """See `perdure.ports.store.ListingStore.list_steps`."""
        asked = {
            "id": wanted.workflow_id,
            "after": wanted.after,
            "limit": wanted.limit,
            "outputs": wanted.with_outputs,
        }
        found = await self._looked_up(self._queries["steps_page"], asked)
        return [rows.step_row(row) for row in found]

    async def list_messages(
        self, workflow_id: WorkflowId, limit: int, *, is_unread: bool
    ) -> list[MessageRow]:
        """See `perdure.ports.store.ListingStore.list_messages`."""
        asked = {"id": workflow_id, "limit": limit, "unread": is_unread, "default": NULL_TOPIC}
        found = await self._looked_up(self._queries["messages_of"], asked)
        return [listed.message_row(row) for row in found]

    async def list_streams(self, workflow_id: WorkflowId) -> list[StreamSummary]:
        """See `perdure.ports.store.ListingStore.list_streams`."""
        asked = {"id": workflow_id, "end": STREAM_CLOSED}
        found = await self._looked_up(self._queries["streams_of"], asked)
        return [listed.stream_summary(row) for row in found]

    async def _looked_up(self, text: str, parameters: Parameters) -> list[sqlite3.Row]:
        def work(connection: Connection) -> list[sqlite3.Row]:
            return connection.rows(text, parameters)

        try:
            return await self._database.read(work)
        except StatementTimeout as error:
            raise ListingTooSlow(self._access.settings.statement_timeout_s) from error
