"""Waiting for a condition, with a deadline: the only way a test waits for what sends no signal."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

DEADLINE_S = 60.0
_PAUSE_S = 0.01


def wait_until(condition: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Returns once the condition is true; an AssertionError after the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"{_shown(condition)} was not true within {deadline_s:g} s"
        time.sleep(_PAUSE_S)


async def eventually(
    condition: Callable[[], Awaitable[object] | object], deadline_s: float = DEADLINE_S
) -> None:
    """`wait_until` for a running loop; the condition may be a coroutine function."""
    end = time.monotonic() + deadline_s
    while True:
        answer = condition()
        if await answer if inspect.isawaitable(answer) else answer:
            return
        assert time.monotonic() < end, f"{_shown(condition)} was not true within {deadline_s:g} s"
        await asyncio.sleep(_PAUSE_S)


def _shown(condition: Callable[[], object]) -> str:
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):
        return repr(condition)
