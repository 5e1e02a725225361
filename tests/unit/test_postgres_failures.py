"""Every error of the driver becomes the one of ours that says whether to try again."""

from __future__ import annotations

import asyncio
import inspect
import ssl
from typing import Any

import asyncpg
import pytest

from perdure.errors import (
    DatabaseConflict,
    DatabaseError,
    DatabaseRejected,
    DatabaseUnavailable,
    StatementTimeout,
)
from perdure.store.postgres.failures import (
    TRANSLATING,
    DuplicateKey,
    Trouble,
    kind_of,
    translated,
)

EXCEPTIONS: list[type[Exception]] = [
    thing
    for _, thing in inspect.getmembers(asyncpg.exceptions, inspect.isclass)
    if issubclass(thing, Exception) and not issubclass(thing, Warning)
]
SERVER = [kind for kind in EXCEPTIONS if getattr(kind, "sqlstate", None)]

# By class of SQLSTATE; whatever is not named speaks against the statement.
UNAVAILABLE = {"08", "28", "3D", "53", "57", "58", "F0", "XX"}
CONFLICT = {"40"}
SINGLE = {
    asyncpg.ReadOnlySQLTransactionError: DatabaseUnavailable,
    asyncpg.IdleInTransactionSessionTimeoutError: DatabaseUnavailable,
    asyncpg.TransactionTimeoutError: DatabaseUnavailable,
    asyncpg.LockNotAvailableError: DatabaseConflict,
    asyncpg.SnapshotTooOldError: DatabaseConflict,
    asyncpg.UniqueViolationError: DuplicateKey,
    asyncpg.QueryCanceledError: StatementTimeout,
    asyncpg.InvalidCachedStatementError: DatabaseConflict,
}


def expected_kind(kind: type[Exception]) -> type[DatabaseError]:
    for single, expected in SINGLE.items():
        if issubclass(kind, single):
            return expected
    state: str = kind.sqlstate  # type: ignore[attr-defined]
    if state[:2] in UNAVAILABLE:
        return DatabaseUnavailable
    return DatabaseConflict if state[:2] in CONFLICT else DatabaseRejected


def made(kind: type[Exception]) -> Exception:
    if issubclass(kind, asyncpg.PostgresError):
        # Made from a server's message otherwise.
        return kind.__new__(kind, "text")
    return kind("text")


def test_there_is_something_to_walk() -> None:
    assert len(SERVER) > 200


@pytest.mark.parametrize("kind", EXCEPTIONS, ids=lambda kind: kind.__name__)
def test_every_exception_of_the_driver_is_ours_in_the_end(kind: type[Exception]) -> None:
    assert issubclass(kind, Trouble)
    assert issubclass(kind_of(made(kind)), DatabaseError)


@pytest.mark.parametrize("kind", SERVER, ids=lambda kind: kind.__name__)
def test_errors_of_the_server_go_by_their_state(kind: type[Exception]) -> None:
    assert kind_of(made(kind)) is expected_kind(kind)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (asyncpg.InterfaceError("connection is closed"), DatabaseUnavailable),
        (asyncpg.InterfaceError("cannot call fetch(): connection is closed"), DatabaseUnavailable),
        (asyncpg.InterfaceError("another operation is in progress"), DatabaseRejected),
        (asyncpg.DataError("invalid input for query argument $1"), DatabaseRejected),
        (asyncpg.ConnectionDoesNotExistError("closed in the middle"), DatabaseUnavailable),
        (asyncpg.TargetServerAttributeNotMatched("no primary"), DatabaseUnavailable),
        (asyncpg.ProtocolError("unexpected message"), DatabaseUnavailable),
        (asyncpg.InternalClientError("no such state"), DatabaseUnavailable),
        (asyncpg.OutdatedSchemaCacheError("cached"), DatabaseConflict),
        (ConnectionRefusedError(111, "refused"), DatabaseUnavailable),
        (ConnectionResetError(104, "reset"), DatabaseUnavailable),
        (BrokenPipeError(32, "pipe"), DatabaseUnavailable),
        (TimeoutError(), DatabaseUnavailable),
        (OSError(-2, "name not known"), DatabaseUnavailable),
        (ssl.SSLError("bad handshake"), DatabaseUnavailable),
        (asyncio.IncompleteReadError(b"", 4), DatabaseUnavailable),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value)[:40],
)
def test_errors_of_the_way_there(error: Exception, expected: type[DatabaseError]) -> None:
    assert type(translated(error)) is expected
    with pytest.raises(expected) as caught, TRANSLATING:
        raise error
    assert caught.value.__cause__ is error


def test_a_message_says_what_the_server_said_and_what_to_do() -> None:
    error: Any = made(asyncpg.InvalidSQLStatementNameError)
    assert "26000" in str(translated(error))
    assert "pooled" in str(translated(error))
    assert str(translated(TimeoutError())) == "TimeoutError"


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), KeyboardInterrupt(), ZeroDivisionError(), ValueError()]
)
def test_what_is_not_the_databases_passes(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, TRANSLATING:
        raise error
    assert caught.value is error
