"""What the driver raises, as what the port promises."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from perdure.errors import (
    DatabaseConflict,
    DatabaseError,
    DatabaseRejected,
    DatabaseUnavailable,
    StatementTimeout,
)

BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
"""Somebody else is at work in the file: the same statement may succeed in a moment."""

# Rejected is only what speaks against the statement or a value in it: an engine answers it by
# failing the one item that is to blame. Trouble with the file, the disk or the memory is nobody's
# fault and runs wait for its end, however unlikely that is for a damaged file.
KINDS: dict[int, type[DatabaseError]] = {
    sqlite3.SQLITE_ERROR: DatabaseRejected,
    sqlite3.SQLITE_INTERNAL: DatabaseUnavailable,
    sqlite3.SQLITE_PERM: DatabaseUnavailable,
    sqlite3.SQLITE_ABORT: DatabaseConflict,
    sqlite3.SQLITE_BUSY: DatabaseConflict,
    sqlite3.SQLITE_LOCKED: DatabaseConflict,
    sqlite3.SQLITE_NOMEM: DatabaseUnavailable,
    sqlite3.SQLITE_READONLY: DatabaseUnavailable,
    sqlite3.SQLITE_INTERRUPT: StatementTimeout,
    sqlite3.SQLITE_IOERR: DatabaseUnavailable,
    sqlite3.SQLITE_CORRUPT: DatabaseUnavailable,
    sqlite3.SQLITE_NOTFOUND: DatabaseUnavailable,
    sqlite3.SQLITE_FULL: DatabaseUnavailable,
    sqlite3.SQLITE_CANTOPEN: DatabaseUnavailable,
    sqlite3.SQLITE_PROTOCOL: DatabaseConflict,
    sqlite3.SQLITE_EMPTY: DatabaseUnavailable,
    sqlite3.SQLITE_SCHEMA: DatabaseConflict,
    sqlite3.SQLITE_TOOBIG: DatabaseRejected,
    sqlite3.SQLITE_CONSTRAINT: DatabaseRejected,
    sqlite3.SQLITE_MISMATCH: DatabaseRejected,
    sqlite3.SQLITE_MISUSE: DatabaseUnavailable,
    sqlite3.SQLITE_NOLFS: DatabaseUnavailable,
    sqlite3.SQLITE_AUTH: DatabaseRejected,
    sqlite3.SQLITE_FORMAT: DatabaseUnavailable,
    sqlite3.SQLITE_RANGE: DatabaseRejected,
    sqlite3.SQLITE_NOTADB: DatabaseUnavailable,
    sqlite3.SQLITE_NOTICE: DatabaseUnavailable,
    sqlite3.SQLITE_WARNING: DatabaseUnavailable,
}
"""By primary result code."""

_MEANING = {
    sqlite3.SQLITE_BUSY: "another connection kept the file locked until the deadline",
    sqlite3.SQLITE_INTERRUPT: "the statement ran past its deadline",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the file cannot be written any more",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a copy",
    sqlite3.SQLITE_NOTADB: "the file is not a SQLite database",
}


def primary_code(error: sqlite3.Error) -> int | None:
    """The result code without its extension; None for what the driver itself found wrong."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def is_busy(error: sqlite3.Error) -> bool:
    """Whether waiting a moment may be all that is needed."""
    return primary_code(error) in BUSY_CODES


def translated(error: BaseException, what: str) -> BaseException:
    """Our error for the driver's, naming the database; any other error as it is.

    A value that has no form in the database (an integer of more than 64 bits, a lone surrogate,
    an object of a foreign type) is refused before a statement runs, by Python or by the driver.
    """
    if isinstance(error, OverflowError | UnicodeError):
        return DatabaseRejected(f"{what}: the database cannot store a value: {error}")
    if not isinstance(error, sqlite3.Error):
        return error
    code = primary_code(error)
    if code is None:
        return DatabaseRejected(f"{what}: {error}")
    name = getattr(error, "sqlite_errorname", "")
    meaning = _MEANING.get(code)
    detail = f"{meaning} ({error}, {name})" if meaning else f"{error} ({name})"
    return KINDS.get(code, DatabaseUnavailable)(f"{what}: {detail}")


@contextmanager
def translating(what: str) -> Generator[None]:
    """Raise the driver's errors as ours; `what` names the database in the message."""
    try:
        yield
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        raise translated(error, what) from error
