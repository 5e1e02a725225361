"""The one thread that writes: what waits at the same moment becomes one transaction.

While a commit is on its way to the disk, jobs of all kinds and callers gather; the next
transaction takes all of them, so a lone job pays one commit and many pay hardly more. If one of
them fails, all are undone and done again, each behind a savepoint, so that it fails alone. Answers
go back to the loops of the callers after the commit, in one hop per loop.
"""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any, Generic, TypeVar

from perdure.errors import DatabaseRejected, DatabaseUnavailable
from perdure.ports.clock import Clock
from perdure.store.sqlite.connection import Connection, patiently
from perdure.store.sqlite.failures import translated
from perdure.store.sqlite.instants import wall_clock_ms
from perdure.store.sqlite.settings import SqliteSettings
from perdure.store.sqlite.transaction import Incomplete, Transaction
from perdure.store.sqlite.turnstile import Turnstile

T = TypeVar("T")


class Job(Generic[T]):
    """One piece of work, where it is awaited, and what became of it."""

    __slots__ = ("apart", "error", "future", "loop", "result", "work")

    def __init__(
        self, work: Callable[[Any], T], loop: asyncio.AbstractEventLoop, *, apart: bool
    ) -> None:
        self.work = work
        self.apart = apart
        self.loop = loop
        self.future: asyncio.Future[T] = loop.create_future()
        self.result: T | None = None
        self.error: BaseException | None = None

    def deliver(self) -> None:
        """Settle the future, in its own loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]


class Writer:
    """Owns the writing connection and its thread from `__init__` to `close`.

    `begun` counts its transactions. `others` is a number that has changed if others had committed
    when it last saw: at the beginning of a transaction, or when it was asked to look.
    """

    def __init__(
        self,
        what: str,
        connection: Connection,
        turnstile: Turnstile | None,
        clock: Clock,
        settings: SqliteSettings,
    ) -> None:
        self._what = what
        self._connection = connection
        self._turnstile = turnstile
        self._clock = clock
        self._settings = settings
        self.begun = 0
        self.others = 0
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._waiting: list[Job[Any]] = []
        self._awake = False
        self._closing = threading.Event()
        # An executor's thread, unlike a bare one, is joined when the interpreter exits although
        # nobody closed the store, and then ends by itself.
        self._thread = ThreadPoolExecutor(1, "perdure-sqlite-writer")

    async def run(self, work: Callable[[Transaction], T]) -> T:
        """Do the work in the next transaction; returns when that is committed.

        The work may be done more than once if its transaction had to be undone, and never after
        its caller was cancelled before it began. Raises `DatabaseUnavailable` if the writer closes
        before it is done.
        """
        return await self._put(work, apart=False)

    async def run_apart(self, work: Callable[[Connection], T]) -> T:
        """Do the work on the writing connection with no transaction open."""
        return await self._put(work, apart=True)

    def look(self) -> asyncio.Future[None]:
        """See whether others have committed, at the next moment without a transaction."""
        return self._put(self._see, apart=True)

    def _put(self, work: Callable[[Any], T], *, apart: bool) -> asyncio.Future[T]:
        job = Job(work, asyncio.get_running_loop(), apart=apart)
        if os.getpid() != self._process:
            raise DatabaseRejected(
                f"{self._what} was opened before this process was forked; open another store here"
            )
        with self._lock:
            if self._closing.is_set():
                raise DatabaseRejected(f"the store of {self._what} is closed")
            self._waiting.append(job)
            if not self._awake:
                try:
                    self._thread.submit(self._work)
                except RuntimeError as error:
                    self._waiting.clear()
                    raise DatabaseUnavailable(f"{self._what}: {error}") from error
                self._awake = True
        return job.future

    async def close(self) -> None:
        """Finish what waits if the database lets us, fail it otherwise, and end the thread."""
        with self._lock:
            self._closing.set()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)
        self._connection.close()
        if self._turnstile is not None:
            self._turnstile.close()

    def _work(self) -> None:
        while True:
            with self._lock:
                jobs, self._waiting = self._waiting, []
                if not jobs:
                    self._awake = False
                    return
            wanted = [job for job in jobs if not job.future.cancelled()]
            try:
                for job in wanted:
                    if job.apart:
                        self._do(job, self._connection)
                self._commit([job for job in wanted if not job.apart])
            except BaseException as error:  # noqa: BLE001 - a job without an answer waits for ever
                self._fail(wanted, error)
            _deliver(jobs)

    def _commit(self, jobs: list[Job[Any]]) -> None:
        """Do the jobs in one transaction; if one of them fails, again with care."""
        try:
            if jobs and not self._together(jobs):
                self._one_by_one(jobs)
        except (sqlite3.Error, DatabaseUnavailable) as error:
            self._fail(jobs, error)

    def _together(self, jobs: Sequence[Job[Any]]) -> bool:
        transaction = self._begin(careful=False)
        for job in jobs:
            self._do(job, transaction)
            if job.error is not None:
                self._undo()
                # A lone job's failure is its answer.
                if len(jobs) == 1 and not isinstance(job.error, Incomplete):
                    return True
                job.error = None
                return False
        self._patiently("COMMIT")
        return True

    def _one_by_one(self, jobs: list[Job[Any]]) -> None:
        """Do every job behind a savepoint, so that one that fails is undone alone."""
        while jobs:
            transaction = self._begin(careful=True)
            broken = self._behind_savepoints(jobs, transaction)
            if broken is None:
                self._patiently("COMMIT")
                return
            # The database gave the whole transaction up because of that job: the others again.
            jobs = [job for job in jobs if job is not broken]

    def _behind_savepoints(
        self, jobs: Sequence[Job[Any]], transaction: Transaction
    ) -> Job[Any] | None:
        driver = self._connection.driver
        for job in jobs:
            driver.execute("SAVEPOINT job")
            self._do(job, transaction)
            if not driver.in_transaction:
                return job
            if job.error is not None:
                driver.execute("ROLLBACK TO job")
            driver.execute("RELEASE job")
        return None

    def _begin(self, *, careful: bool) -> Transaction:
        self._undo()
        turn = self._turnstile.passing(self._pause) if self._turnstile else nullcontext()
        with turn:
            self._patiently("BEGIN IMMEDIATE")
        self.begun += 1
        self._see(self._connection)
        return Transaction(self._connection, wall_clock_ms(self._clock), careful=careful)

    def _see(self, connection: Connection) -> None:
        self.others = connection.version()

    def _undo(self) -> None:
        if self._connection.driver.in_transaction:
            self._connection.driver.execute("ROLLBACK")

    def _do(self, job: Job[Any], subject: Transaction | Connection) -> None:
        self._connection.set_deadline(self._settings.statement_timeout_s)
        job.error = None
        try:
            job.result = job.work(subject)
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller
            job.error = self._translated(error)
        self._connection.set_deadline(None)

    def _fail(self, jobs: Sequence[Job[Any]], error: BaseException) -> None:
        # What cannot be undone now must be before the next transaction begins.
        with suppress(sqlite3.Error):
            self._undo()
        for job in jobs:
            if job.error is None:
                job.error = self._translated(error)

    def _translated(self, error: BaseException) -> BaseException:
        # One instance for each job: an exception carries the traceback of who raised it last.
        if isinstance(error, DatabaseUnavailable):
            return DatabaseUnavailable(*error.args)
        ours = translated(error, self._what)
        if ours is not error:
            ours.__cause__ = error
        return ours

    def _patiently(self, statement: str) -> None:
        timeout_s = self._settings.busy_timeout_s
        patiently(lambda: self._connection.driver.execute(statement), self._pause, timeout_s)

    def _pause(self, seconds: float) -> None:
        if self._closing.wait(seconds):
            raise DatabaseUnavailable(
                f"the store of {self._what} closed while others kept the file locked"
            )


def _deliver(jobs: Sequence[Job[Any]]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, finished in by_loop.items():
        try:
            loop.call_soon_threadsafe(_deliver_here, finished)
        except RuntimeError:
            # The loop is closed: nobody waits there any more.
            continue


def _deliver_here(jobs: Sequence[Job[Any]]) -> None:
    for job in jobs:
        job.deliver()
