"""A client: puts workflows into queues, and looks at them, without running any."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from perdure.api.applications import RENAME_BATCH, checked_rename, rename_application
from perdure.api.call_options import EnqueueOptions, checked_id
from perdure.api.enqueue import Submission, enqueue_many_through, enqueue_through
from perdure.api.events import all_events, event_codec, event_row
from perdure.api.handle import Target, WorkflowHandle
from perdure.api.joining import Reference, first_of, ids_of
from perdure.api.management import Workflows
from perdure.api.messaging import Message, new_messages, post
from perdure.api.options import checked_flag
from perdure.api.queue import Queue
from perdure.api.queues import Operator, Queues
from perdure.api.running import check_loop
from perdure.api.streams import StreamReader
from perdure.api.values import checked_key
from perdure.api.versions import Versions
from perdure.api.waiting import countdown
from perdure.api.wiring import build_store
from perdure.config import EngineConfig, from_environment
from perdure.engine.committer import Retry
from perdure.engine.desk import Desk
from perdure.engine.intake import Intake, Submitter
from perdure.engine.outside import OutsideDesk
from perdure.engine.queues import RecentQueues
from perdure.engine.registry import DECORATED
from perdure.engine.services import Tasks
from perdure.engine.system import SystemClock, SystemIds
from perdure.engine.talk import Speaker
from perdure.engine.time import DatabaseTime
from perdure.errors import NotRunning
from perdure.logic.durations import Duration, seconds_of
from perdure.model.application import Moved
from perdure.model.ids import WorkflowId
from perdure.model.talk import Key
from perdure.ports.store import Store
from perdure.serialization import Serialization, Serializer

T = TypeVar("T")


class Client:
    """Access to the workflows and queues of a database, for programs that have none of their code.

    An async context manager. `url`, `schema` and `serializers` mean what they mean for `Engine`,
    and come from the environment in the same way. With `name` it acts for that application: it sees
    the workflows, queues and versions of that one and of none, and what it writes is that one's.
    Without, it sees those of all, and what it enqueues belongs to the first application that takes
    it. Nothing it does in a workflow is a step. While somebody waits for a workflow, an event or a
    stream it holds one connection more, on which it hears of them at once. Like an engine it
    belongs to the event loop in which it was opened. It creates nothing: where there is no system
    schema entering raises `SchemaMissing`, which says how to make one, and where there is no
    database `DatabaseUnavailable`.

    >>> async with Client("postgresql://localhost/shop") as client:
    ...     handle = await client.enqueue("convert", queue="media", args=("intro",))
    ...     print(await handle.result())
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        name: str | None = None,
        schema: str | None = None,
        serializers: Mapping[str, Serializer] | None = None,
    ) -> None:
        given = {"url": url, "name": name, "schema": schema}
        self._config = from_environment(given, os.environ)
        self._application = name
        self._serializers = dict(serializers or {})
        self._clock = SystemClock()
        self._ids = SystemIds()
        self._retry = Retry(self._clock, self._ids)
        self._desk: OutsideDesk | None = None
        self._intake: Intake | None = None
        self._submitter: Submitter | None = None

    @property
    def config(self) -> EngineConfig:
        """The settings in force."""
        return self._config

    @property
    def workflows(self) -> Workflows:
        """The workflows of the database; raises `NotRunning` on a client that is not open."""
        return Workflows(self._opened_desk(), records=False)

    @property
    def queues(self) -> Queues:
        """The queues of the database, to look at and to change; raises `NotRunning`."""
        return Queues(self._opened().store, self._retry, Operator(self._application))

    @property
    def versions(self) -> Versions:
        """The registered application versions; raises `NotRunning`."""
        return Versions(self._opened().store, self._retry, Operator(self._application))

    async def rename_application(
        self, old: str | None, new: str, *, unclaimed: bool = False, batch: int = RENAME_BATCH
    ) -> Moved:
        """Give what the application `old` owns on this database to `new`, and say what that was.

        Its queues, schedules, versions and the workflows that have not ended change hands at once;
        those that have, and steps, follow in transactions of `batch` workflows. Names are global,
        so that nothing collides. With `unclaimed` what no application owns goes to `new` as well;
        with `old` None only that. Raises `ApplicationRunning` while processes of `old` live. After
        a failure, say the same again.
        """
        speaker = self._opened()
        return await rename_application(
            speaker.store, speaker.retry, checked_rename(old, new, unclaimed=unclaimed), batch
        )

    async def enqueue(
        self,
        name: str,
        *,
        queue: Queue | str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        class_name: str = "",
        config_name: str = "",
        **options: Unpack[EnqueueOptions],
    ) -> WorkflowHandle[Any]:
        """Enqueue a workflow by the name its rows bear; see `Engine.enqueue`.

        It is run by the latest version of its application, unless `version` names another.
        """
        submission = Submission(
            name, args, {} if kwargs is None else kwargs, class_name, config_name
        )
        return await enqueue_through(self._opened_intake(), submission, queue, options)

    async def enqueue_many(
        self,
        submissions: Iterable[Submission],
        *,
        queue: Queue | str,
        **options: Unpack[EnqueueOptions],
    ) -> list[WorkflowHandle[Any]]:
        """Enqueue many workflows by name, in few statements; see `Engine.enqueue_many`."""
        return await enqueue_many_through(self._opened_intake(), submissions, queue, options)

    @overload
    def handle(self, workflow_id: str) -> WorkflowHandle[Any]: ...
    @overload
    def handle(self, workflow_id: str, *, into: type[T]) -> WorkflowHandle[T]: ...
    def handle(self, workflow_id: str, *, into: Any = Any) -> WorkflowHandle[Any]:
        """A handle for an id, whether or not such a workflow exists yet.

        Its result is waited for where it does not, and read as a value of type `into`.
        """
        desk = self._opened_desk()
        codec = desk.speaker.serialization.value(into, f"result of {workflow_id!r}")
        return WorkflowHandle(Target(desk, checked_id(workflow_id), codec, must_exist=False))

    async def select_workflow(self, workflows: Iterable[Reference]) -> WorkflowId:
        """Wait until the first of several workflows has ended; see `perdure.select_workflow`."""
        desk = self._opened_desk()
        return await first_of(desk.waiter, ids_of(desk, workflows), is_patient=False)

    async def join(self, workflows: Iterable[Reference]) -> None:
        """Wait until all of several workflows have ended; see `perdure.join`."""
        desk = self._opened_desk()
        await desk.waiter.all(ids_of(desk, workflows), is_patient=False)

    async def send(
        self,
        destination: str,
        message: Any,
        topic: str | None = None,
        *,
        idempotency_key: str | None = None,
        to_forks: bool = False,
    ) -> None:
        """Send a message to a workflow; see `perdure.send`. Here it is never a step."""
        sent = [Message(destination, message, topic, idempotency_key)]
        await self.send_bulk(sent, to_forks=to_forks)

    async def send_bulk(self, messages: Iterable[Message], *, to_forks: bool = False) -> None:
        """Send several messages, all or none."""
        speaker = self._opened()
        rows = new_messages(speaker, messages)
        await post(speaker, rows, to_forks=checked_flag("to_forks", to_forks))

    @overload
    async def get_event(
        self, workflow_id: str, key: str, *, timeout: Duration | None = None
    ) -> Any: ...
    @overload
    async def get_event(
        self, workflow_id: str, key: str, *, timeout: Duration | None = None, into: type[T]
    ) -> T | None: ...
    async def get_event(
        self, workflow_id: str, key: str, *, timeout: Duration | None = None, into: Any = Any
    ) -> Any:
        """What a workflow published under a key, waited for; see `perdure.get_event`."""
        speaker = self._opened()
        at = Key(checked_id(workflow_id), checked_key(key))
        limit_s = None if timeout is None else seconds_of(timeout, "timeout")
        left_s = countdown(self._clock, limit_s)
        codec = event_codec(speaker, key, into)
        row = await event_row(speaker, at, left_s, is_patient=False)
        return None if row is None else codec.decode(row.value, row.serialization)

    async def get_events(self, workflow_id: str) -> Mapping[str, Any]:
        """Everything a workflow published, by key."""
        return await all_events(self._opened(), checked_id(workflow_id), is_patient=False)

    @overload
    def read_stream(
        self, workflow_id: str, key: str, *, offset: int = 0, timeout: Duration | None = None
    ) -> StreamReader[Any]: ...
    @overload
    def read_stream(
        self,
        workflow_id: str,
        key: str,
        *,
        offset: int = 0,
        timeout: Duration | None = None,
        into: type[T],
    ) -> StreamReader[T]: ...
    def read_stream(
        self,
        workflow_id: str,
        key: str,
        *,
        offset: int = 0,
        timeout: Duration | None = None,
        into: Any = Any,
    ) -> StreamReader[Any]:
        """Follow a stream of a workflow; see `perdure.read_stream`."""
        at = Key(WorkflowId(workflow_id), key)
        return StreamReader(self._opened(), at, offset=offset, timeout=timeout, annotation=into)

    async def open(self) -> None:
        """Connect; does nothing on an open client. A failure leaves nothing open."""
        if self._intake is not None:
            return
        store = build_store(self._config, self._clock, nameless=self._application is None)
        try:
            # Before the store opens: opening makes an empty file where SQLite has none.
            await store.check_schema()
            await store.open()
            desk = self._build_desk(store)
            await desk.open()
        except BaseException:
            await store.close()
            raise
        self._desk = desk
        self._submitter = submitter = Submitter(desk)
        submitter.open()
        queues = RecentQueues(store, self._retry, self._clock)
        # Nothing begins here, so that nobody asks for the time.
        now_ms = DatabaseTime(self._clock).now_ms
        self._intake = Intake(desk, queues, submitter, None, now_ms)

    def _build_desk(self, store: Store) -> OutsideDesk:
        config, tasks = self._config, Tasks()
        serialization = Serialization(
            config.max_value_bytes,
            config.unpickle,
            (),
            DECORATED.error_class,
            self._serializers,
        )
        speaker = Speaker(tasks, store, self._clock, self._retry, serialization, is_told=False)
        return OutsideDesk(speaker, self._ids, self._application)

    async def close(self) -> None:
        """Disconnect; does nothing on a closed client. It can be opened again."""
        desk, self._desk = self._desk, None
        submitter, self._submitter = self._submitter, None
        self._intake = None
        if desk is not None and submitter is not None:
            # Also if this is cancelled: it cannot be called again.
            async with AsyncExitStack() as stack:
                stack.push_async_callback(desk.speaker.store.close)
                stack.push_async_callback(desk.close)
                await submitter.close()

    def _opened(self) -> Speaker:
        return self._opened_desk().speaker

    def _opened_desk(self) -> Desk:
        return self._opened_intake().desk

    def _opened_intake(self) -> Intake:
        if self._intake is None:
            raise NotRunning("this client is not open; use `async with Client(...) as client`")
        check_loop(self._intake.desk.speaker)
        return self._intake

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
