"""What the real dbos client sees of our workflows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from perdure import Engine, sleep, step, workflow
from tests.compat.conftest import Dbos
from tests.support.engines import Lab
from tests.support.reference_client import DbosRefused

DAY = 86_400


class OutOfStock(Exception):
    """An application's own error, with what the envelope has places for."""

    def __init__(self, item: str, left: int) -> None:
        super().__init__(f"no more {item}")
        self.code = "E42"
        self.data = {"item": item, "left": left}


@dataclass
class Order:
    item: str
    price: Decimal
    at: datetime


@step(name="weigh")
async def weigh(item: str) -> float:
    if item == "void":
        raise OutOfStock(item, 2)
    return 1.5


@workflow(name="pack")
async def pack(item: str) -> dict[str, Any]:
    return {"item": item, "weight": await weigh(item), "tags": ["é", None, True, 7]}


@workflow(name="order")
async def order(item: str, count: int = 1) -> dict[str, Any]:
    await sleep(0.01)
    packed = await pack(item)
    return {"count": count, **packed}


@workflow(name="typed")
async def typed(wanted: Order) -> Order:
    return wanted


async def test_a_result_is_read_as_it_was_returned(shared_lab: Lab, dbos: Dbos) -> None:
    await shared_lab.start(order, pack)
    expected = await order.options(id="w", attributes={"team": "blue"})("lamp", count=3)
    assert await dbos.ask("result", "w") == expected
    (row,) = await dbos.ask("list_workflows", workflow_ids=["w"])
    assert (row["status"], row["name"]) == ("SUCCESS", "order")
    assert row["input"] == {"args": ["lamp"], "kwargs": {"count": 3}}
    assert (row["output"], row["error"]) == (expected, None)
    assert (row["attributes"], row["queue_name"]) == ({"team": "blue"}, None)
    assert (row["app_version"], row["application_name"]) == ("app@default", "app")
    assert row["executor_id"] == shared_lab.engine.executor_id
    assert row["created_at"] <= row["updated_at"] == row["completed_at"]
    assert (row["class_name"], row["config_name"], row["parent_workflow_id"]) == (None,) * 3


async def test_steps_are_read_with_their_names_outputs_and_children(
    shared_lab: Lab, dbos: Dbos
) -> None:
    await shared_lab.start(order, pack)
    await order.options(id="w")("lamp")
    steps = await dbos.ask("list_workflow_steps", "w")
    assert [(each["function_id"], each["function_name"]) for each in steps] == [
        (1, "DBOS.sleep"),
        (2, "pack"),
        (3, "DBOS.getResult"),
    ]
    nap, start, result = steps
    assert nap["output"] * 1000 == pytest.approx(nap["completed_at_epoch_ms"], abs=1)
    assert (start["child_workflow_id"], start["output"]) == ("w-2", None)
    assert (result["child_workflow_id"], result["output"]["weight"]) == ("w-2", 1.5)
    (inner,) = await dbos.ask("list_workflow_steps", "w-2")
    assert (inner["function_name"], inner["output"], inner["error"]) == ("weigh", 1.5, None)
    assert inner["started_at_epoch_ms"] <= inner["completed_at_epoch_ms"]
    (child,) = await dbos.ask("list_workflows", workflow_ids=["w-2"])
    assert child["parent_workflow_id"] == "w"


async def test_an_error_is_read_with_name_message_code_and_data(
    shared_lab: Lab, dbos: Dbos
) -> None:
    """Of the workflow and of the step that raised it."""
    await shared_lab.start(order, pack, errors=[OutOfStock])
    with pytest.raises(OutOfStock):
        await order.options(id="w")("void")
    with pytest.raises(DbosRefused, match="PortableWorkflowError: no more void") as raised:
        await dbos.ask("result", "w")
    expected = {"name": "OutOfStock", "code": "E42", "data": {"item": "void", "left": 2}}
    assert raised.value.fields.items() >= expected.items()
    (row,) = await dbos.ask("list_workflows", workflow_ids=["w"])
    assert row["status"] == "ERROR"
    assert row["error"].items() >= {**expected, "message": "no more void"}.items()
    (failed,) = await dbos.ask("list_workflow_steps", "w-2")
    assert failed["error"].items() >= expected.items()
    assert failed["output"] is None


async def test_typed_values_are_read_as_the_json_they_are_stored_as(
    shared_lab: Lab, dbos: Dbos
) -> None:
    await shared_lab.start(typed)
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    assert await typed.options(id="w")(Order("lamp", Decimal("9.90"), at)) == Order(
        "lamp", Decimal("9.90"), at
    )
    value = await dbos.ask("result", "w")
    assert (value["item"], value["price"]) == ("lamp", "9.90")
    assert datetime.fromisoformat(value["at"]) == at


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("CANCELLED", "DBOSAwaitedWorkflowCancelledError"),
        ("MAX_RECOVERY_ATTEMPTS_EXCEEDED", "DBOSAwaitedWorkflowMaxRecoveryAttemptsExceeded"),
    ],
)
async def test_endings_without_an_outcome_are_read_as_what_they_are(
    shared_lab: Lab, dbos: Dbos, state: str, error: str
) -> None:
    @workflow(name="naps", max_recovery_attempts=0)
    async def naps() -> None:
        await sleep(DAY)

    engine: Engine = await shared_lab.start(naps)
    handle = await naps.options(id="w").start()
    await shared_lab.until_asleep(DAY - 1)
    if state == "CANCELLED":
        await handle.cancel()
    else:
        await shared_lab.hand_back("w")
    await shared_lab.until("w")
    assert await shared_lab.state("w") == state
    with pytest.raises(DbosRefused) as raised:
        await dbos.ask("result", "w")
    assert raised.value.name == error
    assert (await engine.workflows.get("w")).state == state


async def test_a_client_that_waits_gets_the_result_when_it_comes(
    shared_lab: Lab, dbos: Dbos
) -> None:
    @workflow(name="waits")
    async def waits() -> str:
        await sleep(DAY)
        return "at last"

    await shared_lab.start(waits)
    await waits.options(id="w").start()
    await shared_lab.until_asleep(DAY - 1)
    waiting = asyncio.ensure_future(dbos.ask("result", "w"))
    shared_lab.clock.leap(DAY)
    assert await waiting == "at last"


async def test_listings_find_our_workflows_by_every_common_filter(
    shared_lab: Lab, dbos: Dbos
) -> None:
    await shared_lab.start(order, pack)
    for number in range(3):
        await order.options(id=f"list-{number}")("lamp")

    async def found(**filters: Any) -> list[str]:
        return [row["workflow_id"] for row in await dbos.ask("list_workflows", **filters)]

    assert await found(name="order") == ["list-0", "list-1", "list-2"]
    assert await found(name="order", sort_desc=True, limit=1) == ["list-2"]
    assert await found(workflow_id_prefix="list-1") == ["list-1", "list-1-2"]
    assert len(await found(status="SUCCESS", app_version="app@default")) == 6
    assert await found(status="PENDING") == []
    assert await dbos.ask("list_queued_workflows") == []
