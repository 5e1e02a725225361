"""All that decides when a workflow runs."""

from sqlite3 import Row
from typing import Any

from msgspec.structs import replace

from perdure.model.circumstances import Circumstances, Share
from perdure.model.ids import WorkflowId
from perdure.model.queue import QueueLimits, QueueRow, Usage
from perdure.model.workflow import WorkflowRow
from perdure.store import rows
from perdure.store.sqlite.concern import Access
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.instants import wall_clock_ms
from perdure.store.sqlite.queues import registered_queue
from perdure.store.sqlite.usage import Usages

MOST_AHEAD = 1000


def read_circumstances(
    connection: Connection, access: Access, workflow_id: WorkflowId
) -> Circumstances | None:
    """Read them inside of a snapshot; None if there is no such workflow."""
    found = connection.row(access.queries["workflow"], {"id": workflow_id})
    if found is None:
        return None
    row = rows.workflow_row(found)
    application = row.application_name or access.application
    return _Reader(connection, access, application).circumstances(row)


class _Reader:
    """Reads what is of one application, at one instant."""

    def __init__(self, connection: Connection, access: Access, application: str | None) -> None:
        self._connection = connection
        self._queries = access.queries
        self._application = application
        self._now_ms = wall_clock_ms(access.clock)
        self._usages = Usages(connection.rows, access.queries, application, self._now_ms)

    def circumstances(self, row: WorkflowRow) -> Circumstances:
        name, key = row.queue_name, row.partition_key
        queue: QueueRow | None = None
        running: tuple[Share, ...] = ()
        partition_running: tuple[Share, ...] = ()
        usage = partition_usage = Usage()
        ahead = 0
        if name is not None:
            queue = registered_queue(self._connection, self._queries, name, self._application)
            limits = queue.settings.limits if queue is not None else QueueLimits()
            running = self._running(name, None)
            usage = _counted(self._usages.of_queue(name, limits), running)
            ahead = self._ahead(name, row)
            if key is not None:
                partition_running = self._running(name, key)
                of_key = self._usages.of_partitions(name, limits, [key])[key]
                partition_usage = _counted(of_key, partition_running)
        versions = self._found("versions")
        processes = self._found("processes", now=self._now_ms)
        return Circumstances(
            now_ms=self._now_ms,
            row=row,
            queue=queue,
            running=running,
            usage=usage,
            partition_running=partition_running,
            partition_usage=partition_usage,
            ahead=ahead,
            processes=tuple(map(rows.process_seen, processes)),
            latest_version=versions[0]["version_name"] if versions else None,
        )

    def _running(self, name: str, partition_key: str | None) -> tuple[Share, ...]:
        found = self._found("running_by_executor", queue=name, partition=partition_key)
        return tuple((row["executor_id"], row["running"]) for row in found)

    def _ahead(self, name: str, row: WorkflowRow) -> int:
        (found,) = self._found(
            "ahead_in_queue",
            queue=name,
            priority=row.priority,
            created=row.created_at_ms,
            id=row.workflow_id,
            most=MOST_AHEAD,
        )
        ahead: int = found["ahead"]
        return ahead

    def _found(self, query: str, **asked: Any) -> list[Row]:
        parameters = {"application": self._application, **asked}
        return self._connection.rows(self._queries[query], parameters)


def _counted(usage: Usage, running: tuple[Share, ...]) -> Usage:
    """The usage with the number of PENDING workflows, whether or not a limit binds it."""
    return replace(usage, pending=sum(count for _, count in running))
