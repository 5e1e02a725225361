"""What the real TypeScript SDK sees of our workflows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from perdure import sleep, step, workflow
from tests.support.engines import Lab
from tests.support.reference import read_with_typescript


class OutOfStock(Exception):
    """An application's own error, with what the envelope has places for."""

    code = 42

    def __init__(self, item: str) -> None:
        super().__init__(f"no more {item}")
        self.data = {"item": item}


@step(name="weigh")
async def weigh(item: str) -> float:
    if item == "void":
        raise OutOfStock(item)
    return 1.5


@workflow(name="pack")
async def pack(item: str) -> dict[str, Any]:
    await sleep(0.001)
    return {"item": item, "weight": await weigh(item), "tags": ["é", None, True]}


async def test_results_errors_and_steps_are_read_as_they_are(
    postgres_lab: Lab, typescript_sdk: Path
) -> None:
    await postgres_lab.start(pack)
    for item in ("lamp", "void"):
        await pack.options(id=item).start(item)
        await postgres_lab.until(item)
    lamp, void = await asyncio.to_thread(
        read_with_typescript, typescript_sdk, postgres_lab.url, "lamp", "void"
    )
    assert lamp["status"] == "SUCCESS"
    assert lamp["result"] == {"item": "lamp", "weight": 1.5, "tags": ["é", None, True]}
    assert [each[:2] for each in lamp["steps"]] == [[1, "DBOS.sleep"], [2, "weigh"]]
    assert lamp["steps"][1][2] == 1.5
    assert void["status"] == "ERROR"
    expected = {"name": "OutOfStock", "message": "no more void", "code": 42}
    assert void["error"] == {**expected, "data": {"item": "void"}}
