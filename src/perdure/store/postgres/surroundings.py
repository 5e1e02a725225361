"""What stands around one workflow and decides when it runs."""

from typing import Any, Final

from msgspec.structs import replace

from perdure.model.circumstances import Circumstances, Share
from perdure.model.ids import WorkflowId
from perdure.model.queue import QueueRow, Usage
from perdure.model.wire import INTERNAL_QUEUES
from perdure.model.workflow import WorkflowRow
from perdure.store import rows
from perdure.store.postgres.concern import Access
from perdure.store.postgres.lanes import Record, Transaction

AHEAD_COUNTED: Final = 1000
"""Up to which number those in front are counted."""


class Surroundings:
    """Reads inside one snapshot."""

    def __init__(self, access: Access, transaction: Transaction) -> None:
        self._queries = access.database.queries
        self._offset_ms = access.database.offset_ms
        self._application = access.application
        self._transaction = transaction

    async def of(self, workflow_id: WorkflowId) -> Circumstances | None:
        """Everything around the workflow, if it has a row."""
        found = await self._fetch("workflow", workflow_id)
        if not found:
            return None
        row = rows.workflow_row(found[0])
        application = row.application_name or self._application
        (now,) = await self._fetch("now", self._offset_ms)
        queue, usage = await self._usage_of_queue(row, application)
        running = await self._running(row, application, None)
        partition_running: tuple[Share, ...] = ()
        partition_usage = Usage()
        if row.partition_key is not None:
            partition_running = await self._running(row, application, row.partition_key)
            partition_usage = await self._usage_of_partition(row, application)
        processes = await self._fetch("processes", application, now["now_ms"])
        versions = await self._fetch("versions", application)
        return Circumstances(
            now_ms=now["now_ms"],
            row=row,
            queue=queue,
            running=running,
            usage=replace(usage, pending=_total(running)),
            partition_running=partition_running,
            partition_usage=replace(partition_usage, pending=_total(partition_running)),
            ahead=await self._ahead(row, application),
            processes=tuple(rows.process_seen(process) for process in processes),
            latest_version=versions[0]["version_name"] if versions else None,
        )

    async def _usage_of_queue(
        self, row: WorkflowRow, application: str | None
    ) -> tuple[QueueRow | None, Usage]:
        if row.queue_name is None or row.queue_name in INTERNAL_QUEUES:
            return None, Usage()
        found = await self._fetch("queue_usage", [row.queue_name], application, self._offset_ms)
        if not found:
            return None, Usage()
        return rows.queue_row(found[0]), rows.usage(found[0])

    async def _usage_of_partition(self, row: WorkflowRow, application: str | None) -> Usage:
        found = await self._fetch(
            "partition_usage",
            [row.queue_name],
            application,
            self._offset_ms,
            [row.partition_key],
        )
        return rows.usage(found[0]) if found else Usage()

    async def _running(
        self, row: WorkflowRow, application: str | None, partition_key: str | None
    ) -> tuple[Share, ...]:
        found = await self._fetch("running_by_executor", application, row.queue_name, partition_key)
        return tuple((share["executor_id"], share["running"]) for share in found)

    async def _ahead(self, row: WorkflowRow, application: str | None) -> int:
        (found,) = await self._fetch(
            "ahead_in_queue",
            application,
            row.queue_name,
            row.priority,
            row.created_at_ms,
            row.workflow_id,
            AHEAD_COUNTED,
        )
        ahead: int = found["ahead"]
        return ahead

    async def _fetch(self, query: str, *arguments: Any) -> list[Record]:
        return await self._transaction.fetch(self._queries[query], *arguments)


def _total(running: tuple[Share, ...]) -> int:
    return sum(count for _, count in running)
