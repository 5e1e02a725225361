"""Processes that each run one workflow and kill themselves at a chosen write of the store.

`python -m tests.acceptance.kill_program URL EFFECTS [N-MOMENT...]`

The hot writes of a process are numbered from 1 over all kinds. At write N it sends itself SIGKILL:
MOMENT `before` the store is asked, `in` the middle (asked, not answered), or `after` the store
answered and before anybody hears of it. Its workflow is `kN-MOMENT`; with how it ended that is
printed. Without a moment one process lives, and prints how many writes there were.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from perdure import Engine, gather, sleep, step, workflow
from perdure.api import engine as engine_module

HOT = ("start", "record", "finish")
AT_ONCE = 3


def note(effects: str, word: str) -> None:
    """Append a line to the log of effects: one write, so that no kill tears it."""
    descriptor = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{word}\n".encode())
    finally:
        os.close(descriptor)


@step(name="effect")
async def effect(effects: str, word: str) -> str:
    note(effects, word)
    return word.upper()


@step(name="blocking effect")
def blocking_effect(effects: str, word: str) -> str:
    note(effects, word)
    return word.upper()


@workflow(name="kill-child")
async def child(effects: str, word: str) -> str:
    return await effect(effects, f"{word} in child")


@workflow(name="kill-parent")
async def parent(effects: str, word: str) -> list[str]:
    first = await effect(effects, f"{word} first")
    await sleep(0.02)
    second = await child(effects, word)
    together = await gather(
        effect(effects, f"{word} left"), blocking_effect(effects, f"{word} right")
    )
    last = await effect(effects, f"{word} last")
    return [first, second, *together, last]


STEPS = ("first", "in child", "left", "right", "last")


def expected(word: str) -> list[str]:
    """What the workflow returns."""
    return [f"{word} {each}".upper() for each in STEPS]


class KillingStore:
    """Counts hot writes, and ends the process at the chosen moment of the chosen one."""

    def __init__(self, inner: Any, number: int, moment: str) -> None:
        self._inner = inner
        self._number = number
        self._moment = moment
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        target = getattr(self._inner, name)
        return self._deadly(target) if name in HOT else target

    def _deadly(self, write: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def deadly(*args: Any) -> Any:
            self.writes += 1
            if self.writes != self._number:
                return await write(*args)
            if self._moment == "before":
                _die()
            asked = asyncio.ensure_future(write(*args))
            if self._moment == "in":
                # The store has been asked; whether it has done it by now is left to chance.
                for _ in range(3):
                    await asyncio.sleep(0)
                _die()
            await asked
            _die()
            return None

        return deadly


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(url: str, effects: str, workflow_id: str, number: int, moment: str) -> None:
    build = engine_module.build_store
    stores: list[KillingStore] = []

    def deadly(config: Any, clock: Any) -> Any:
        stores.append(KillingStore(build(config, clock), number, moment))
        return stores[-1]

    engine_module.build_store = deadly
    # This process only dies: judging others, or being judged, is not what it is for.
    rhythm = {"heartbeat": 100, "lease": 300}
    async with Engine(url, workflows=[parent, child], migrate=False, **rhythm):
        result = await parent.options(id=workflow_id)(effects, workflow_id)
    assert result == expected(workflow_id), result
    print("writes", stores[0].writes, flush=True)


def begin(url: str, effects: str, kill: str) -> int:
    """A process of its own for that kill, forked, as none of them is here to start Python."""
    pid = os.fork()
    if pid:
        return pid
    try:
        number, moment = kill.split("-")
        asyncio.run(main(url, effects, f"k{kill}", int(number), moment))
        os._exit(0)
    except BaseException:  # noqa: BLE001 - it must not go on as its parent
        traceback.print_exc()
        os._exit(1)


def die_everywhere(url: str, effects: str, kills: list[str]) -> None:
    """Run a process for each kill, a few at once, and print how each ended."""
    running: dict[int, str] = {}
    while kills or running:
        if kills and len(running) < AT_ONCE:
            kill = kills.pop(0)
            running[begin(url, effects, kill)] = kill
            continue
        pid, status = os.wait()
        print(f"k{running.pop(pid)}", os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _, its_url, its_effects, *its_kills = sys.argv
    if its_kills:
        die_everywhere(its_url, its_effects, its_kills)
    else:
        asyncio.run(main(its_url, its_effects, "whole", 0, "never"))
