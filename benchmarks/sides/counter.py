"""Counts the statements the server executes, through psycopg: for the reference's environment."""

import psycopg


class Counter:
    """Statements on one database, without the counter's own."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")

    def total(self) -> int:
        """How many statements were executed so far."""
        row = self._connection.execute(
            """
            SELECT coalesce(sum(calls), 0) FROM pg_stat_statements
            WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
              AND query NOT LIKE '%pg_stat_statements%'
            """
        ).fetchone()
        return int(row[0]) if row else 0
