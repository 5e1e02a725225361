"""Creates, converges and checks the system schema in a SQLite file."""

import sqlite3

from perdure.ports.store.lifecycle import SchemaReport


def migrate(connection: sqlite3.Connection) -> SchemaReport:
    """Create or converge the shared schema and our own tables beside it.

    The connection is in autocommit mode (`isolation_level=None`) with no transaction open, and
    its busy timeout bounds the wait for other processes. Raises `SchemaError` kinds for what a
    retry cannot cure; errors of the driver pass through for the caller to map.
    """
    raise NotImplementedError


def plan(connection: sqlite3.Connection) -> SchemaReport:
    """What `migrate` would do now; reads only."""
    raise NotImplementedError


def check(connection: sqlite3.Connection) -> None:
    """Raise `SchemaMissing` or `SchemaTooOld` unless we can run on the file as it is."""
    raise NotImplementedError
