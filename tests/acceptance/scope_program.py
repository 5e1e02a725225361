"""A process that runs a workflow of nested scopes to its end and prints what is recorded of it.

`python -m tests.acceptance.scope_program URL default|eager|uvloop`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from perdure import Engine
from tests.support.scope_programs import SCHEDULE, Node, labelled, program, small

CALL: Node = ["step", "", 5]
SOME: Node = ["seq", [CALL, ["try", ["fail", "", 0]], CALL]]
ROOT: Node = [
    "seq",
    [
        ["gather", [SOME, CALL, ["select", [["sleep", "", 10**8], SOME]], ["child", "", 0]], True],
        ["map", [SOME, ["timeout", SOME, 10**8], CALL, ["gather", [CALL, CALL], False]], 2],
        ["try", ["gather", [["seq", [CALL, ["fail", "", 0]]], ["sleep", "", 10**8]], False]],
        CALL,
    ],
]


async def main(url: str, loop: str) -> None:
    if loop == "eager":
        factory: Any = getattr(asyncio, "eager_task_factory", None)
        asyncio.get_running_loop().set_task_factory(factory)
    SCHEDULE.begin(hash("a seed of its own in every process"))
    async with Engine(url, workflows=[program, small], heartbeat=0.1) as engine:
        handle = await program.options(id="w").start(labelled(ROOT))
        result = await handle
        rows = await engine.workflows.steps("w")
    history = sorted((int(row.step_id), row.name, row.output, row.error) for row in rows)
    print(json.dumps([result, history, len(SCHEDULE.effects)]))


def new_loop(loop: str) -> asyncio.AbstractEventLoop:
    if loop == "uvloop":
        import uvloop  # noqa: PLC0415 - not installed everywhere

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


if __name__ == "__main__":
    url, loop = sys.argv[1:]
    with asyncio.Runner(loop_factory=lambda: new_loop(loop)) as runner:
        runner.run(main(url, loop))
