"""A database as the store's concerns use it: work that writes and work that reads."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from perdure.errors import DatabaseRejected
from perdure.ports.clock import Clock
from perdure.store.sqlite.connection import Connection, connect_file, connect_memory
from perdure.store.sqlite.failures import translating
from perdure.store.sqlite.location import companions
from perdure.store.sqlite.readers import Readers
from perdure.store.sqlite.settings import SqliteSettings
from perdure.store.sqlite.transaction import Transaction
from perdure.store.sqlite.turnstile import Turnstile
from perdure.store.sqlite.writer import Writer

T = TypeVar("T")

PREPARATION_S = 600.0
"""Indexing a large table takes its time, but not for ever."""

WRITER_CACHE_KIB = 16_384
"""Random ids spread a batch over the whole of an index, whose pages should not be read again."""


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

    def writer(self) -> Writer:
        """Who writes here, while it is open."""
        ...

    async def prepare(self, work: Callable[[Connection], T], *, create: bool) -> T:
        """Do work on the schema; needs no `open`. Without `create` nothing is made or changed."""
        ...


class FileDatabase:
    """A file, which other processes may have open too."""

    def __init__(self, path: Path, clock: Clock, settings: SqliteSettings) -> None:
        self._path = path
        self._clock = clock
        self._settings = settings
        self._writer: Writer | None = None
        self._readers: Readers | None = None

    async def open(self) -> None:
        """See `Database.open`."""
        if self._writer is None:
            self._writer = await asyncio.to_thread(self._connect_writer)
            self._readers = Readers(str(self._path), self._connect, self._settings)

    async def close(self) -> None:
        """See `Database.close`."""
        writer, readers = self._writer, self._readers
        self._writer = self._readers = None
        if readers is not None:
            await readers.close()
        # Last: the last connection to go moves the log into the file and removes it.
        if writer is not None:
            await writer.close()

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """See `Database.write`."""
        return await self.writer().run(work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """See `Database.read`."""
        if self._readers is None:
            raise DatabaseRejected(f"the store of {self._path} is not open")
        return await self._readers.run(work)

    def writer(self) -> Writer:
        """See `Database.writer`."""
        if self._writer is None:
            raise DatabaseRejected(f"the store of {self._path} is not open")
        return self._writer

    async def prepare(self, work: Callable[[Connection], T], *, create: bool) -> T:
        """See `Database.prepare`."""
        return await asyncio.to_thread(self._prepare, work, create=create)

    def _prepare(self, work: Callable[[Connection], T], *, create: bool) -> T:
        # What would be done to a file that is not there is found out on an empty database.
        missing = not create and not self._path.exists()
        connection = connect_memory() if missing else self._connect(create=create)
        connection.set_deadline(PREPARATION_S)
        with translating(str(self._path)):
            try:
                return work(connection)
            finally:
                connection.close()

    def _connect_writer(self) -> Writer:
        # The writer waits for its turn by itself, so that it can stop waiting.
        connection = connect_file(self._path, self._settings, busy_timeout_s=0, create=True)
        connection.driver.execute(f"PRAGMA cache_size=-{WRITER_CACHE_KIB}")
        turnstile = Turnstile(companions(self._path))
        return Writer(str(self._path), connection, turnstile, self._clock, self._settings)

    def _connect(self, *, create: bool = False) -> Connection:
        busy_timeout_s = self._settings.busy_timeout_s
        return connect_file(
            self._path, self._settings, busy_timeout_s=busy_timeout_s, create=create
        )


class MemoryDatabase:
    """A database in memory: one connection, so that every thread works on the same one."""

    what = "the database in memory"

    def __init__(self, clock: Clock, settings: SqliteSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._writer: Writer | None = None
        self._is_open = False

    async def open(self) -> None:
        """See `Database.open`."""
        self._existing()
        self._is_open = True

    async def close(self) -> None:
        """See `Database.close`; what the database held is gone."""
        writer, self._writer = self._writer, None
        self._is_open = False
        if writer is not None:
            await writer.close()

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """See `Database.write`."""
        return await self.writer().run(work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """See `Database.read`."""
        return await self.writer().run_apart(work)

    def writer(self) -> Writer:
        """See `Database.writer`."""
        if self._writer is None or not self._is_open:
            raise DatabaseRejected(f"the store of {self.what} is not open")
        return self._writer

    async def prepare(self, work: Callable[[Connection], T], *, create: bool) -> T:
        """See `Database.prepare`; there is nothing to create but the database itself."""
        del create
        return await self._existing().run_apart(work)

    def _existing(self) -> Writer:
        if self._writer is None:
            connection = connect_memory()
            self._writer = Writer(self.what, connection, None, self._clock, self._settings)
        return self._writer
