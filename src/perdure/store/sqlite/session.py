"""How a heartbeat link reaches the database: by a connection of its own, or the store's."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from perdure.store.sqlite.concern import Access
from perdure.store.sqlite.connection import Connection, connect_file, patiently
from perdure.store.sqlite.database import Database
from perdure.store.sqlite.failures import translating
from perdure.store.sqlite.instants import wall_clock_ms
from perdure.store.sqlite.location import companions
from perdure.store.sqlite.transaction import Transaction
from perdure.store.sqlite.turnstile import Turnstile

T = TypeVar("T")


class Session(Protocol):
    """Used from one loop at a time."""

    async def write(self, work: Callable[[Transaction], T], patience_s: float) -> T:
        """Do the work in a write transaction; `DatabaseConflict` if its turn does not come."""
        ...

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Do the work outside of any transaction."""
        ...

    def version(self, connection: Connection) -> int:
        """A number that changes whenever somebody else committed; asked while reading."""
        ...

    def close(self) -> None:
        """Give up what is the session's own."""
        ...


class OwnSession:
    """A connection to the file used in the calling thread, which its few short statements block."""

    def __init__(self, path: Path, access: Access) -> None:
        self._what = str(path)
        self._clock = access.clock
        self._timeout_s = access.settings.statement_timeout_s
        # Its writes wait for their turn by themselves, its reads hardly ever have to.
        self._connection = connect_file(path, access.settings, busy_timeout_s=1)
        self._turnstile = Turnstile(companions(path))

    async def write(self, work: Callable[[Transaction], T], patience_s: float) -> T:
        """See `Session.write`."""
        driver = self._connection.driver
        with translating(self._what):
            with self._turnstile.passing(time.sleep):
                patiently(lambda: driver.execute("BEGIN IMMEDIATE"), time.sleep, patience_s)
            try:
                self._connection.set_deadline(self._timeout_s)
                result = work(self._transaction())
                driver.execute("COMMIT")
            finally:
                if driver.in_transaction:
                    driver.rollback()
        return result

    async def read(self, work: Callable[[Connection], T]) -> T:
        """See `Session.read`."""
        return self.look(work, self._timeout_s)

    def look(self, work: Callable[[Connection], T], timeout_s: float) -> T:
        """The same for who cannot wait."""
        self._connection.set_deadline(timeout_s)
        with translating(self._what):
            return work(self._connection)

    def version(self, connection: Connection) -> int:
        """See `Session.version`."""
        return connection.version()

    def _transaction(self) -> Transaction:
        return Transaction(self._connection, wall_clock_ms(self._clock), careful=True)

    def close(self) -> None:
        """See `Session.close`."""
        self._connection.close()
        self._turnstile.close()


class SharedSession:
    """The one connection of a database in memory, through the thread that owns it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write(self, work: Callable[[Transaction], T], patience_s: float) -> T:
        """See `Session.write`; the writer has a patience of its own."""
        del patience_s
        return await self._database.write(work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """See `Session.read`."""
        return await self._database.read(work)

    def version(self, connection: Connection) -> int:
        """See `Session.version`."""
        return connection.driver.total_changes

    def close(self) -> None:
        """See `Session.close`."""
