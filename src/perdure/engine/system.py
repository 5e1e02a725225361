"""Time and randomness as production has them."""

import asyncio
import random
import time
import uuid

from perdure.model.ids import BOOT_PREFIX, BootId, OwnerToken, WorkflowId


class SystemClock:
    """The operating system's clocks."""

    monotonic = staticmethod(time.monotonic)

    def offset_ms(self) -> int:
        """Nothing is added to the database's clock."""
        return 0

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""
        await asyncio.sleep(seconds)


class SystemIds:
    """Random identities from the operating system, jitter from a generator of our own."""

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 - jitter, no secret

    def workflow_id(self) -> WorkflowId:
        """A random UUID."""
        return WorkflowId(str(uuid.uuid4()))

    def token(self) -> OwnerToken:
        """A random UUID."""
        return OwnerToken(str(uuid.uuid4()))

    def boot_id(self) -> BootId:
        """A random boot id."""
        return BootId(BOOT_PREFIX + uuid.uuid4().hex)

    def jitter(self) -> float:
        """A factor in [0.5, 1.5)."""
        return 0.5 + self._random.random()
