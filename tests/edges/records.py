"""A SQLite database seen, and changed, from outside."""

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


def end_sleeps(database: Path) -> None:
    """Every sleep that is recorded is over: as if the time had passed while nothing ran."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute(
            "UPDATE operation_outputs SET output = '1' WHERE function_name = 'DBOS.sleep'"
        )
        connection.commit()
