"""Connections on which hints arrive."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from perdure.errors import DatabaseRejected, DatabaseUnavailable
from perdure.model.wire import EVENTS_CHANNEL, NOTIFICATIONS_CHANNEL, STREAMS_CHANNEL
from perdure.ports.store.hints import EVENT, MESSAGE, STREAM
from perdure.store.identifiers import own_schema
from perdure.store.postgres.concern import Access
from perdure.store.postgres.failures import TRANSLATING
from perdure.store.postgres.lanes import Connection, Record, close_quietly

_PATIENCE_S: Final = 5.0
"""How long a link that only listens waits for an answer."""


class PostgresLink:
    """See `perdure.ports.store.hints.Link`; a statement has the deadline of the moment."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._database = access.database
        self._queries = access.database.queries
        self._prefixes = _prefixes(access)
        self._connection: Connection | None = None
        self._when_lost: Callable[[], None] | None = None
        self._when_told: Callable[[str], None] | None = None
        self._deadline_s = _PATIENCE_S

    def when_lost(self, callback: Callable[[], None]) -> None:
        """See `Link.when_lost`."""
        self._when_lost = callback

    def listen(self, callback: Callable[[str], None]) -> None:
        """See `Link.listen`."""
        self._when_told = callback

    async def close(self) -> None:
        """See `Link.close`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await close_quietly(connection)

    async def _connect(self) -> None:
        with TRANSLATING:
            self._connection = await self._database.connect_alone(self._deadline_s)
        if self._when_lost is not None:
            self._connection.add_termination_listener(self._on_terminated)

    async def _start_listening(self) -> None:
        if self._when_told is None or not self._database.settings.has_sessions:
            return
        # Refused where the server cannot notify; then nobody is told anything.
        with suppress(DatabaseRejected):
            for channel in self._prefixes:
                async with self._deadline() as connection:
                    await connection.add_listener(channel, self._on_told)

    async def _fetch(self, query: str, *arguments: object) -> list[Record]:
        async with self._deadline() as connection:
            return await connection.fetch(self._queries[query], *arguments)

    @asynccontextmanager
    async def _deadline(self) -> AsyncGenerator[Connection]:
        connection = self._connection
        if connection is None:
            raise DatabaseUnavailable("the link is not open")
        with TRANSLATING:
            try:
                async with asyncio.timeout(self._deadline_s):
                    yield connection
            except TimeoutError:
                connection.terminate()
                raise

    def _on_terminated(self, _: object) -> None:
        if self._when_lost is not None:
            self._when_lost()

    def _on_told(self, *notification: object) -> None:
        channel, payload = map(str, notification[-2:])
        if self._when_told is not None:
            self._when_told(self._prefixes[channel] + payload)


class PostgresHintLink(PostgresLink):
    """See `perdure.ports.store.hints.HintLink`."""

    async def open(self) -> None:
        """See `HintLink.open`."""
        await self.close()
        await self._connect()
        await self._start_listening()

    async def check(self) -> None:
        """See `HintLink.check`."""
        await self._fetch("now", self._database.offset_ms)


def _prefixes(access: Access) -> dict[str, str]:
    """The channels to listen on, and how hints that come from them begin."""
    return {
        channel(access): "",
        NOTIFICATIONS_CHANNEL: MESSAGE,
        EVENTS_CHANNEL: EVENT,
        STREAMS_CHANNEL: STREAM,
    }


def channel(access: Access) -> str:
    """Where hints are sent: the same for all that share the schema, whatever application they are.

    Any text may be a schema's name, and an identifier is short, hence a digest.
    """
    name = own_schema(access.database.settings.schema)
    return f"perdure_{hashlib.sha256(name.encode()).hexdigest()[:16]}"
