"""What the SQLite driver raises arrives as one of the errors the port promises."""

import re
import sqlite3

import pytest

from perdure.errors import (
    DatabaseConflict,
    DatabaseError,
    DatabaseRejected,
    DatabaseUnavailable,
    LeaseLost,
    StatementTimeout,
)
from perdure.store.sqlite.failures import KINDS, is_busy, translated, translating

# Constants of the module that are no result codes share their numbers with some.
_PRIMARY = 0xFF
_RESULTS = re.findall(
    r"\w+",
    "ABORT AUTH BUSY CANTOPEN CONSTRAINT CORRUPT EMPTY ERROR FORMAT FULL INTERNAL INTERRUPT IOERR "
    "LOCKED MISMATCH MISUSE NOLFS NOMEM NOTADB NOTFOUND NOTICE PERM PROTOCOL RANGE READONLY SCHEMA "
    "TOOBIG WARNING",
)
_EXTENDED = sorted(
    name
    for name in dir(sqlite3)
    if any(name.startswith(f"SQLITE_{primary}_") for primary in _RESULTS)
    and getattr(sqlite3, name) > _PRIMARY
)


def raised(code: int, name: str = "SQLITE_X") -> sqlite3.OperationalError:
    """An error as the driver makes it."""
    error = sqlite3.OperationalError("what happened")
    error.sqlite_errorcode = code
    error.sqlite_errorname = name
    return error


def test_every_result_code_has_a_kind() -> None:
    assert set(KINDS) == {getattr(sqlite3, f"SQLITE_{name}") for name in _RESULTS}
    kinds = {DatabaseConflict, DatabaseRejected, DatabaseUnavailable, StatementTimeout}
    assert set(KINDS.values()) == kinds


@pytest.mark.parametrize("name", _EXTENDED)
def test_an_extended_code_goes_with_its_primary_one(name: str) -> None:
    code = getattr(sqlite3, name)
    assert type(translated(raised(code), "db")) is KINDS[code & _PRIMARY]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("BUSY", DatabaseConflict),
        ("BUSY_SNAPSHOT", DatabaseConflict),
        ("LOCKED_SHAREDCACHE", DatabaseConflict),
        ("ABORT_ROLLBACK", DatabaseConflict),
        ("IOERR_FSYNC", DatabaseUnavailable),
        ("FULL", DatabaseUnavailable),
        ("CORRUPT", DatabaseUnavailable),
        ("READONLY_DBMOVED", DatabaseUnavailable),
        ("CANTOPEN", DatabaseUnavailable),
        ("INTERRUPT", StatementTimeout),
        ("NOMEM", DatabaseUnavailable),
        ("CONSTRAINT_NOTNULL", DatabaseRejected),
        ("TOOBIG", DatabaseRejected),
        ("ERROR", DatabaseRejected),
    ],
)
def test_trouble_is_retried_and_a_bad_value_is_not(name: str, kind: type[DatabaseError]) -> None:
    assert type(translated(raised(getattr(sqlite3, f"SQLITE_{name}")), "db")) is kind


def test_a_code_of_a_newer_library_is_retried() -> None:
    assert type(translated(raised(99), "db")) is DatabaseUnavailable


def test_the_message_names_the_database_and_the_cause() -> None:
    error = translated(raised(sqlite3.SQLITE_FULL, "SQLITE_FULL"), "/data/app.db")
    assert str(error) == "/data/app.db: the disk is full (what happened, SQLITE_FULL)"


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT",
        "SELECT * FROM nowhere",
        "INSERT INTO t VALUES (NULL)",
        "INSERT INTO t VALUES (zeroblob(2000000000))",
    ],
)
def test_what_sqlite_itself_refuses_is_rejected(statement: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a NOT NULL)")
    with pytest.raises(DatabaseRejected, match=r"^db: "), translating("db"):
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("value", [2**63, "\ud800", object()])
def test_a_value_without_a_form_in_the_database_is_rejected(value: object) -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises(DatabaseRejected) as caught, translating("db"):
        connection.execute("SELECT ?", (value,))
    assert caught.value.__cause__ is not None
    connection.close()


def test_other_errors_stay_what_they_are() -> None:
    for error in (LeaseLost("taken"), ValueError("a bug"), KeyboardInterrupt()):
        assert translated(error, "db") is error


def test_only_what_may_pass_is_busy() -> None:
    busy = [sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL]
    assert [code for code in sorted(KINDS) if is_busy(raised(code))] == busy
    assert is_busy(raised(sqlite3.SQLITE_BUSY_SNAPSHOT))
    assert not is_busy(sqlite3.ProgrammingError("closed"))
