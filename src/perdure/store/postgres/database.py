"""The connections of one store and the queries on them."""

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg

from perdure.errors import ConfigurationError, DatabaseUnavailable
from perdure.model.ids import BOOT_PREFIX
from perdure.ports.clock import Clock
from perdure.store.identifiers import own_schema, quote_identifier
from perdure.store.postgres.failures import Trouble
from perdure.store.postgres.lanes import Connection, Lane, Pool, Record, Transaction
from perdure.store.postgres.settings import PostgresSettings
from perdure.store.sql import Queries

HOT: Final = ("start", "claim", "record", "finish")
"""Kinds of writes that have a connection of their own, so that they run beside each other."""

_MARGIN_S = 5.0
"""How much later than the server's our own deadline is."""

_CACHED_STATEMENTS = 200

_HOT_SESSION: Final = {
    # Hot statements go through keys at any size of a table. A plan made for a small one must not
    # be one that reads all of it, for it is kept while the table grows.
    "enable_seqscan": "off",
    # Planning takes longer than executing a batch of one.
    "plan_cache_mode": "force_generic_plan",
}


class Database:
    """Where a store's statements go. Opened, it has a connection for each hot kind and a pool."""

    def __init__(self, settings: PostgresSettings, clock: Clock) -> None:
        self.settings = settings
        self.queries = Queries(
            "perdure.store.postgres",
            {
                "schema": quote_identifier(settings.schema),
                "own": quote_identifier(own_schema(settings.schema)),
                "boot_prefix": BOOT_PREFIX,
            },
        )
        self._clock = clock
        self._lanes: dict[str, Lane] = {}
        self._pool: Pool | None = None

    @property
    def offset_ms(self) -> int:
        """What statements add to the database's clock now."""
        return self._clock.offset_ms()

    async def open(self) -> None:
        """Connect once, so that a database out of reach is found at once."""
        await self.close()
        deadline_s = self.settings.statement_timeout_s + _MARGIN_S
        lanes = {kind: Lane(self._connect_hot, deadline_s) for kind in HOT}
        pool = Pool(self._connect_shared, deadline_s, self.settings.pool_size)
        await pool.connect()
        self._lanes, self._pool = lanes, pool

    async def close(self) -> None:
        """Close every connection; those of heartbeat links are closed by them."""
        lanes, self._lanes = self._lanes, {}
        pool, self._pool = self._pool, None
        for lane in lanes.values():
            await lane.close()
        if pool is not None:
            await pool.close()

    async def hot(self, kind: str, query: str, *arguments: Any) -> list[Record]:
        """Execute a query on the connection of one hot kind."""
        lane = self._lanes.get(kind)
        if lane is None:
            raise _not_open()
        return await lane.fetch(self.queries[query], *arguments)

    async def fetch(self, query: str, *arguments: Any) -> list[Record]:
        """Execute a query on any connection."""
        return await self.fetch_text(self.queries[query], *arguments)

    async def fetch_text(self, text: str, *arguments: Any) -> list[Record]:
        """Execute a statement that is no named query."""
        if self._pool is None:
            raise _not_open()
        return await self._pool.fetch(text, *arguments)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """Several statements in one READ COMMITTED transaction."""
        if self._pool is None:
            raise _not_open()
        async with self._pool.transaction() as transaction:
            yield transaction

    async def connect_directly(self, statement_timeout_s: float | None = None) -> Connection:
        """A connection of the caller's own, past the pooler if a way is known."""
        settings = self.settings
        if settings.direct_url is None and settings.pooled:
            return await self._connect_shared()
        url = settings.direct_url or settings.url
        return await self._connect(url, self._session(statement_timeout_s))

    async def _connect_hot(self) -> Connection:
        if self.settings.through_pooler:
            return await self._connect_shared()
        return await self._connect(self.settings.url, {**self._session(), **_HOT_SESSION})

    async def _connect_shared(self) -> Connection:
        if self.settings.through_pooler:
            return await self._connect(self.settings.url, None)
        return await self._connect(self.settings.url, self._session())

    def _session(self, statement_timeout_s: float | None = None) -> dict[str, str]:
        timeout_s = statement_timeout_s or self.settings.statement_timeout_s
        timeout_ms = str(math.ceil(timeout_s * 1000))
        return {
            "statement_timeout": timeout_ms,
            "idle_in_transaction_session_timeout": timeout_ms,
            "default_transaction_isolation": "read committed",
            "jit": "off",
        }

    async def _connect(self, url: str, session: dict[str, str] | None) -> Connection:
        """Connect; `session` is None where sessions are shared and cannot be set up."""
        try:
            return await asyncpg.connect(
                url,
                timeout=self.settings.connect_timeout_s,
                # Behind a pooler the next statement may go to a session that knows none prepared.
                statement_cache_size=0 if session is None else _CACHED_STATEMENTS,
                max_cached_statement_lifetime=0,
                max_cacheable_statement_size=0,
                server_settings={"application_name": self.settings.session_name, **(session or {})},
            )
        except asyncpg.ClientConfigurationError as error:
            raise ConfigurationError(f"the database's URL cannot work: {error}") from error
        except Trouble as error:
            raise DatabaseUnavailable(f"cannot connect to the database: {error}") from error


def _not_open() -> DatabaseUnavailable:
    return DatabaseUnavailable("the store is not open")
