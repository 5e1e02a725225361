"""Creates, converges and checks the system schema on Postgres."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import asyncpg

from perdure.ports.store.lifecycle import SchemaReport

Connect: TypeAlias = Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]]
"""Opens one plain connection (not one of a pool); this module closes what it opens."""


async def migrate(connect: Connect, schema: str) -> SchemaReport:
    """Create or converge the shared schema `schema` and our own beside it.

    Opens up to two connections of its own, one after the other. Raises `SchemaError` kinds for
    what a retry cannot cure; errors of the driver pass through for the caller to map.
    """
    raise NotImplementedError


async def plan(connect: Connect, schema: str) -> SchemaReport:
    """What `migrate` would do now; reads the catalogue only."""
    raise NotImplementedError


async def check(connect: Connect, schema: str) -> None:
    """Raise `SchemaMissing` or `SchemaTooOld` unless we can run on the database as it is.

    Needs nothing but the right to read the tables.
    """
    raise NotImplementedError
