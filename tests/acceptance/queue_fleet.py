"""Worker processes on one database, what they leave behind, and the log of who owned what."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from perdure import Engine, Queue
from tests.acceptance.queue_program import WORKFLOWS
from tests.support.engines import Lab
from tests.support.ownership import Ownership, watched_ownership
from tests.support.process import ChildProcess
from tests.support.waiting import eventually

OPEN = "('ENQUEUED', 'PENDING', 'DELAYED')"


class Fleet:
    """The processes; `log` is the database's own of what each of them owned when."""

    def __init__(self, lab: Lab, folder: Path, log: Ownership, stack: ExitStack) -> None:
        self.lab = lab
        self.log = log
        self.effects = str(folder / "effects")
        self.gate = str(folder / "gate")
        self._stack = stack

    async def submitter(self, *queues: Queue) -> Engine:
        """An engine of the test's own that registers queues and serves none."""
        return await self.lab.start(*WORKFLOWS, queues=queues, listen=[])

    async def worker(self, **settings: Any) -> ChildProcess:
        """A process that has begun to serve; `settings` are those of `queue_program`."""
        return (await self.workers(1, **settings))[0]

    async def workers(self, count: int, **settings: Any) -> list[ChildProcess]:
        """Several of them, which come up together."""
        processes = [
            self._stack.enter_context(
                ChildProcess(
                    "-m", "tests.acceptance.queue_program", self.lab.url, json.dumps(settings)
                )
            )
            for _ in range(count)
        ]
        for process in processes:
            for _ in range(settings.get("engines", 1)):
                await process.reaches("ready")
        return processes

    def open_gate(self) -> None:
        """Let what waits for the gate go on."""
        Path(self.gate).touch()

    @property
    def words(self) -> Counter[str]:
        """How often each step that has an effect had it."""
        file = Path(self.effects)
        return Counter(file.read_text().splitlines()) if file.exists() else Counter()

    async def count(self, queue: str, states: str = OPEN) -> int:
        """How many workflows of the queue are in one of these states."""
        found = await self.lab.rows(
            "SELECT count(*) AS n FROM workflow_status"
            f" WHERE queue_name = ? AND status IN {states}",
            queue,
        )
        return int(found[0]["n"])

    async def pending(self, queue: str) -> int:
        """How many workflows of the queue are owned."""
        return await self.count(queue, "('PENDING')")

    async def until_pending(self, queue: str, count: int) -> None:
        """Wait until exactly that many of its workflows are owned."""

        async def reached() -> bool:
            return await self.pending(queue) == count

        await eventually(reached)

    async def until_drained(self, queue: str) -> None:
        """Wait until every workflow of the queue is at its end."""

        async def drained() -> bool:
            return await self.count(queue) == 0

        await eventually(drained)

    async def states(self, queue: str) -> dict[str, int]:
        """How many workflows of the queue are in each state."""
        rows = await self.lab.rows(
            "SELECT status, count(*) AS n FROM workflow_status WHERE queue_name = ?"
            " GROUP BY status",
            queue,
        )
        return {row["status"]: row["n"] for row in rows}


@asynccontextmanager
async def fleet_on(lab: Lab, folder: Path) -> AsyncIterator[Fleet]:
    """A fleet without processes so far; they are gone at the end."""
    async with watched_ownership(lab.backdoor, lab.kind) as log:
        with ExitStack() as stack:
            yield Fleet(lab, folder, log, stack)
