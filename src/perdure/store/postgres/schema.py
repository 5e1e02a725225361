"""Creates, converges and checks the system schema on Postgres."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from perdure.errors import DatabaseUnavailable, SchemaError
from perdure.logic.schema import FoundSchema, refuse_unless_runnable
from perdure.model.wire import SCHEMA_VERSION
from perdure.ports.store.lifecycle import SchemaReport
from perdure.store.ddl import statements
from perdure.store.postgres.schema_connection import (
    STATEMENT_S,
    WORK,
    Connect,
    Connection,
    opened,
    transaction,
)
from perdure.store.postgres.schema_lock import installing_alone
from perdure.store.postgres.schema_phases import (
    PACKAGE,
    Names,
    Phase,
    find,
    phases,
)

ATTEMPTS = 20
"""How often an installer that collides with another one looks again at what is left to do."""

PATIENCE_S = 600.0
"""How long building an index may take, ours or a peer's: it waits for every older snapshot."""

_COLLISIONS = (
    asyncpg.DeadlockDetectedError,
    asyncpg.DuplicateColumnError,
    asyncpg.DuplicateFunctionError,
    asyncpg.DuplicateObjectError,
    asyncpg.DuplicateSchemaError,
    asyncpg.DuplicateTableError,
    asyncpg.LockNotAvailableError,
    asyncpg.SerializationError,
    asyncpg.UniqueViolationError,
    # The catalogue's own "tuple concurrently updated" has no code but that of an internal error.
    asyncpg.InternalServerError,
)
"""What installers do to each other; each finds the other's work when it looks again."""


async def migrate(connect: Connect, schema: str) -> SchemaReport:
    """Create or converge the shared schema `schema` and our own beside it.

    Opens one connection, and a second one if there is something to do. Raises `SchemaError` kinds
    for what a retry cannot cure; other errors of the driver pass through for the caller to map.
    """
    async with _installer(connect, schema) as installer:
        finished = await installer.finished()
        before = installer.found.version
        if not finished:
            async with installing_alone(connect, schema, installer.finished):
                await installer.install()
        after = installer.found.version
        return SchemaReport(before, after or SCHEMA_VERSION, tuple(installer.done))


async def plan(connect: Connect, schema: str) -> SchemaReport:
    """What `migrate` would do now; reads only."""
    async with _installer(connect, schema) as installer:
        await installer.look()
        before = installer.found.version
        texts = tuple(text for phase in installer.waiting for text in phase.script)
        return SchemaReport(before, max(before or 0, SCHEMA_VERSION), texts)


async def check(connect: Connect, schema: str) -> None:
    """Raise `SchemaMissing` or `SchemaTooOld` unless we can run on the database as it is.

    Needs nothing but the right to read the tables.
    """
    async with _installer(connect, schema) as installer:
        await installer.look()
        refuse_unless_runnable(installer.found)


class _Installer:
    """One connection that looks at the schema and does what is left to do."""

    def __init__(self, connection: Connection, names: Names) -> None:
        self.connection = connection
        self.names = names
        self.found: FoundSchema
        self.waiting: tuple[Phase, ...] = ()
        self.done: list[str] = []

    async def look(self) -> None:
        """Read what is there; afterwards `found` is that, and `waiting` what is left to do."""
        database = await find(self.connection, self.names)
        self.found = database.schema
        self.waiting = phases(database, self.names)

    async def finished(self) -> bool:
        """Whether nothing is left to do, as it stands now.

        A schema to refuse is not finished: another program may be in the midst of migrating it, in
        many small steps, and holds its lock while it does.
        """
        try:
            await self.look()
        except SchemaError:
            return False
        return not self.waiting

    async def install(self) -> None:
        """Do it, bearing the company of others who do the same without our lock."""
        collision: BaseException | None = None
        for _ in range(ATTEMPTS):
            await self.look()
            if not self.waiting:
                return
            try:
                for phase in self.waiting:
                    await self._run(phase)
            except _COLLISIONS as error:
                collision = error
                await _pause()
        raise SchemaError(
            f"{self.names.where}: not installed after {ATTEMPTS} attempts, because something of "
            f"the same name is in the way or another program keeps changing it: {collision}"
        ) from collision

    async def _run(self, phase: Phase) -> None:
        if phase.online:
            for text in phase.texts:
                await self._run_patiently(text)
        else:
            async with transaction(self.connection, WORK):
                if phase.repairs is not None and not await self._still_broken(phase):
                    return
                for text in phase.texts:
                    await self.connection.execute(text, timeout=STATEMENT_S)
        self.done += phase.script

    async def _still_broken(self, phase: Phase) -> bool:
        """Waits for whoever may be building the index, then looks at it again.

        A builder gives up the table's lock a moment before its index is whole for others. Hence an
        index that is changing is left alone; and the second look, as that change may have ended
        between the first one's snapshot and its sight of who is changing what.
        """
        await self._run_patiently(phase.texts[0])
        query = self.names.render(statements(PACKAGE, "inspect")["indexes"]).text
        for _ in range(2):
            rows = await self.connection.fetch(query, self.names.shared, timeout=STATEMENT_S)
            if not any(row["name"] == phase.repairs and _is_broken(row) for row in rows):
                return False
        return True

    async def _run_patiently(self, text: str) -> None:
        try:
            await self.connection.execute(text, timeout=PATIENCE_S)
        except TimeoutError as error:
            raise DatabaseUnavailable(
                f"{self.names.where}: not finished within {PATIENCE_S:g} s: {text}; it waits for "
                "every older transaction of this database, or for a program that builds the same "
                "index and waits for them, perhaps one that was killed meanwhile: end those that "
                "pg_stat_activity shows with an old backend_xmin, then try again"
            ) from error


@asynccontextmanager
async def _installer(connect: Connect, schema: str) -> AsyncIterator[_Installer]:
    """An installer on a connection of its own, with a refused right told as what to do about it."""
    names = Names.of(schema)
    try:
        async with opened(connect) as connection:
            yield _Installer(connection, names)
    except asyncpg.InsufficientPrivilegeError as error:
        raise SchemaError(
            f"{names.where}: {error.message}; run `perdure migrate` with a role that may create "
            f"schemas and tables, and grant this one the use of the schemas {names.shared!r} and "
            f"{names.own!r} and their tables"
        ) from error


def _is_broken(index: asyncpg.Record) -> bool:
    return not index["valid"] and not index["changing"]


async def _pause() -> None:
    await asyncio.sleep(random.uniform(0.05, 0.25))  # noqa: S311
