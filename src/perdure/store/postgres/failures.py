"""What the driver raises, as what the port promises."""

from types import TracebackType
from typing import Final

import asyncpg

from perdure.errors import (
    DatabaseConflict,
    DatabaseError,
    DatabaseRejected,
    DatabaseUnavailable,
    StatementTimeout,
)


class DuplicateKey(DatabaseRejected):
    """A unique index refused a row; the store itself decides what that means."""


# Rejected is only what speaks against the statement or a value in it: an engine answers it by
# failing the one item that is to blame. Trouble with the server, its disk or the way to it is
# nobody's fault, and runs wait for its end.
CLASSES: Final[dict[str, type[DatabaseError]]] = {
    "08": DatabaseUnavailable,  # connection exception
    "28": DatabaseUnavailable,  # invalid authorization: a password was changed
    "3D": DatabaseUnavailable,  # invalid catalog name: the database is gone, or not there yet
    "40": DatabaseConflict,  # transaction rollback: serialization failure, deadlock
    "53": DatabaseUnavailable,  # insufficient resources: disk full, too many connections
    "57": DatabaseUnavailable,  # operator intervention: shutting down
    "58": DatabaseUnavailable,  # system error: input and output
    "F0": DatabaseUnavailable,  # configuration file error
    "XX": DatabaseUnavailable,  # internal error: damaged data
}
"""By the first two characters of the SQLSTATE."""

STATES: Final[dict[str, type[DatabaseError]]] = {
    "0A000": DatabaseRejected,
    "23505": DuplicateKey,
    "25006": DatabaseUnavailable,  # read-only: a standby answers where the primary was
    "25P03": DatabaseUnavailable,  # idle in transaction for too long
    "25P04": DatabaseUnavailable,  # transaction for too long
    "55P03": DatabaseConflict,  # lock not available
    "57014": StatementTimeout,
    "72000": DatabaseConflict,  # snapshot too old
}
"""By the whole SQLSTATE, before its class."""

HINTS: Final = {
    "26000": "a pooler changed the session; say so with pooled=True",
    "42P05": "a pooler changed the session; say so with pooled=True",
}

# By class, the most specific first, for errors that do not come from the server.
_OWN: Final[tuple[tuple[type[BaseException], type[DatabaseError]], ...]] = (
    # The schema changed under a prepared statement, which is forgotten by now.
    (asyncpg.InvalidCachedStatementError, DatabaseConflict),
    (asyncpg.OutdatedSchemaCacheError, DatabaseConflict),
    (asyncpg.TargetServerAttributeNotMatched, DatabaseUnavailable),
    (asyncpg.ProtocolError, DatabaseUnavailable),
    (asyncpg.DataError, DatabaseRejected),
    # A statement met a connection that was just being cut: it has nothing against the statement.
    (asyncpg.InternalClientError, DatabaseUnavailable),
    (OSError, DatabaseUnavailable),  # TimeoutError is one of them
    (EOFError, DatabaseUnavailable),
)

Trouble: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    EOFError,
)
"""Everything the driver raises when a statement or a connection fails."""


def kind_of(error: BaseException) -> type[DatabaseError]:
    """Which of our errors one of the driver's is."""
    for own, kind in _OWN:
        if isinstance(error, own):
            return kind
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        return STATES.get(state) or CLASSES.get(state[:2]) or DatabaseRejected
    # The driver's own complaints differ in their text only.
    return DatabaseUnavailable if "closed" in str(error) else DatabaseRejected


def translated(error: BaseException) -> DatabaseError:
    """Our error for one of `Trouble`."""
    state = getattr(error, "sqlstate", None)
    parts = [str(error) or type(error).__name__]
    if state:
        parts.append(f"(SQLSTATE {state})")
    if state in HINTS:
        parts.append(f"- {HINTS[state]}")
    return kind_of(error)(" ".join(parts))


class Translating:
    """A context in which the driver's errors are raised as ours. Stateless: one is enough."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is not None and isinstance(error, Trouble):
            raise translated(error) from error


TRANSLATING: Final = Translating()
