"""A system database under test, and simulated process starts on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from perdure.model.answer import Answer, AnswerKind
from perdure.model.ids import BootId, ExecutorId, WorkflowId
from perdure.model.lease import Beat, LeaseSeen, NewLease
from perdure.model.management import Cancel, Command, Managed
from perdure.model.queue import Load, QueueRow, QueueTurn, Swept
from perdure.model.wire import INTERNAL_QUEUES, PORTABLE_JSON
from perdure.model.workflow import (
    ClaimedRun,
    NewWorkflow,
    SharedClaim,
    StandingWorkflow,
    Start,
    WorkflowRow,
)
from perdure.ports.store import Store
from perdure.ports.store.leases import HeartbeatLink
from tests.support import rows
from tests.support.backdoor import Backdoor, PostgresBackdoor, Row
from tests.support.database import Database, MovableClock

SWEEP_LIMIT = 1000


def kinds(answers: Sequence[Answer[Any]]) -> list[AnswerKind]:
    """The answers without what they show."""
    return [answer.kind for answer in answers]


async def managed(store: Store, command: Command) -> Managed:
    """What comes of a command that no workflow gives."""
    answer = await store.manage(command)
    assert answer.kind is AnswerKind.WRITTEN
    assert isinstance(answer.standing, Managed)
    return answer.standing


async def cancel(store: Store, ids: Sequence[WorkflowId]) -> list[WorkflowId]:
    """Cancel these; the ids that were."""
    return list((await managed(store, Cancel(tuple(ids)))).ids)


@dataclass
class Process:
    """One process start: a store, a boot with its lease, and the link that renews it."""

    store: Store
    lease: NewLease
    link: HeartbeatLink

    @property
    def boot(self) -> BootId:
        """The boot id of this process start."""
        return self.lease.boot_id

    @property
    def executor(self) -> ExecutorId:
        """What this process start writes as `executor_id`."""
        return self.lease.executor_id

    @property
    def version(self) -> str:
        """The version this process start runs."""
        return self.lease.serves.version

    async def start(self, *items: Start | NewWorkflow) -> list[Answer[StandingWorkflow]]:
        """Start these items in one batch."""
        batch = [Start(item) if isinstance(item, NewWorkflow) else item for item in items]
        return await self.store.start(batch, self.executor)

    async def started(self, workflow: NewWorkflow) -> NewWorkflow:
        """Start one workflow that nothing stands against."""
        answers = await self.start(workflow)
        assert kinds(answers) == [AnswerKind.WRITTEN]
        return workflow

    async def running(self, workflow_id: str | None = None, **fields: Any) -> NewWorkflow:
        """A run this process has started directly and owns."""
        return await self.started(rows.direct(workflow_id, **fields))

    async def waiting(self, workflow_id: str | None = None, **fields: Any) -> NewWorkflow:
        """A workflow this process has enqueued."""
        return await self.started(rows.enqueued(workflow_id, **fields))

    async def claim(self, **fields: Any) -> list[ClaimedRun]:
        """Claim for this process, of queues that are registered now if they were not."""
        asked = {"version": self.version, **fields}
        request = rows.claim(self.executor, **asked)
        registered = {*INTERNAL_QUEUES, *(row.name for row in await self.store.queues())}
        for share in request.shares:
            if share.queue_name not in registered:
                await self.open_queue(share.queue_name)
        return await self.store.claim(request)

    async def open_queue(self, name: str = rows.QUEUE) -> None:
        """Register a queue without limits, unless one of that name stands."""
        settings = rows.queue(name)
        await self.store.register_queue(
            name, self.version, lambda standing, _: None if standing else settings
        )

    async def claim_shared(
        self, *queues: str | Load, limit: int = 100, **fields: Any
    ) -> SharedClaim:
        """Claim for this process under the limits of these queues, by default of `QUEUE`."""
        loads = [rows.load(queue) if isinstance(queue, str) else queue for queue in queues]
        asked = {"version": self.version, **fields}
        request = rows.shared_claim(
            self.executor, tuple(loads or [rows.load()]), limit=limit, **asked
        )
        return await self.store.claim_shared(request)

    async def turn(self, queue: str | Load = rows.QUEUE, **fields: Any) -> QueueTurn:
        """What a claim under its limits finds in that queue."""
        (turn,) = (await self.claim_shared(queue, **fields)).turns
        return turn

    async def managed(self, command: Command) -> Managed:
        """What comes of a command that no workflow gives."""
        return await managed(self.store, command)

    async def cancel(self, ids: Sequence[WorkflowId]) -> list[WorkflowId]:
        """Cancel these; the ids that were."""
        return await cancel(self.store, ids)

    async def queue(self, name: str = rows.QUEUE, **fields: Any) -> QueueRow:
        """Register a queue of these limits, whatever stands there."""
        settings = rows.queue(name, **fields)
        return await self.store.register_queue(name, self.version, lambda *_: settings)

    async def sweep(self, limit: int = SWEEP_LIMIT) -> Swept:
        """Sweep for this process."""
        return await self.store.sweep(limit)

    async def beat(self, **fields: Any) -> Beat:
        """Renew this process's lease and look around."""
        asked = {"queues": (rows.QUEUE,), "keys": (rows.KEY,), **fields}
        return await self.link.beat(self.lease, **asked)

    async def suspicion(self, other: Process | BootId) -> LeaseSeen | None:
        """What this process's next heartbeat says against that boot, if anything."""
        boot = other.boot if isinstance(other, Process) else other
        seen = [suspect for suspect in (await self.beat()).suspects if suspect.boot_id == boot]
        assert len(seen) <= 1
        return seen[0] if seen else None

    async def accuse(self, other: Process | BootId) -> LeaseSeen:
        """The same, where there must be something."""
        seen = await self.suspicion(other)
        assert seen is not None
        return seen


@dataclass
class Site:
    """One database, the clock all its stores share, and a way in behind their backs."""

    database: Database
    clock: MovableClock
    backdoor: Backdoor
    _stores: list[Store] = field(default_factory=list)
    _links: list[HeartbeatLink] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """`memory`, `sqlite` or `postgres`."""
        return self.database.kind

    @property
    def postgres(self) -> PostgresBackdoor:
        """The way in, where the database is a Postgres."""
        return cast("PostgresBackdoor", self.backdoor)

    async def store(self, application: str | None = "app") -> Store:
        """An open store of its own; of a database in memory there is only the first one."""
        if self.kind == "memory" and self._stores:
            return self._stores[0]
        store = await self.database.opened(application, self.clock)
        self._stores.append(store)
        return store

    async def process(
        self,
        store: Store | None = None,
        period_ms: int = rows.PERIOD_MS,
        version: str = rows.VERSION,
    ) -> Process:
        """A process start that holds its lease, by default on a store of its own."""
        store = store if store is not None else await self.store()
        lease = rows.lease(period_ms=period_ms, version=version)
        link = store.heartbeat_link()
        self._links.append(link)
        await link.open(lease)
        return Process(store, lease, link)

    def stranger(self, store: Store) -> Process:
        """A process start that never wrote a lease."""
        return Process(store, rows.lease(), store.heartbeat_link())

    async def close(self) -> None:
        """Close every link, store and connection."""
        for link in self._links:
            await link.close()
        for store in self._stores:
            await store.close()
        await self.backdoor.close()

    async def status(self, workflow_id: WorkflowId) -> Row:
        """The workflow's row, every column of it."""
        found = await self.backdoor.rows(
            "SELECT * FROM workflow_status WHERE workflow_uuid = ?", workflow_id
        )
        assert len(found) == 1, f"{len(found)} rows of {workflow_id}"
        return found[0]

    async def own(self, table: str) -> list[Row]:
        """Every row of that table of our own schema."""
        prefix = "" if self.kind == "postgres" else "perdure_"
        return await self.backdoor.rows(f"SELECT * FROM {prefix}{table}")

    async def pending(self, queue: str = rows.QUEUE) -> int:
        """How many rows of that queue are PENDING, whoever owns them."""
        (found,) = await self.backdoor.rows(
            "SELECT count(*) AS number FROM workflow_status"
            " WHERE status = 'PENDING' AND queue_name = ?",
            queue,
        )
        number: int = found["number"]
        return number

    async def exists(self, workflow_id: WorkflowId) -> bool:
        """Whether the workflow has a row."""
        return bool(
            await self.backdoor.rows(
                "SELECT 1 FROM workflow_status WHERE workflow_uuid = ?", workflow_id
            )
        )

    async def payload(self, table: str, workflow_id: WorkflowId) -> Row | None:
        """The workflow's row in `workflow_input` or `workflow_output`."""
        found = await self.backdoor.rows(
            f"SELECT * FROM {table} WHERE workflow_uuid = ?", workflow_id
        )
        return found[0] if found else None

    async def steps(self, workflow_id: WorkflowId) -> list[Row]:
        """The workflow's step rows in order, every column of them."""
        return await self.backdoor.rows(
            "SELECT * FROM operation_outputs WHERE workflow_uuid = ? ORDER BY function_id",
            workflow_id,
        )

    async def insert(self, table: str, **columns: Any) -> None:
        """Put a row there as another program would; columns not named take their defaults."""
        marks = ", ".join("?" * len(columns))
        await self.backdoor.run(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", *columns.values()
        )

    async def foreign(self, workflow_id: str | None = None, **columns: Any) -> WorkflowId:
        """A workflow row another program enqueued: the smallest one that may run."""
        chosen = rows.wid(workflow_id)
        values = {
            "workflow_uuid": chosen,
            "status": "ENQUEUED",
            "name": rows.KEY.name,
            "queue_name": rows.QUEUE,
            "serialization": PORTABLE_JSON,
            "created_at": await self._stores[0].now_ms(),
            **columns,
        }
        await self.insert("workflow_status", **values)
        return chosen

    async def update(self, workflow_id: WorkflowId, **columns: Any) -> None:
        """Change a workflow's row behind the store's back."""
        sets = ", ".join(f"{column} = ?" for column in columns)
        await self.backdoor.run(
            f"UPDATE workflow_status SET {sets} WHERE workflow_uuid = ?",
            *columns.values(),
            workflow_id,
        )

    async def read(self, workflow_id: WorkflowId) -> WorkflowRow:
        """The workflow as a listing shows it, payloads included."""
        (row,) = await self._stores[0].list_workflows(rows.by_ids(workflow_id))
        return row


@asynccontextmanager
async def open_site(database: Database, backdoor: Backdoor | None = None) -> AsyncIterator[Site]:
    """A site on that database, whose schema is made; everything is closed at the end."""
    site = Site(database, MovableClock(), backdoor or database.backdoor())
    try:
        yield site
    finally:
        await site.close()
