"""A workflow held in each kind of durable call, so that a test may do something to it there."""

from __future__ import annotations

import threading
from typing import Any

from perdure import current, recv, sleep, step, workflow
from perdure.api.workflow import Workflow
from tests.support.engines import Lab
from tests.support.waiting import DEADLINE_S, eventually

DAY = 86_400

WAITING = ["sleeping", "receiving", "waiting"]
"""Calls that only wait, for a day."""

AT_ONCE = [*WAITING, "preemptible", "preemptible_thread"]
"""Calls that a signal to their run ends at once."""

AT_ITS_END = ["running", "thread"]
"""Calls that end by themselves first."""


@workflow(name="sleeper")
async def sleeper() -> None:
    """Sleep for a day."""
    await sleep(DAY)


class Held:
    """One workflow, the call that it is held in, and what became of both."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()
        self.told: list[bool] = []
        self.after: list[str] = []

    def workflow(self, kind: str) -> Workflow[[], Any]:
        """A workflow named `held` that is in a call of that kind."""
        call = getattr(self, kind)()

        @workflow(name="held")
        async def held() -> str:
            await call()
            self.after.append("went on")
            return "over"

        return held

    def sleeping(self) -> Any:
        return lambda: sleep(DAY)

    def receiving(self) -> Any:
        return lambda: recv(timeout=DAY)

    def waiting(self) -> Any:
        return sleeper

    def preemptible(self) -> Any:
        @step(preemptible=True)
        async def preemptible() -> None:
            await self._wait()

        return preemptible

    def preemptible_thread(self) -> Any:
        @step(preemptible=True)
        def preemptible() -> None:
            self.begun.set()
            self.told.append(current().cancellation.wait(DEADLINE_S))

        return preemptible

    def running(self) -> Any:
        @step
        async def running() -> None:
            await self._wait()

        return running

    def thread(self) -> Any:
        @step
        def thread() -> None:
            self.begun.set()
            assert self.go.wait(DEADLINE_S)

        return thread

    async def _wait(self) -> None:
        self.begun.set()
        await eventually(self.go.is_set)


async def held_in(lab: Lab, held: Held, kind: str, **options: Any) -> None:
    """Start the workflow as `w` on a new engine, and wait until it is in the call."""
    each = held.workflow(kind)
    engine = await lab.start(each, sleeper, **options)
    await each.options(id="w", engine=engine).start()
    if kind in WAITING:
        await lab.until_asleep(DAY - 1)
    else:
        await eventually(held.begun.is_set)
