"""What one write job may do inside the transaction it shares with others."""

from collections.abc import Callable, Sequence
from sqlite3 import Row
from typing import Any, TypeVar

from perdure.model.answer import WRITTEN, Answer
from perdure.store.sqlite.connection import Connection, Parameters

Item = TypeVar("Item")
S = TypeVar("S")


class Transaction:
    """A write transaction under way; `now_ms` is the database's clock, read once in it.

    Nobody else writes while it lasts, so what it read stays true until it ends.
    """

    def __init__(self, connection: Connection, now_ms: int) -> None:
        self._driver = connection.driver
        self.now_ms = now_ms

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Execute one statement and return all its rows."""
        return self._driver.execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """Execute one statement and return its first row, if any."""
        found: Row | None = self._driver.execute(sql, parameters).fetchone()
        return found

    def change(self, sql: str, parameters: Parameters = ()) -> int:
        """Execute one statement and return how many rows it inserted, changed or deleted."""
        return self._driver.execute(sql, parameters).rowcount

    def change_each(self, sql: str, batch: Sequence[tuple[Any, ...]]) -> int:
        """Execute a statement with each of the parameter rows; the number of rows changed."""
        return self._driver.executemany(sql, batch).rowcount

    def answer_each(
        self,
        items: Sequence[Item],
        together: Callable[[Sequence[Item]], bool],
        single: Callable[[Item], Answer[S]],
    ) -> list[Answer[S]]:
        """Write a batch in as few statements as can be, and answer row by row only if need be.

        `together` writes all items and says whether every row was written; if not, all it did is
        undone and `single` writes and answers one item after the other.
        """
        if len(items) > 1:
            self._driver.execute("SAVEPOINT batch")
            complete = together(items)
            if not complete:
                self._driver.execute("ROLLBACK TO batch")
            self._driver.execute("RELEASE batch")
            if complete:
                return [WRITTEN] * len(items)
        return [single(item) for item in items]
