"""Time and randomness as production has them."""

import asyncio
import os
import random
import sys
import time
from collections.abc import Callable
from functools import partial

from perdure.model.ids import BOOT_PREFIX, BootId, OwnerToken, WorkflowId

_PLATFORM_CLOCKS = {"linux": "CLOCK_BOOTTIME", "darwin": "CLOCK_MONOTONIC"}
"""Clocks that count the time of a suspended machine too; `time.monotonic` does not."""


def _monotonic() -> Callable[[], float]:
    """The clock to read: chosen once, for it is read several times in each step."""
    clock = getattr(time, _PLATFORM_CLOCKS.get(sys.platform, ""), None)
    return time.monotonic if clock is None else partial(time.clock_gettime, clock)


class SystemClock:
    """The operating system's clocks."""

    monotonic = staticmethod(_monotonic())
    """A process that slept must see the gap in its own heartbeats before it judges others."""

    def offset_ms(self) -> int:
        """Nothing is added to the database's clock."""
        return 0

    sleep = staticmethod(asyncio.sleep)


class SystemIds:
    """Random identities from the operating system, jitter from a generator of our own."""

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 - jitter, no secret

    def workflow_id(self) -> WorkflowId:
        """A random UUID, version 4."""
        text = os.urandom(16).hex()
        variant = "89ab"[int(text[16], 16) & 3]
        return WorkflowId(
            f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"
        )

    def token(self) -> OwnerToken:
        """128 random bits."""
        return OwnerToken(os.urandom(16).hex())

    def boot_id(self) -> BootId:
        """A random boot id."""
        return BootId(BOOT_PREFIX + os.urandom(16).hex())

    def jitter(self) -> float:
        """A factor in [0.5, 1.5)."""
        return 0.5 + self._random.random()
