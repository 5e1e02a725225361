"""What one write job may do inside the transaction it shares with others."""

from collections.abc import Callable, Sequence
from sqlite3 import Row
from typing import Any, TypeVar

from perdure.model.answer import WRITTEN, Answer
from perdure.store.sqlite.connection import Connection, Parameters

Item = TypeVar("Item")
S = TypeVar("S")


class Incomplete(Exception):
    """Not every row of a batch could be written together: do it again, with care."""


class Transaction:
    """A write transaction under way; `now_ms` is the database's clock, read once in it.

    Nobody else writes while it lasts, so what it read stays true until it ends. A `careful` one
    expects that rows of a batch have different answers. `waiting_since_ms` is when the workflows
    enqueued in it were created, once that is known.
    """

    def __init__(self, connection: Connection, now_ms: int, *, careful: bool) -> None:
        self._driver = connection.driver
        self.now_ms = now_ms
        self.careful = careful
        self.waiting_since_ms: int | None = None

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

        `together` writes all items and says whether every row was written. If not, the whole
        transaction is undone and done again with care, where `single` writes and answers one item
        after the other. Undoing needs no savepoint then, and a savepoint is dear: every page that
        a batch changes would be copied once more.
        """
        if len(items) > 1 and not self.careful:
            if not together(items):
                raise Incomplete
            return [WRITTEN] * len(items)
        return [single(item) for item in items]
