"""A client: looks at the workflows and queues of a database without running any."""

import os
from types import TracebackType
from typing import Self

from perdure.api.management import Workflows
from perdure.api.queues import Operator, Queues
from perdure.api.wiring import build_store
from perdure.config import EngineConfig, from_environment
from perdure.engine.committer import Retry
from perdure.engine.system import SystemClock, SystemIds
from perdure.errors import NotRunning
from perdure.ports.store import Store


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
        self._store: Store | None = None

    @property
    def config(self) -> EngineConfig:
        """The settings in force."""
        return self._config

    @property
    def workflows(self) -> Workflows:
        """The workflows of the database; raises `NotRunning` on a client that is not open."""
        return Workflows(self._opened(), self._retry)

    @property
    def queues(self) -> Queues:
        """The queues of the database, to look at and to change; raises `NotRunning`."""
        return Queues(self._opened(), self._retry, Operator(self._config.name))

    async def open(self) -> None:
        """Connect; does nothing on an open client. A failure leaves nothing open."""
        if self._store is not None:
            return
        store = build_store(self._config, self._clock)
        try:
            # Before the store opens: opening makes an empty file where SQLite has none.
            await store.check_schema()
            await store.open()
        except BaseException:
            await store.close()
            raise
        self._store = store

    async def close(self) -> None:
        """Disconnect; does nothing on a closed client. It can be opened again."""
        store, self._store = self._store, None
        if store is not None:
            await store.close()

    def _opened(self) -> Store:
        if self._store is None:
            raise NotRunning("this client is not open; use `async with Client(...) as client`")
        return self._store

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
