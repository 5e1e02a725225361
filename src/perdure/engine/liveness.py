"""The heartbeat: an OS thread with its own connection, so that a blocked loop is not a death.

The thread renews the lease, brings back what one statement sees of the fleet, and watches the
engine's loop: it names the frame that blocks it, and after a configured stall it stops renewing,
so that the work of a process that cannot work goes on elsewhere.
"""

import asyncio
import contextlib
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from typing import NamedTuple, Protocol

from perdure.engine.time import Trip
from perdure.errors import DatabaseError, LeaseLost
from perdure.logic.liveness import Rhythm
from perdure.model.ids import BootId, ExecutorId
from perdure.model.lease import Beat, NewLease, Serves
from perdure.model.workflow import WorkflowKey
from perdure.ports.clock import Clock
from perdure.ports.store import LeaseStore
from perdure.ports.store.leases import HeartbeatLink

log = logging.getLogger("perdure")

_LONGEST_GOODBYE_S = 5.0
_BETWEEN_TRIES_S = 0.1

_WORTH_SAYING = frozenset({1, 10, 100})
_NOW_AND_THEN = 1000


class Pulse(NamedTuple):
    """What the thread needs to know: who beats, how often, and what it serves."""

    executor_name: str
    rhythm: Rhythm
    stall_s: float
    queues: Callable[[], tuple[str, ...]]
    keys: Callable[[], tuple[WorkflowKey, ...]]
    serves: Serves
    boot_id: Callable[[], BootId]


class BeatListener(Protocol):
    """Hears the heartbeat, on the engine's loop."""

    def on_lease(self, lease: NewLease) -> None:
        """A lease stands for this boot."""
        ...

    def on_lease_lost(self, lease: NewLease) -> None:
        """This boot was taken for dead; another lease follows."""
        ...

    def on_link_lost(self, at_s: float) -> None:
        """A heartbeat failed at monotonic `at_s`; its link is made anew."""
        ...

    def on_hint(self, text: str) -> None:
        """Another process announced something."""
        ...

    def on_beat(self, beat: Beat, trip: Trip) -> None:
        """A heartbeat was answered."""
        ...


class Heartbeat:
    """A service whose work happens in a thread of its own."""

    def __init__(
        self, store: LeaseStore, clock: Clock, pulse: Pulse, listener: BeatListener
    ) -> None:
        self._store = store
        self._clock = clock
        self._pulse = pulse
        self._listener = listener
        self._thread: threading.Thread | None = None
        self._thread_loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False
        self._wake = asyncio.Event()
        self._engine_loop: asyncio.AbstractEventLoop | None = None
        self._engine_thread = 0
        self._answered_at_s = 0.0
        self._warned = False
        self._boot: BootId | None = None
        self._failures = 0
        self._has_begun = False

    @property
    def boot_id(self) -> BootId | None:
        """The current boot id."""
        return self._boot

    async def start(self) -> None:
        """Start the thread; returns once the first lease stands, raises if it cannot."""
        loop = asyncio.get_running_loop()
        self._engine_loop = loop
        self._engine_thread = threading.get_ident()
        self._answered_at_s = self._clock.monotonic()
        first: asyncio.Future[None] = loop.create_future()
        self._thread = threading.Thread(
            target=self._main, args=(first,), name="perdure-heartbeat", daemon=True
        )
        self._thread.start()
        await first

    async def stop(self) -> None:
        """End the thread and give up its lock; the lease row is the caller's to end."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._thread_loop is not None and not self._thread_loop.is_closed():
            self._thread_loop.call_soon_threadsafe(self._end)
        # A heartbeat that hangs on a dead network must not hold up a shutdown; the lease runs out.
        await asyncio.get_running_loop().run_in_executor(None, thread.join, _LONGEST_GOODBYE_S)

    def _main(self, first: "asyncio.Future[None]") -> None:
        try:
            asyncio.run(self._live(first))
        except BaseException as error:  # noqa: BLE001 - the engine must hear of any end of the thread
            self._post(_set_error, first, error)

    async def _live(self, first: "asyncio.Future[None]") -> None:
        self._thread_loop = asyncio.get_running_loop()
        link: HeartbeatLink | None = None
        lease = self._new_lease()
        try:
            while self._is_wanted():
                try:
                    if link is None:
                        link = self._store.heartbeat_link()
                        link.when_lost(self._wake.set)
                        link.listen(self._hear)
                        await self._open(link, lease, first)
                    await self._beat(link, lease)
                    self._failures = 0
                except LeaseLost:
                    self._post(self._listener.on_lease_lost, lease)
                    lease = self._new_lease()
                    await _close(link)
                    link = None
                    continue
                except Exception as error:
                    if not self._has_begun:
                        raise
                    await self._note_failure(error)
                    await _close(link)
                    link = None
                    continue
                await self._pause(self._pulse.rhythm.heartbeat_s)
                if self._loop_is_stalled():
                    await _close(link)
                    link = None
                    await self._wait_for_loop()
        finally:
            await _close(link)

    def _hear(self, hint: str) -> None:
        self._post(self._listener.on_hint, hint)

    def _is_wanted(self) -> bool:
        """Until the engine stops, or its loop is closed without that: nothing can run there."""
        loop = self._engine_loop
        return not self._is_stopping and loop is not None and not loop.is_closed()

    def _end(self) -> None:
        self._is_stopping = True
        self._wake.set()

    async def _note_failure(self, error: Exception) -> None:
        """Tried again at once, then ten times a second; only the first of many are worth a line."""
        self._failures += 1
        self._post(self._listener.on_link_lost, self._clock.monotonic())
        if self._failures in _WORTH_SAYING or self._failures % _NOW_AND_THEN == 0:
            is_fault = not isinstance(error, DatabaseError)
            log.warning(
                "heartbeat: %s (try %d); reconnecting", error, self._failures, exc_info=is_fault
            )
        if self._failures > 1:
            await self._pause(_BETWEEN_TRIES_S)

    def _new_lease(self) -> NewLease:
        boot = self._pulse.boot_id()
        self._boot = boot
        executor = ExecutorId(f"{self._pulse.executor_name}/{boot}")
        period_ms = int(self._pulse.rhythm.lease_s * 1000)
        return NewLease(boot, executor, period_ms, self._pulse.serves)

    async def _open(
        self, link: HeartbeatLink, lease: NewLease, first: "asyncio.Future[None]"
    ) -> None:
        if not await link.open(lease):
            log.info("no liveness lock: a death of this process shows when its lease runs out")
        # Known here at once: a heartbeat may fail before the engine's loop has heard of the lease.
        self._has_begun = True
        self._post(self._listener.on_lease, lease)
        self._post(_set_done, first)

    async def _beat(self, link: HeartbeatLink, lease: NewLease) -> None:
        asked_at_s = self._clock.monotonic()
        beat = await link.beat(lease, self._pulse.queues(), self._pulse.keys())
        if not beat.held:
            raise LeaseLost(f"the lease of {lease.executor_id} was taken")
        answered_at_s = self._clock.monotonic()
        self._post(self._listener.on_beat, beat, Trip(asked_at_s, answered_at_s))

    async def _pause(self, seconds: float) -> None:
        """Wait that long, or until the engine stops or the link is lost."""
        self._wake.clear()
        if self._is_stopping:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    def _loop_is_stalled(self) -> bool:
        """Whether the engine's loop has not answered for too long; warns well before."""
        lag_s = self._clock.monotonic() - self._answered_at_s - self._pulse.rhythm.heartbeat_s
        self._post(self._answer)
        if lag_s > 5 * self._pulse.rhythm.heartbeat_s and not self._warned:
            self._warned = True
            log.warning(
                "the event loop has not run for %.1f s; something blocks it:\n%s",
                lag_s,
                self._blocking_frames(),
            )
        return lag_s > self._pulse.stall_s

    async def _wait_for_loop(self) -> None:
        log.error(
            "the event loop has stalled for more than %.0f s: this process stops renewing its "
            "lease, its workflows go on elsewhere",
            self._pulse.stall_s,
        )
        asked_at_s = self._clock.monotonic()
        while self._answered_at_s < asked_at_s and self._is_wanted():
            asked_at_s = self._clock.monotonic()
            self._post(self._answer)
            await self._pause(self._pulse.rhythm.heartbeat_s)

    def _answer(self) -> None:
        self._answered_at_s = self._clock.monotonic()
        self._warned = False

    def _blocking_frames(self) -> str:
        frames = sys._current_frames()  # noqa: SLF001 - the way to another thread's stack
        frame = frames.get(self._engine_thread)
        return "".join(traceback.format_stack(frame)[-6:]) if frame else "(its thread is gone)"

    def _post(self, callback: Callable[..., None], *args: object) -> None:
        loop = self._engine_loop
        if loop is not None and not loop.is_closed():
            # It may be closed at this very moment.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(callback, *args)


def _set_done(first: "asyncio.Future[None]") -> None:
    if not first.done():
        first.set_result(None)


def _set_error(first: "asyncio.Future[None]", error: BaseException) -> None:
    if not first.done():
        first.set_exception(error)
    else:
        log.error("the heartbeat thread ended", exc_info=error)


async def _close(link: HeartbeatLink | None) -> None:
    if link is not None:
        await link.close()
