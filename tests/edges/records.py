"""A look into a SQLite database from outside."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path


def recorded(database: Path, step: str) -> int:
    """How many steps of that name the database holds."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        query = "SELECT count(*) FROM operation_outputs WHERE function_name = ?"
        (number,) = connection.execute(query, (step,)).fetchone()
    return int(number)
