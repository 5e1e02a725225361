"""Time that a test lets pass, and randomness that it can count on."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass

from perdure.engine.system import SystemIds

SLACK_S = 60.0
"""Until it sleeps, a process on a busy machine may have lost that much of what it is to sleep."""


@dataclass(eq=False, slots=True)
class Sleeper:
    """Somebody who waits on the clock."""

    seconds: float
    until: float
    woken: asyncio.Event


class LeapClock:
    """The real clock, plus what a test lets pass at once.

    Sleepers wake as soon as their time has come, whether it passed or was leapt over. With
    `leaps_over_sleeps` every sleep lets its time pass at once.
    """

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._sleepers: list[Sleeper] = []
        self.slept: list[float] = []
        self.leaps_over_sleeps = False

    def monotonic(self) -> float:
        """Seconds, leaps included."""
        return time.monotonic() + self._ahead_s

    def offset_ms(self) -> int:
        """What is added to the database's clock."""
        return round(self._ahead_s * 1000)

    async def sleep(self, seconds: float) -> None:
        """Wait until that much time has passed or was leapt over."""
        self.slept.append(seconds)
        if self.leaps_over_sleeps:
            self.leap(max(seconds, 0))
        if seconds <= 0 or self.leaps_over_sleeps:
            await asyncio.sleep(0)
            return
        sleeper = Sleeper(seconds, self.monotonic() + seconds, asyncio.Event())
        self._sleepers.append(sleeper)
        try:
            while (left := sleeper.until - self.monotonic()) > 0:
                sleeper.woken.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await sleeper.woken.wait()
        finally:
            self._sleepers.remove(sleeper)

    def leap(self, seconds: float) -> None:
        """Let that much time pass at once."""
        self._ahead_s += seconds
        # Those whose time has not come see how much is left of it: a leap may fall a little short.
        for sleeper in self._sleepers:
            sleeper.woken.set()

    def sleepers(self, at_least: float = 0.0) -> list[float]:
        """The durations of those who asked for about that many seconds, or more, and still wait."""
        return [each.seconds for each in self._sleepers if each.seconds >= at_least - SLACK_S]


class SteadyIds(SystemIds):
    """Random identities; jitter that leaves every back-off as it is."""

    def jitter(self) -> float:
        """Always one."""
        return 1.0
