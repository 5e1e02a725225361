"""A look into a SQLite database from outside."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path


def counted(database: Path, query: str) -> int:
    """The number that the query gives."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        (number,) = connection.execute(query).fetchone()
    return int(number)


def recorded(database: Path, step: str) -> int:
    """How many steps of that name the database holds."""
    query = f"SELECT count(*) FROM operation_outputs WHERE function_name = '{step}'"
    return counted(database, query)
