"""Looking at workflows."""

import asyncio
from typing import Any

from perdure.errors import DatabaseUnavailable, ListingTooSlow, StatementTimeout
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
from perdure.store.postgres.concern import Access, Concern
from perdure.store.postgres.dialect import Dialect
from perdure.store.postgres.lanes import Record


class Listing(Concern):
    """`ListingStore`."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._dialect = Dialect(access.database.settings.schema)

    async def list_workflows(self, wanted: ListingRequest) -> list[WorkflowRow]:
        """See `perdure.ports.store.ListingStore.list_workflows`."""
        composed = compose.list_workflows(wanted, self._application, self._dialect)
        found = await self._looked_up(composed.text, *composed.parameters)
        return [listed.listed_workflow(row, wanted) for row in found]

    async def count_workflows(self, wanted: CountRequest) -> list[WorkflowCount]:
        """See `perdure.ports.store.ListingStore.count_workflows`."""
        composed = compose.count_workflows(wanted, self._application, self._dialect)
        found = await self._looked_up(composed.text, *composed.parameters)
        return [listed.workflow_count(row, wanted.by) for row in found]

    async def count_steps(self, wanted: StepCountRequest) -> list[StepCount]:
        """See `perdure.ports.store.ListingStore.count_steps`."""
        asked = listed.counted_steps(wanted, self._application)
        found = await self._looked_up(self._database.queries["count_steps"], *asked, wanted.limit)
        return [listed.step_count(row) for row in found]

    async def list_descendants(self, workflow_id: WorkflowId, limit: int) -> list[WorkflowRow]:
        """See `perdure.ports.store.ListingStore.list_descendants`."""
        found = await self._looked_up(self._database.queries["descendants"], workflow_id, limit)
        return [rows.workflow_row(row) for row in found]

    async def list_ancestors(self, workflow_id: WorkflowId, limit: int) -> list[WorkflowRow]:
        """See `perdure.ports.store.ListingStore.list_ancestors`."""
        found = await self._looked_up(self._database.queries["ancestors"], workflow_id, limit)
        return listed.each_once(rows.workflow_row(row) for row in found)

    async def list_steps(self, wanted: StepsRequest) -> list[StepRow]:
        """See `perdure.ports.store.ListingStore.list_steps`."""
        found = await self._database.fetch("steps_page", *wanted)
        return [rows.step_row(row) for row in found]

    async def list_messages(
        self, workflow_id: WorkflowId, limit: int, *, is_unread: bool
    ) -> list[MessageRow]:
        """See `perdure.ports.store.ListingStore.list_messages`."""
        asked = workflow_id, limit, is_unread, NULL_TOPIC
        found = await self._looked_up(self._database.queries["messages_of"], *asked)
        return [listed.message_row(row) for row in found]

    async def list_streams(self, workflow_id: WorkflowId) -> list[StreamSummary]:
        """See `perdure.ports.store.ListingStore.list_streams`."""
        found = await self._looked_up(
            self._database.queries["streams_of"], workflow_id, STREAM_CLOSED
        )
        return [listed.stream_summary(row) for row in found]

    async def _looked_up(self, text: str, *parameters: Any) -> list[Record]:
        settings, loop = self._database.settings, asyncio.get_running_loop()
        limit_s, began_s = settings.statement_timeout_s, loop.time()
        try:
            return await self._database.fetch_text(text, *parameters)
        except DatabaseUnavailable as error:
            # Behind a pooler the server knows no limit: the connection is given up instead.
            late = settings.through_pooler and loop.time() - began_s >= limit_s
            if late or isinstance(error, StatementTimeout):
                raise ListingTooSlow(limit_s) from error
            raise
