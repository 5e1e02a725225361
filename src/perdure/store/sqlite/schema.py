"""Creates, converges and checks the system schema in a SQLite file."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from perdure.logic.schema import (
    BOOKKEEPING,
    OLDEST_CONVERGED,
    SHARED_TABLES,
    FoundSchema,
    refuse_unless_runnable,
    schema_steps,
)
from perdure.model.wire import SCHEMA_VERSION
from perdure.ports.store.lifecycle import SchemaReport
from perdure.store.ddl import Statement, render, statements

_PACKAGE = "perdure.store.sqlite"
_READ = "BEGIN"
_WRITE = "BEGIN IMMEDIATE"
_OWN_BOOKKEEPING = "perdure_schema_version"


def migrate(connection: sqlite3.Connection) -> SchemaReport:
    """Create or converge the shared schema and our own tables beside it.

    The connection is in autocommit mode (`isolation_level=None`) with no transaction open, and
    its busy timeout bounds the wait for other processes. Raises `SchemaError` kinds for what a
    retry cannot cure; errors of the driver pass through for the caller to map.
    """
    report = plan(connection)
    if not report.statements:
        return report
    with _transaction(connection, _WRITE):
        found = _find(connection)
        texts = _texts(found)
        for text in texts:
            connection.execute(text)
    return _report(found, texts)


def plan(connection: sqlite3.Connection) -> SchemaReport:
    """What `migrate` would do now; reads only."""
    with _transaction(connection, _READ):
        found = _find(connection)
    return _report(found, _texts(found))


def check(connection: sqlite3.Connection) -> None:
    """Raise `SchemaMissing` or `SchemaTooOld` unless we can run on the file as it is."""
    with _transaction(connection, _READ):
        found = _find(connection)
    refuse_unless_runnable(found)


def now_ms_default(python: tuple[int, int], library: tuple[int, int, int]) -> str:
    """The default of a time column, as the other SDKs would choose it in this process.

    The finer one counts milliseconds, but a library older than 3.42 makes NULL of it.
    """
    if python >= (3, 12) and library >= (3, 42, 0):
        return "unixepoch('subsec') * 1000"
    return "strftime('%s','now') * 1000"


def _find(connection: sqlite3.Connection) -> FoundSchema:
    queries = statements(_PACKAGE, "inspect")

    def column(query: str) -> list[object]:
        return [row[0] for row in connection.execute(queries[query].text)]

    tables = frozenset(str(name) for name in column("tables"))
    versions = column("shared_versions") if BOOKKEEPING in tables else []
    own = column("own_version") if _OWN_BOOKKEEPING in tables else [None]
    return FoundSchema(
        where="the database file",
        tables=tables & SHARED_TABLES,
        versions=tuple(int(str(version)) for version in versions),
        own_version=None if own[0] is None else int(str(own[0])),
        sharded=bool(column("sharded")[0]),
    )


def _texts(found: FoundSchema) -> tuple[str, ...]:
    """What brings the file up to date, in order; all of it is one transaction."""
    steps = schema_steps(found)
    bookkeeping = statements(_PACKAGE, "record")
    texts: list[str] = []

    def add(file: str, version: int, record: str | None) -> None:
        chosen = list(statements(_PACKAGE, file).values())
        if record is not None:
            chosen.append(bookkeeping[record])
        texts.extend(_rendered(statement, version) for statement in chosen)

    if steps.create:
        for version in range(OLDEST_CONVERGED, SCHEMA_VERSION + 1):
            last = version == SCHEMA_VERSION
            add(f"shared_{version}", version, "insert_shared_version" if last else None)
    for version in steps.converge:
        add(f"shared_{version}", version, "raise_shared_version")
    for version in steps.own:
        add(f"own_{version:03}", version, "insert_own_version")
    return tuple(texts)


def _report(found: FoundSchema, texts: tuple[str, ...]) -> SchemaReport:
    script = (_WRITE, *texts, "COMMIT") if texts else ()
    return SchemaReport(found.version, max(found.version or 0, SCHEMA_VERSION), script)


def _rendered(statement: Statement, version: int) -> str:
    now_ms = now_ms_default(sys.version_info[:2], sqlite3.sqlite_version_info)
    return render(statement, {"version": str(version), "now_ms": now_ms}).text


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """One snapshot; of a write also the only writer, among all processes."""
    connection.execute(begin)
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.execute("COMMIT")
