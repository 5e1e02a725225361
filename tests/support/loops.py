"""A whole program inside a test: an event loop of its own, in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def run_apart(program: Callable[[], Coroutine[Any, Any, object]]) -> BaseException | None:
    """Run it as `asyncio.run` runs a program to its end; returns what came out of it, if anything.

    What ends a process, such as `SystemExit`, ends only that loop.
    """

    def run() -> BaseException | None:
        try:
            asyncio.run(program())
        except BaseException as error:  # noqa: BLE001 - it is what the caller wants to see
            return error
        return None

    return await asyncio.to_thread(run)
