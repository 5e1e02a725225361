"""Engines that die, without a process that has to."""

from __future__ import annotations

from perdure import Engine
from perdure.api.running import RUNNING


async def crash(engine: Engine) -> None:
    """End an engine as a kill of its process would end it.

    Nothing is released and nothing written: the rows it owns stay PENDING in its name, its lease
    stands, its lock is free. A step in a thread goes on, as it does on a host that was cut off.
    """
    kernel = engine.kernel
    # A stop would say goodbye to its runs first; what follows that goodbye is a death.
    engine._kernel = None  # noqa: SLF001
    kernel.stopping = True
    RUNNING.remove(kernel)
    await kernel._end_everything()  # noqa: SLF001
    await kernel.store.close()
