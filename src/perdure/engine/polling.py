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


class Rest:
    """How long the database is left alone after it was asked something, whatever is heard.

    At least `least_s`, and `times` as long as the asking took.
    """

    def __init__(self, least_s: float, times: float) -> None:
        self._least_s = least_s
        self._times = times
        self._until_s = -math.inf

    def left_s(self) -> float:
        """Seconds of it that are left, not below 0."""
        return max(self._until_s - asyncio.get_running_loop().time(), 0.0)

    @contextmanager
    def after(self) -> Iterator[None]:
        """The asking."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        yield
        ended_s = loop.time()
        self._until_s = ended_s + max(self._least_s, (ended_s - begun_s) * self._times)


class Polling:
    """The instants of one poll. With `is_told` hints come, so that it need not be frequent."""

    def __init__(self, *, is_told: bool) -> None:
        self._first_pause_s = LONGEST_PAUSE_S if is_told else FIRST_PAUSE_S
        self._pause_s = self._first_pause_s
        self._due_s = math.inf
        self._rest = Rest(LEAST_REST_S, _REST)

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
        return max(self._due_s - now_s, self._rest.left_s())

    def pause(self) -> None:
        """Nobody waits."""
        self._due_s = math.inf

    @contextmanager
    def asking(self) -> Iterator[None]:
        """One poll. Whoever asks for another from here on gets one."""
        self._due_s = asyncio.get_running_loop().time() + self._pause_s
        self._pause_s = min(self._pause_s * _GROWTH, LONGEST_PAUSE_S)
        with self._rest.after():
            yield
