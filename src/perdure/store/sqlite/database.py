"""A database as the store's concerns use it: work that writes and work that reads."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from perdure.errors import DatabaseRejected
from perdure.ports.clock import Clock
from perdure.store.sqlite.connection import Connection, connect_file, connect_memory
from perdure.store.sqlite.failures import translating
from perdure.store.sqlite.location import Location
from perdure.store.sqlite.readers import Readers
from perdure.store.sqlite.settings import SqliteSettings
from perdure.store.sqlite.transaction import Transaction
from perdure.store.sqlite.turnstile import Turnstile
from perdure.store.sqlite.writer import Writer

T = TypeVar("T")


class Database(Protocol):
    """Opened and closed as often as wanted; work outside of that is refused."""

    async def open(self) -> None:
        """Connect, creating what is missing."""
        ...

    async def close(self) -> None:
        """Finish or fail what waits, and give every connection up."""
        ...

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Do the work in a write transaction that other work may share."""
        ...

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Do the work outside of any write transaction."""
        ...

    async def prepare(self, work: Callable[[Connection], T], *, create: bool) -> T:
        """Do work on the schema; needs no `open`. Without `create` nothing is made or changed."""
        ...


class FileDatabase:
    """A file, which other processes may have open too."""

    def __init__(self, location: Location, clock: Clock, settings: SqliteSettings) -> None:
        self._location = location
        self._clock = clock
        self._settings = settings
        self._writer: Writer | None = None
        self._readers: Readers | None = None

    async def open(self) -> None:
        if self._writer is not None:
            return
        connection = await asyncio.to_thread(self._connect_writer)
        what, settings = str(self._location), self._settings
        turnstile = Turnstile(self._location.companions)
        self._writer = Writer(what, connection, turnstile, self._clock, settings)
        self._readers = Readers(
            what, self._connect_reader, settings.readers, settings.statement_timeout_s
        )

    async def close(self) -> None:
        writer, readers = self._writer, self._readers
        self._writer = self._readers = None
        if readers is not None:
            await readers.close()
        # Last: the last connection to go moves the log into the file and removes it.
        if writer is not None:
            await writer.close()

    async def write(self, work: Callable[[Transaction], T]) -> T:
        if self._writer is None:
            raise DatabaseRejected(f"{self._location} is not open")
        return await self._writer.run(work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        if self._readers is None:
            raise DatabaseRejected(f"{self._location} is not open")
        return await self._readers.run(work)

    async def prepare(self, work: Callable[[Connection], T], *, create: bool) -> T:
        return await asyncio.to_thread(self._prepare, work, create)

    def _prepare(self, work: Callable[[Connection], T], create: bool) -> T:
        assert self._location.path is not None
        if create or self._location.path.exists():
            connection = connect_file(
                self._location,
                self._settings,
                busy_timeout_s=self._settings.busy_timeout_s,
                create=create,
            )
        else:
            connection = connect_memory()
        with translating(str(self._location)):
            try:
                return work(connection)
            finally:
                connection.close()

    def _connect_writer(self) -> Connection:
        # The writer waits for its turn by itself, so that it can stop waiting.
        return connect_file(self._location, self._settings, busy_timeout_s=0, create=True)

    def _connect_reader(self) -> Connection:
        busy_timeout_s = self._settings.busy_timeout_s
        return connect_file(self._location, self._settings, busy_timeout_s=busy_timeout_s)


class MemoryDatabase:
    """A database in memory: one connection, so that every thread works on the same one."""

    def __init__(self, location: Location, clock: Clock, settings: SqliteSettings) -> None:
        self._location = location
        self._clock = clock
        self._settings = settings
        self._writer: Writer | None = None
        self._is_open = False

    async def open(self) -> None:
        self._existing()
        self._is_open = True

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        self._is_open = False
        if writer is not None:
            await writer.close()

    async def write(self, work: Callable[[Transaction], T]) -> T:
        return await self._opened().run(work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._opened().run_apart(work)

    async def prepare(self, work: Callable[[Connection], T], *, create: bool) -> T:
        del create
        return await self._existing().run_apart(work)

    def _existing(self) -> Writer:
        if self._writer is None:
            connection = connect_memory()
            self._writer = Writer(
                str(self._location), connection, None, self._clock, self._settings
            )
        return self._writer

    def _opened(self) -> Writer:
        if self._writer is None or not self._is_open:
            raise DatabaseRejected(f"{self._location} is not open")
        return self._writer

