"""One value after the other: when each was asked for, and how long it took."""

import asyncio
import time

REST_S = 0.01
"""So that whoever asked waits by then."""


class Lockstep:
    """How far somebody is, in whatever thread."""

    def __init__(self) -> None:
        self._reached = -1

    def reach(self, number: int) -> None:
        """That one is asked for, or has arrived."""
        self._reached = number

    async def until(self, number: int) -> None:
        """Wait until that one is reached, and a little longer."""
        # The other may be in another thread; the time that is measured has not begun.
        while self._reached < number:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await rest()


async def rest() -> None:
    """Let whoever asked begin to wait."""
    await asyncio.sleep(REST_S)


def elapsed_ms(since_s: float) -> float:
    """The milliseconds since then, on the clock that all processes of a machine share."""
    return (time.monotonic() - since_s) * 1000


def length_s(number: int) -> float:
    """How long the workflow of that number takes: spread over any interval of a second."""
    return 0.2 + number % 10 / 10
