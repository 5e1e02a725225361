"""Tasks and background services: the only place where the library creates asyncio tasks."""

import asyncio
import contextvars
import logging
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

log = logging.getLogger("perdure")

T = TypeVar("T")


class Service(Protocol):
    """Something that works in the background between `start` and `stop`."""

    async def start(self) -> None:
        """Begin; raises if it cannot."""
        ...

    async def stop(self) -> None:
        """End and wait until nothing of it runs; safe to call twice and before `start`."""
        ...


class Tasks:
    """Creates tasks, keeps them alive, and can end them all.

    They run in a copy of the context the engine was started in, so that nothing of a caller's
    context leaks into a run, and a recovered run sees what a fresh one sees.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._at_end = self._ended
        self._context = contextvars.copy_context()

    def spawn(self, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run `work` as a tracked task."""
        context = self._context.copy()
        task = asyncio.get_running_loop().create_task(work, name=name, context=context)
        self._tasks.add(task)
        # One callback and one context for all: thousands of tasks may be waiting.
        task.add_done_callback(self._at_end, context=self._context)
        return task

    def branch(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a branch of the calling code as a tracked task, in a copy of its context."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._at_end, context=self._context)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """Say so when a task ended by a fault; asyncio would, whenever it is collected."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            log.error("%s ended by a fault of the engine", task.get_name(), exc_info=error)

    async def end(self, patience_s: float = 1.0) -> None:
        """Cancel whatever still runs and wait until it has ended, at most that long.

        Code of a user may take no notice of being cancelled, and must not hold up a stop.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + patience_s
        while self._tasks and loop.time() < give_up_at:
            running = list(self._tasks)
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=give_up_at - loop.time())


class Loop:
    """A service that repeats one action until it is stopped; an error is logged, never fatal.

    The action returns how many seconds to wait before the next turn, None for until `wake`.
    """

    def __init__(self, tasks: Tasks, name: str) -> None:
        self._tasks = tasks
        self._name = name
        self._wake = asyncio.Event()
        self._is_ending = False
        self._task: asyncio.Task[None] | None = None

    async def turn(self) -> float | None:
        """One turn of the work."""
        raise NotImplementedError

    def wake(self) -> None:
        """Let the next turn begin now."""
        self._wake.set()

    async def start(self) -> None:
        """Begin turning."""
        self._is_ending = False
        self._task = self._tasks.spawn(self._run(), f"perdure-{self._name}")

    async def stop(self) -> None:
        """Stop turning; a turn under way is cancelled."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def finish(self, patience_s: float) -> None:
        """Stop turning after the turn under way; one that takes longer than that is cancelled."""
        self._is_ending = True
        self.wake()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=patience_s)
        await Loop.stop(self)

    async def _run(self) -> None:
        failures = 0
        while not self._is_ending:
            self._wake.clear()
            try:
                pause = await self.turn()
                failures = 0
            except Exception:
                failures += 1
                pause = min(0.5 * 2 ** min(failures, 5), 15.0)
                log.exception("%s failed; it tries again in %.1f s", self._name, pause)
            await self._pause(pause)

    async def _pause(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
