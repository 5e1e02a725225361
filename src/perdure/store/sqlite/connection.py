"""Connections to the database, ready for use."""

import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perdure.errors import ConfigurationError, DatabaseRejected
from perdure.store.sqlite.failures import is_busy, primary_code, translating
from perdure.store.sqlite.location import require_place, uri
from perdure.store.sqlite.settings import SqliteSettings

MIN_VERSION = (3, 34, 0)
"""The oldest library that systems with a Python of ours still come with."""

Parameters = tuple[Any, ...] | dict[str, Any]

_PAUSE_S = 0.002
_CHECK_EVERY = 200_000
"""Instructions of SQLite's machine between two looks at the clock: some ten milliseconds."""

_CACHED_STATEMENTS = 256


class Connection:
    """One connection and the deadline of what it is doing. Used by one thread at a time."""

    def __init__(self, driver: sqlite3.Connection) -> None:
        self.driver = driver
        self._deadline_s: float | None = None
        driver.row_factory = sqlite3.Row
        driver.set_progress_handler(self._is_late, _CHECK_EVERY)

    def set_deadline(self, seconds: float | None) -> None:
        """From now on statements fail after that many seconds; None lifts the limit."""
        self._deadline_s = None if seconds is None else time.monotonic() + seconds

    def _is_late(self) -> bool:
        return self._deadline_s is not None and time.monotonic() > self._deadline_s

    def rows(self, sql: str, parameters: Parameters = ()) -> list[sqlite3.Row]:
        """Execute one statement and return all its rows."""
        return self.driver.execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Parameters = ()) -> sqlite3.Row | None:
        """Execute one statement and return its first row, if any."""
        found: sqlite3.Row | None = self.driver.execute(sql, parameters).fetchone()
        return found

    def version(self) -> int:
        """A number that changes whenever another connection committed to the file."""
        number: int = self.rows("PRAGMA data_version")[0][0]
        return number

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """Let everything read in the block be of one moment."""
        self.driver.execute("BEGIN")
        try:
            yield
        finally:
            if self.driver.in_transaction:
                self.driver.execute("ROLLBACK")

    def close(self) -> None:
        """Give the connection up; an open transaction is rolled back."""
        self.driver.close()


def patiently(
    attempt: Callable[[], object], pause: Callable[[float], object], timeout_s: float
) -> None:
    """Repeat what fails because others are at work in the file, until the time is up.

    `pause` waits that many seconds and may raise to end the waiting.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            attempt()
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        pause(_PAUSE_S)


def connect_file(
    path: Path, settings: SqliteSettings, *, busy_timeout_s: float, create: bool = False
) -> Connection:
    """Connect to a file; with `create` it is made where there is none, and gets a write-ahead log.

    Raises `ConfigurationError` or `DatabaseRejected` for what cannot become a database of ours.
    """
    require_version()
    require_place(path)
    with translating(str(path)):
        driver = sqlite3.connect(
            uri(path, create=create),
            uri=True,
            timeout=busy_timeout_s,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_CACHED_STATEMENTS,
        )
        try:
            # Who leaves a file last has it alone for a moment.
            patiently(lambda: _require_database(driver, path), time.sleep, settings.busy_timeout_s)
            if create:
                patiently(lambda: _use_wal(driver), time.sleep, settings.busy_timeout_s)
            driver.execute(f"PRAGMA synchronous={settings.synchronous}")
            driver.execute("PRAGMA foreign_keys=ON")
            driver.execute("PRAGMA temp_store=MEMORY")
        except BaseException:
            driver.close()
            raise
    return Connection(driver)


def connect_memory() -> Connection:
    """A new, empty database that lives as long as this connection."""
    require_version()
    driver = sqlite3.connect(
        ":memory:",
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_CACHED_STATEMENTS,
    )
    driver.execute("PRAGMA foreign_keys=ON")
    return Connection(driver)


def require_version() -> None:
    """Raise `ConfigurationError` if Python was built with too old a SQLite library."""
    if sqlite3.sqlite_version_info < MIN_VERSION:
        wanted = ".".join(map(str, MIN_VERSION))
        raise ConfigurationError(
            f"this Python uses SQLite {sqlite3.sqlite_version}; {wanted} or newer is needed: "
            "install a newer Python, or use Postgres"
        )


def _require_database(driver: sqlite3.Connection, path: Path) -> None:
    try:
        driver.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        if primary_code(error) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise DatabaseRejected(
                f"{path} is not a SQLite database, or is damaged: {error}"
            ) from error
        raise


def _use_wal(driver: sqlite3.Connection) -> None:
    # The change needs the whole file for a moment and does not wait for it; the answer is the mode
    # the file is in, which stays another one where the file system cannot share memory.
    (mode,) = driver.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        driver.execute("PRAGMA journal_mode=WAL").fetchone()
