"""A few threads that read, each with a connection of its own, while the writer writes."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from perdure.errors import DatabaseRejected
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.failures import translating
from perdure.store.sqlite.settings import SqliteSettings

T = TypeVar("T")


class Readers:
    """Reads see the last commit before they begin and wait for no write."""

    def __init__(
        self, what: str, connect: Callable[[], Connection], settings: SqliteSettings
    ) -> None:
        self._what = what
        self._connect = connect
        self._timeout_s = settings.statement_timeout_s
        self._process = os.getpid()
        self._idle: list[Connection] = []
        self._closed = False
        self._threads = ThreadPoolExecutor(settings.readers, "perdure-sqlite-reader")

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Do the work on a connection of its own for the time being."""
        if os.getpid() != self._process:
            raise DatabaseRejected(
                f"{self._what} was opened before this process was forked; open another store here"
            )
        if self._closed:
            raise DatabaseRejected(f"the store of {self._what} is closed")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, work)

    def _read(self, work: Callable[[Connection], T]) -> T:
        with translating(self._what):
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect()
            connection.set_deadline(self._timeout_s)
            try:
                return work(connection)
            finally:
                self._idle.append(connection)

    async def close(self) -> None:
        """Let what is being read end, and close the connections."""
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)
        while self._idle:
            self._idle.pop().close()
