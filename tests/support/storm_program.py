"""A process of a storm: serves every queue until it is ended, and notes what its bodies do.

`python -m tests.support.storm_program URL VERSION NAME`
"""

from __future__ import annotations

import asyncio
import sys
import time

from perdure import Engine, sleep, step, workflow
from tests.acceptance.kill_program import note

HEARTBEAT_S = 0.2
LEASE_S = 2.0
STEPS = 3
NOTED_STEPS = 2
"""Those of them that are this program's own."""


class Spoilt(Exception):
    """How a workflow ends that is to fail."""


def tell(effects: str, what: str, workflow_id: str) -> None:
    """Note that this process begins, or ends, a body, or begins a step."""
    note(effects, f"{what} {workflow_id} {sys.argv[3]} {time.time_ns()}")


@step(name="work")
async def work(effects: str, workflow_id: str, pause_s: float) -> None:
    tell(effects, "step", workflow_id)
    await asyncio.sleep(pause_s)


@step(name="blocking work")
def blocking_work(effects: str, workflow_id: str, pause_s: float) -> None:
    tell(effects, "step", workflow_id)
    time.sleep(pause_s)


# However often it is hit, it is to reach its end.
@workflow(name="storm job", max_recovery_attempts=10_000)
async def job(effects: str, workflow_id: str, pause_s: float, fails: bool) -> str:
    tell(effects, "begin", workflow_id)
    await work(effects, workflow_id, pause_s / STEPS)
    await sleep(pause_s / STEPS)
    await blocking_work(effects, workflow_id, pause_s / STEPS)
    tell(effects, "end", workflow_id)
    if fails:
        raise Spoilt(workflow_id)
    return workflow_id


async def main(url: str, version: str, name: str) -> None:
    async with Engine(
        url,
        workflows=[job],
        version=version,
        executor_id=name,
        heartbeat=HEARTBEAT_S,
        lease=LEASE_S,
        grace=0,
    ):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
