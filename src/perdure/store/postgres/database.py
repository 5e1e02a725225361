"""The connections of one store and the queries on them."""

import asyncio
import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from perdure.errors import ConfigurationError, DatabaseUnavailable
from perdure.model.ids import BOOT_PREFIX
from perdure.model.wire import INTERNAL_QUEUES
from perdure.ports.clock import Clock
from perdure.store.identifiers import own_schema, quote_identifier
from perdure.store.postgres import inherited
from perdure.store.postgres.failures import Trouble
from perdure.store.postgres.lanes import (
    READ_COMMITTED,
    Connection,
    Isolation,
    Lane,
    Pool,
    Record,
    Transaction,
)
from perdure.store.postgres.settings import PostgresSettings
from perdure.store.sql import Queries

_MARGIN_S = 5.0
"""How much later than the server's our own deadline is."""

_CACHED_STATEMENTS = 200

PENDING_GRACE_MS: Final = 2000
"""A process ends what it runs exactly when its time is up; this long it is left to do so."""

BY_KEY: Final = {
    # A plan made for a small table must not be one that reads all of it, for it is kept while the
    # table grows.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    # Planning takes longer than executing a batch of one.
    "plan_cache_mode": "force_generic_plan",
}
"""How sessions plan whose statements go through keys at any size of a table."""

# An index has the order of claims but for the ids at one instant; sorting by those alone is another
# kind of sort, and a backlog must never be sorted as a whole.
_IN_ORDER: Final = {**BY_KEY, "enable_sort": "off"}

# Steps and the messages they take are put side by side, never by going through all messages for
# each step, which looks cheap for the few rows that a plan is made for.
_SIDE_BY_SIDE: Final = {**BY_KEY, "enable_nestloop": "off"}

HOT: Final = {
    "start": BY_KEY,
    "claim": _IN_ORDER,
    "claim_shared": _IN_ORDER,
    "record": BY_KEY,
    "finish": BY_KEY,
    "send": BY_KEY,
    "receive": _SIDE_BY_SIDE,
    "publish": BY_KEY,
    "append": BY_KEY,
}
"""Kinds of writes that have a connection of their own, so that they run beside each other."""

_READERS: Final = 2
"""Connections for what others ask and hear meanwhile, with kept plans."""

# The others may read a whole table where that is best, so they are planned for its size each time.
_SHARED: Final = {"plan_cache_mode": "force_custom_plan"}


class Database:
    """Where a store's statements go. It has a connection for each hot kind, and two pools."""

    def __init__(self, settings: PostgresSettings, clock: Clock) -> None:
        self.settings = settings
        self.queries = Queries(
            "perdure.store.postgres",
            {
                "schema": quote_identifier(settings.schema),
                "own": quote_identifier(own_schema(settings.schema)),
                "boot_prefix": BOOT_PREFIX,
                "internal_queues": ", ".join(f"'{name}'" for name in INTERNAL_QUEUES),
                "pending_grace_ms": str(PENDING_GRACE_MS),
            },
        )
        self._clock = clock
        self._lanes: dict[str, Lane] = {}
        self._writes = False
        self._readers: Pool | None = None
        self._pool: Pool | None = None

    @property
    def offset_ms(self) -> int:
        """What statements add to the database's clock now."""
        return self._clock.offset_ms()

    async def open(self) -> None:
        """Connect once, so that a database out of reach is found at once."""
        await self.close()
        deadline_s = self.settings.statement_timeout_s + _MARGIN_S
        lanes = {kind: Lane(partial(self._connect_hot, kind), deadline_s) for kind in HOT}
        pool = Pool(self._connect_shared, deadline_s, self.settings.pool_size)
        await pool.connect()
        self._lanes, self._pool = lanes, pool
        self._readers = Pool(self._connect_reader, deadline_s, _READERS)

    async def close(self) -> None:
        """Close every connection; those of heartbeat links are closed by them."""
        lanes, self._lanes = self._lanes, {}
        pools, self._pool, self._readers = (self._pool, self._readers), None, None
        # At once: on a network that never answers each goodbye takes its full time.
        closings = [lane.close() for lane in lanes.values()]
        closings += [pool.close() for pool in pools if pool is not None]
        await asyncio.gather(*closings)

    async def hot(self, kind: str, query: str, *arguments: Any) -> list[Record]:
        """Execute a query on the connection of one hot kind."""
        return await self._lane(kind).fetch(self.queries[query], *arguments)

    async def kept(self, query: str, *arguments: Any) -> list[Record]:
        """Execute a query whose plan is made once, for it goes through keys, on any connection."""
        if self._readers is None:
            raise _not_open()
        return await self._readers.fetch(self.queries[query], *arguments)

    async def fetch(self, query: str, *arguments: Any) -> list[Record]:
        """Execute a query on any connection."""
        return await self.fetch_text(self.queries[query], *arguments)

    async def fetch_text(self, text: str, *arguments: Any) -> list[Record]:
        """Execute a statement that is no named query."""
        if self._pool is None:
            raise _not_open()
        return await self._pool.fetch(text, *arguments)

    @asynccontextmanager
    async def hot_transaction(self, kind: str) -> AsyncGenerator[Transaction]:
        """Several statements in one READ COMMITTED transaction on the connection of a hot kind."""
        async with self._lane(kind).transaction() as transaction:
            yield transaction

    @asynccontextmanager
    async def transaction(
        self, isolation: Isolation = READ_COMMITTED
    ) -> AsyncGenerator[Transaction]:
        """Several statements in one transaction on any connection."""
        if self._pool is None:
            raise _not_open()
        async with self._pool.transaction(isolation) as transaction:
            yield transaction

    async def connect_plainly(self) -> Connection:
        """A connection of the caller's own without limits, past the pooler if a way is known."""
        return await self._connect(self._direct_url, {} if self.settings.has_sessions else None)

    async def connect_alone(self, statement_timeout_s: float) -> Connection:
        """A connection of a link's own, past the pooler if a way is known."""
        if not self.settings.has_sessions:
            return await self._connect_shared()
        return await self._connect(self._direct_url, {**_session(statement_timeout_s), **BY_KEY})

    def _lane(self, kind: str) -> Lane:
        lane = self._lanes.get(kind)
        if lane is None:
            raise _not_open()
        return lane

    @property
    def _direct_url(self) -> str:
        return self.settings.direct_url or self.settings.url

    async def _connect_hot(self, kind: str) -> Connection:
        self._writes = True
        return await self._connect_usually(HOT[kind])

    async def _connect_reader(self) -> Connection:
        # Whoever writes is told by that when a standby answers in the primary's place. A session
        # that only reads would stay with it, and show runs as they were.
        return await self._connect_usually(
            BY_KEY, SessionAttribute.primary if self._writes else None
        )

    async def _connect_shared(self) -> Connection:
        return await self._connect_usually(_SHARED)

    async def _connect_usually(
        self, parameters: Mapping[str, str], wanted: SessionAttribute | None = None
    ) -> Connection:
        settings = self.settings
        if settings.through_pooler:
            return await self._connect(settings.url, None, wanted)
        session = {**_session(settings.statement_timeout_s), **parameters}
        return await self._connect(settings.url, session, wanted)

    async def _connect(
        self, url: str, session: Mapping[str, str] | None, wanted: SessionAttribute | None = None
    ) -> Connection:
        """Connect; `session` is None where sessions are shared and cannot be set up.

        `wanted` is what the server has to be; by default what the URL says.
        """
        try:
            connection = await asyncpg.connect(
                url,
                timeout=self.settings.connect_timeout_s,
                # Behind a pooler the next statement may go to a session that knows none prepared.
                statement_cache_size=0 if session is None else _CACHED_STATEMENTS,
                max_cached_statement_lifetime=0,
                max_cacheable_statement_size=0,
                target_session_attrs=wanted,
                server_settings={"application_name": self.settings.session_name, **(session or {})},
            )
        except asyncpg.ClientConfigurationError as error:
            raise ConfigurationError(f"the database's URL cannot work: {error}") from error
        except Trouble as error:
            raise _unreachable(error) from error
        inherited.note(connection)
        return connection


def _session(statement_timeout_s: float) -> dict[str, str]:
    timeout_ms = str(math.ceil(statement_timeout_s * 1000))
    return {
        "statement_timeout": timeout_ms,
        "idle_in_transaction_session_timeout": timeout_ms,
        "default_transaction_isolation": "read committed",
        "jit": "off",
    }


def _unreachable(error: BaseException) -> DatabaseUnavailable:
    text = f"cannot connect to the database: {str(error) or type(error).__name__}"
    if "unsupported startup parameter" in text:
        text += "; the URL leads through a pooler: name a way past it with direct_url"
    return DatabaseUnavailable(text)


def _not_open() -> DatabaseUnavailable:
    return DatabaseUnavailable("the store is not open")
