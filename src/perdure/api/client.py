"""A client: looks at the workflows and queues of a database without running any."""

import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar, overload

from perdure.api.call_options import checked_id
from perdure.api.events import all_events, event_codec, event_row
from perdure.api.joining import first_of
from perdure.api.management import Workflows
from perdure.api.messaging import Message, new_messages, post
from perdure.api.queues import Operator, Queues
from perdure.api.streams import StreamReader
from perdure.api.values import checked_key
from perdure.api.waiting import countdown
from perdure.api.wiring import build_store
from perdure.config import EngineConfig, from_environment
from perdure.engine.committer import Retry
from perdure.engine.registry import DECORATED
from perdure.engine.services import Tasks
from perdure.engine.system import SystemClock, SystemIds
from perdure.engine.talk import Speaker
from perdure.engine.waiter import Around, Waiter
from perdure.errors import NotRunning, WaitInterrupted
from perdure.logic.durations import Duration, seconds_of
from perdure.model.ids import WorkflowId
from perdure.model.talk import Key
from perdure.ports.store import Store
from perdure.serialization import Serialization

T = TypeVar("T")


class _Link(NamedTuple):
    """What an open client works with."""

    speaker: Speaker
    waiter: Waiter

    @classmethod
    async def open(cls, store: Store, speaker: Speaker, retry: Retry) -> Self:
        """Begin to talk and to wait."""
        # Nothing runs here, and nobody is told what a client waits for.
        around = Around(lambda _: False, lambda _: None, lambda _: None)
        link = cls(speaker, Waiter(speaker.tasks, store, retry, around))
        await speaker.open()
        await link.waiter.start()
        return link

    async def close(self) -> None:
        """End every wait."""
        self.waiter.fail_all(WaitInterrupted)
        await self.waiter.stop()
        await self.speaker.close()
        await self.speaker.store.close()


class Client:
    """Access to the workflows and queues of a database, for programs that have none of their code.

    An async context manager. `url`, `name` and `schema` mean what they mean for `Engine`, and
    come from the environment in the same way. It creates nothing: where there is no system schema
    entering raises `SchemaMissing`, which says how to make one, and where there is no database
    `DatabaseUnavailable`.

    >>> async with Client("postgresql://localhost/shop") as client:
    ...     await client.workflows.list(states=["ERROR"], newest_first=True)
    """

    def __init__(
        self, url: str | None = None, *, name: str | None = None, schema: str | None = None
    ) -> None:
        given = {"url": url, "name": name, "schema": schema}
        self._config = from_environment(given, os.environ)
        self._clock = SystemClock()
        self._retry = Retry(self._clock, SystemIds())
        self._link: _Link | None = None

    @property
    def config(self) -> EngineConfig:
        """The settings in force."""
        return self._config

    @property
    def workflows(self) -> Workflows:
        """The workflows of the database; raises `NotRunning` on a client that is not open."""
        return Workflows(self._opened().speaker.store, self._retry)

    @property
    def queues(self) -> Queues:
        """The queues of the database, to look at and to change; raises `NotRunning`."""
        return Queues(self._opened().speaker.store, self._retry, Operator(self._config.name))

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
        speaker = self._opened().speaker
        await post(speaker, new_messages(speaker, messages), to_forks=to_forks)

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
        speaker = self._opened().speaker
        at = Key(checked_id(workflow_id), checked_key(key))
        limit_s = None if timeout is None else seconds_of(timeout, "timeout")
        left_s = countdown(self._clock, limit_s)
        codec = event_codec(speaker, key, into)
        row = await event_row(speaker, at, left_s, is_patient=False)
        return None if row is None else codec.decode(row.value, row.serialization)

    async def get_events(self, workflow_id: str) -> Mapping[str, Any]:
        """Everything a workflow published, by key."""
        return await all_events(self._opened().speaker, checked_id(workflow_id), is_patient=False)

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
        return StreamReader(
            self._opened().speaker, at, offset=offset, timeout=timeout, annotation=into
        )

    async def select_workflow(self, workflow_ids: Iterable[str]) -> str:
        """The first of several workflows to end; see `perdure.select_workflow`."""
        ids = [checked_id(each) for each in workflow_ids]
        return await first_of(self._opened().waiter, ids, is_patient=False)

    async def join(self, workflow_ids: Iterable[str]) -> None:
        """Wait until all of several workflows have ended; see `perdure.join`."""
        ids = [checked_id(each) for each in workflow_ids]
        await self._opened().waiter.all(ids, is_patient=False)

    async def open(self) -> None:
        """Connect; does nothing on an open client. A failure leaves nothing open."""
        if self._link is not None:
            return
        store = build_store(self._config, self._clock)
        try:
            # Before the store opens: opening makes an empty file where SQLite has none.
            await store.check_schema()
            await store.open()
            self._link = await _Link.open(store, self._build_speaker(store), self._retry)
        except BaseException:
            await store.close()
            raise

    def _build_speaker(self, store: Store) -> Speaker:
        config = self._config
        serialization = Serialization(
            config.max_value_bytes, config.unpickle, (), DECORATED.error_class
        )
        return Speaker(Tasks(), store, self._clock, self._retry, serialization, is_told=False)

    async def close(self) -> None:
        """Disconnect; does nothing on a closed client. It can be opened again."""
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    def _opened(self) -> _Link:
        if self._link is None:
            raise NotRunning("this client is not open; use `async with Client(...) as client`")
        return self._link

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
