"""Durable sleep."""

import asyncio
from collections.abc import Awaitable

import msgspec

from perdure.engine.journal import DurableCall, PendingCall
from perdure.engine.run import Run
from perdure.errors import CallSpent
from perdure.logic.durations import Duration, seconds_of, to_ms
from perdure.model.wire import PORTABLE_JSON, SLEEP
from perdure.model.workflow import StepRow


class SleepCall(DurableCall[None]):
    """One sleep; its record holds the instant it wakes, in seconds since the epoch."""

    __slots__ = ("_seconds",)

    waits = True

    def __init__(self, seconds: float) -> None:
        super().__init__(SLEEP)
        self._seconds = seconds

    async def plain(self) -> None:
        """Just sleep."""
        await asyncio.sleep(self._seconds)

    async def perform(self, run: Run) -> None:
        """Fix the instant, record it, and wait for it."""
        now_ms = run.kernel.time.now_ms()
        wake_ms = now_ms + to_ms(self._seconds)
        standing = await run.kernel.journal.record(
            run,
            self.checkpoint(
                run,
                now_ms,
                output=msgspec.json.encode(wake_ms / 1000).decode(),
                completed_at_ms=wake_ms,
                serialization=PORTABLE_JSON,
            ),
        )
        if standing is not None:
            await self.replay(run, standing)
        else:
            await _rest(run, wake_ms)

    async def replay(self, run: Run, row: StepRow) -> None:
        """Wait only for what is left of it."""
        try:
            wake_s = msgspec.json.decode(row.output or "", type=float)
        except msgspec.MsgspecError as error:
            raise run.disagree(row.step_id, self.name, row) from error
        await _rest(run, wake_s * 1000)


def _rest(run: Run, wake_ms: float) -> Awaitable[None]:
    """What is left until that instant. No coroutine of its own: thousands may be waiting."""
    return run.kernel.clock.sleep(max(run.kernel.time.seconds_until(wake_ms), 0.0))


class NoSleep(PendingCall[None]):
    """A sleep of zero takes no id and leaves no row, as the wire has it."""

    __slots__ = ("_spent",)

    def __init__(self) -> None:
        super().__init__(SLEEP)
        self._spent = False

    def spend(self) -> None:
        """See `PendingCall.spend`."""
        self._spent = True

    async def _drive(self) -> None:
        if self._spent:
            raise CallSpent(f"{self.name!r} was awaited twice, or lost a race")
        self._spent = True
        await asyncio.sleep(0)


def sleep(
    duration: Duration = 0,
    /,
    *,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
) -> PendingCall[None]:
    """Wait that long, durably: the instant of waking is recorded and survives restarts.

    `duration` is seconds or a timedelta; the keyword parts add to it. Zero takes no step id and
    waits for nothing; a negative, NaN or infinite duration raises `InvalidArgument`. Outside a
    workflow, and inside a step, it is a plain sleep.

    >>> await sleep(hours=24)
    """
    parts = (days * 86400, hours * 3600, minutes * 60, seconds)
    total = seconds_of(duration, "duration") + sum(seconds_of(part, "duration") for part in parts)
    return SleepCall(seconds_of(total, "duration")) if total > 0 else NoSleep()
