"""When to ask the database about everything that is waited for.

At intervals that grow while nobody new begins to wait, or sooner when there is reason; never so
often that the process does little else.
"""

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 1.0
_GROWTH: Final = 1.5

LEAST_REST_S = 0.02
"""After a poll, whatever is heard."""

_REST: Final = 9.0
"""How many times as long as the last poll took the process at least does something else."""


class Polling:
    """The instants of one poll. With `is_told` hints come, so that it need not be frequent."""

    def __init__(self, *, is_told: bool) -> None:
        self._first_pause_s = LONGEST_PAUSE_S if is_told else FIRST_PAUSE_S
        self._pause_s = self._first_pause_s
        self._due_s = math.inf
        self._rested_s = -math.inf

    def begin_anew(self) -> bool:
        """Somebody new waits; whether that makes the next poll come sooner."""
        self._pause_s = self._first_pause_s
        return self.within(self._pause_s)

    def within(self, seconds: float) -> bool:
        """Poll so soon at the latest; whether that is sooner than it would have been."""
        at_s = asyncio.get_running_loop().time() + seconds
        is_sooner = at_s < self._due_s
        if is_sooner:
            self._due_s = at_s
        return is_sooner

    def left_s(self) -> float:
        """Seconds until the next poll, not below 0."""
        now_s = asyncio.get_running_loop().time()
        return max(self._due_s - now_s, self._rested_s - now_s, 0.0)

    def pause(self) -> None:
        """Nobody waits."""
        self._due_s = math.inf

    @contextmanager
    def asking(self) -> Iterator[None]:
        """One poll. Whoever asks for another from here on gets one."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        self._due_s = begun_s + self._pause_s
        self._pause_s = min(self._pause_s * _GROWTH, LONGEST_PAUSE_S)
        yield
        ended_s = loop.time()
        self._rested_s = ended_s + max(LEAST_REST_S, (ended_s - begun_s) * _REST)
