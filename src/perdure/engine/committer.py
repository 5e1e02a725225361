"""Group commit: what all runs want written while a commit is in flight goes into the next one.

A lane is one kind of write: a queue and one write in flight. When idle it flushes at once, so a
lone write pays one round trip and no timer; under load the batch grows by itself.

What can happen to a batch, and what follows:

- the store is unreachable, or rolled back: the same batch again after a back-off, for as long as
  the lane is open; every item's key was fixed before the first try, so a try whose answer was
  lost is recognised as *mine*;
- the database refuses a value: the batch is halved until the bad item stands alone; only that one
  fails;
- a row is busy: its item moves to a side queue and is tried again there, so it delays nobody;
- the caller of an unsent item is cancelled: the item is withdrawn; of a sent one: the answer still
  arrives in `Entry.settled`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from perdure.engine.services import Tasks
from perdure.errors import DatabaseConflict, DatabaseRejected, DatabaseUnavailable
from perdure.logic.retry import BUSY, CONFLICT, UNAVAILABLE
from perdure.model.answer import WRITTEN, Answer, AnswerKind
from perdure.ports.clock import Clock
from perdure.ports.ids import Ids

log = logging.getLogger("perdure")

LEAST_REST_S = 0.005
"""How long a long job rests at least between two of its parts."""

Item = TypeVar("Item")
A = TypeVar("A", bound=Answer[Any])
T = TypeVar("T")


class Entry(Generic[Item, A]):
    """One item on its way: `future` is the caller's, and may be cancelled at any time.

    `is_out` says, of a cancelled future, whether the item was sent and its answer is not known.
    """

    __slots__ = ("future", "is_out", "item", "settled", "then", "tries")

    def __init__(
        self, item: Item, future: asyncio.Future[A], then: Callable[[A], None] | None = None
    ) -> None:
        self.item = item
        self.future = future
        self.then = then
        self.is_out = False
        self.settled: asyncio.Future[None] | None = None
        self.tries = 0

    def answer(self, answer: A) -> None:
        """Deliver the answer to everyone who waits for it."""
        if self.then is not None:
            self.then(answer)
        if not self.future.done():
            self.future.set_result(answer)
        self.settle()

    def fail(self, error: BaseException) -> None:
        """Deliver a failure in place of an answer."""
        if not self.future.done():
            self.future.set_exception(error)
        self.settle()

    def settle(self) -> None:
        """Note that the answer is known, where its caller was cancelled and cannot learn it."""
        self.is_out = False
        if self.settled is not None and not self.settled.done():
            self.settled.set_result(None)


class Retry:
    """Repeats an operation of the store until it is answered or refused for good."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids

    async def __call__(self, operation: Callable[[], Awaitable[T]], what: str) -> T:
        """The operation's result; raises only what repeating cannot cure."""
        failures = 0
        while True:
            try:
                return await operation()
            except (DatabaseUnavailable, DatabaseConflict) as error:
                failures += 1
                await self.pause(error, failures, what)

    async def at_leisure(self, operation: Callable[[], Awaitable[T]], what: str) -> T:
        """The same as a part of a long job: afterwards rest for as long as it took."""
        began_s = self._clock.monotonic()
        result = await self(operation, what)
        await self._clock.sleep(max(self._clock.monotonic() - began_s, LEAST_REST_S))
        return result

    async def pause(
        self, error: DatabaseUnavailable | DatabaseConflict, failures: int, what: str
    ) -> None:
        """Back off after that many failures in a row, saying so once it lasts."""
        backoff = CONFLICT if isinstance(error, DatabaseConflict) else UNAVAILABLE
        delay = backoff.delay_s(failures, self._ids.jitter())
        if failures in _WORTH_SAYING:
            log.warning(
                "%s: %s (try %d); trying again in %.2f s, runs wait meanwhile",
                what,
                error,
                failures,
                delay,
            )
        await self._clock.sleep(delay)

    async def wait_busy(self, tries: int) -> None:
        """Wait before a row that somebody else has locked is tried again."""
        await self._clock.sleep(BUSY.delay_s(tries, self._ids.jitter()))


_WORTH_SAYING = frozenset({3, 10, 30, 100, 300, 1000})


class OpenClose(Protocol):
    """A lane, whatever it carries."""

    def open(self, tasks: Tasks) -> None:
        """Begin to write."""
        ...

    async def close(self, reason: BaseException) -> None:
        """Stop writing; whatever is still queued fails with `reason`."""
        ...


class Lane(Generic[Item, A]):
    """One kind of hot write, in batches, one at a time."""

    def __init__(
        self,
        name: str,
        write: Callable[[Sequence[Item]], Awaitable[list[A]]],
        retry: Retry,
        *,
        max_batch: int,
        capacity: int = 20_000,
    ) -> None:
        self._name = name
        self._write = write
        self._retry = retry
        self._max_batch = max_batch
        self._capacity = capacity
        self._queue: deque[Entry[Item, A]] = deque()
        self._busy: deque[Entry[Item, A]] = deque()
        self._arrived = asyncio.Event()
        self._is_idle = True
        self._new_future: Callable[[], asyncio.Future[A]] = _no_loop
        self._busy_arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closed: BaseException | None = None
        self._workers: list[asyncio.Task[None]] = []

    def open(self, tasks: Tasks) -> None:
        """Begin to write."""
        self._closed = None
        self._new_future = asyncio.get_running_loop().create_future
        self._workers = [
            tasks.spawn(self._work(), f"perdure-lane-{self._name}"),
            tasks.spawn(self._work_busy(), f"perdure-lane-{self._name}-busy"),
        ]

    async def close(self, reason: BaseException) -> None:
        """Stop writing; whatever is still queued fails with `reason`."""
        self._closed = reason
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.cancel()
        if workers:
            await asyncio.wait(workers)
        self._give_up()

    def _give_up(self) -> None:
        """Fail what waits, and what comes: somebody cancelled a worker, or the lane is closed."""
        if self._closed is None:
            self._closed = DatabaseUnavailable(f"writing {self._name} was stopped")
        for entry in (*self._queue, *self._busy):
            entry.fail(self._closed)
        self._queue.clear()
        self._busy.clear()
        self._room.set()

    @property
    def is_full(self) -> bool:
        """Whether callers should `await room()` before they submit more."""
        return len(self._queue) >= self._capacity

    async def room(self) -> None:
        """Wait until the queue is shorter than its capacity."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    def submit(self, item: Item, then: Callable[[A], None] | None = None) -> Entry[Item, A]:
        """Queue an item. `then` is called with its answer even if the caller is gone by then.

        Without `then`, an item whose future is cancelled before it was sent is withdrawn.
        """
        entry: Entry[Item, A] = Entry(item, self._new_future(), then)
        if self._closed is not None:
            entry.fail(self._closed)
            return entry
        self._queue.append(entry)
        if self._is_idle:
            self._is_idle = False
            self._arrived.set()
        return entry

    async def _work(self) -> None:
        try:
            while True:
                await self._arrived.wait()
                while self._queue:
                    await self._write_out(self._next_batch())
                    # Lets everyone just answered queue their next item before the next flush.
                    await asyncio.sleep(0)
                self._arrived.clear()
                self._is_idle = True
        finally:
            self._give_up()

    def _next_batch(self) -> list[Entry[Item, A]]:
        batch: list[Entry[Item, A]] = []
        queue = self._queue
        while queue and len(batch) < self._max_batch:
            entry = queue.popleft()
            if entry.then is None and entry.future.cancelled():
                continue
            entry.is_out = True
            batch.append(entry)
        if not self._room.is_set() and not self.is_full:
            self._room.set()
        return batch

    async def _write_out(self, batch: list[Entry[Item, A]]) -> None:
        try:
            await self._flush(batch)
        except asyncio.CancelledError:
            self._abandon(batch)
            raise

    async def _flush(self, batch: list[Entry[Item, A]]) -> None:
        """Write a batch to its end: every entry answered, failed, or moved to the busy side."""
        failures = 0
        items = [entry.item for entry in batch]
        while batch:
            try:
                self._deliver(batch, await self._write(items))
            except (DatabaseUnavailable, DatabaseConflict) as error:
                failures += 1
                await self._retry.pause(error, failures, f"writing {self._name}")
                continue
            except Exception as error:  # noqa: BLE001 - a fault must not leave callers waiting
                await self._isolate(batch, error)
            return

    def _deliver(self, batch: list[Entry[Item, A]], answers: list[A]) -> None:
        for entry, answer in zip(batch, answers, strict=True):
            if answer is WRITTEN and entry.then is None and entry.settled is None:
                if entry.future.done():
                    entry.settle()
                else:
                    entry.future.set_result(answer)
            elif answer.kind is AnswerKind.BUSY:
                self._busy.append(entry)
                self._busy_arrived.set()
            else:
                entry.answer(answer)

    async def _isolate(self, batch: list[Entry[Item, A]], error: Exception) -> None:
        """Find the items that fail by themselves; the others are written."""
        if len(batch) == 1 or not isinstance(error, DatabaseRejected):
            for entry in batch:
                entry.fail(error)
            return
        middle = len(batch) // 2
        await self._flush(batch[:middle])
        await self._flush(batch[middle:])

    def _abandon(self, batch: list[Entry[Item, A]]) -> None:
        reason = self._closed or DatabaseUnavailable(f"writing {self._name} was stopped")
        for entry in batch:
            entry.fail(reason)

    async def _work_busy(self) -> None:
        while True:
            await self._busy_arrived.wait()
            while self._busy:
                batch = [self._busy.popleft() for _ in range(len(self._busy))]
                for entry in batch:
                    entry.tries += 1
                try:
                    await self._retry.wait_busy(min(entry.tries for entry in batch))
                    for start in range(0, len(batch), self._max_batch):
                        await self._flush(batch[start : start + self._max_batch])
                except asyncio.CancelledError:
                    self._abandon(batch)
                    raise
            self._busy_arrived.clear()


def _no_loop() -> Any:
    raise DatabaseUnavailable("the engine is not running")
