"""Messages, events and streams between our workflows and the real dbos client."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import WorkflowState, close_stream, recv, set_event, workflow, write_stream
from tests.compat.conftest import Dbos
from tests.support.engines import Lab
from tests.support.reference_client import DbosRefused
from tests.support.talking import messages, receives
from tests.support.waiting import eventually


@workflow(name="says")
async def says() -> None:
    await set_event("k", {"a": [1, None, "é"]})
    await set_event("k", "last")
    for value in (1, "two", {"three": 3}):
        await write_stream("s", value)
    await close_stream("s")


@workflow(name="hears")
async def hears() -> Any:
    return await recv("t", timeout=600)


@pytest.mark.usefixtures("dbos_can_write")
async def test_its_messages_arrive_in_order_and_once(shared_lab: Lab, dbos: Dbos) -> None:
    """On the default topic and on others; its idempotency keys are ours."""
    engine = await shared_lab.start(receives)
    handle = await receives.options(id="w").start([None, "t", "t"], 600)
    await dbos.ask("send", "w", {"a": [1, None]})
    for _ in range(2):
        await dbos.ask("send", "w", "one", "t", "key")
    await engine.send("w", "never", "t", idempotency_key="key")

    async def heard() -> bool:
        return all(consumed for _, _, consumed in await messages(shared_lab, "w"))

    # On SQLite it knows whole seconds, within which what it sends has no order.
    await eventually(heard)
    await dbos.ask("send", "w", "two", "t")
    assert await handle.result() == [{"a": [1, None]}, "one", "two"]
    assert len(await messages(shared_lab, "w")) == 3


@pytest.mark.usefixtures("dbos_can_write")
async def test_a_pickled_message_is_read_only_where_pickles_are(
    shared_lab: Lab, dbos: Dbos
) -> None:
    """Where they are not, it is taken and kept, and the run waits for an engine that reads it."""
    engine = await shared_lab.start(hears)
    await hears.options(id="w").start()
    await dbos.ask("send", "w", ["pickled"], "t", portable=False)
    await shared_lab.until("w", WorkflowState.DELAYED)
    assert await messages(shared_lab, "w") != []
    await engine.stop()
    await shared_lab.start(hears, unpickle=True)
    shared_lab.clock.leap(3_600)
    await shared_lab.until("w", WorkflowState.SUCCESS)
    assert await shared_lab.output("w") == '["pickled"]'


async def test_it_reads_our_events_and_streams(shared_lab: Lab, dbos: Dbos) -> None:
    await shared_lab.start(says)
    await says.options(id="w")()
    assert await dbos.ask("get_event", "w", "k", 5) == "last"
    assert await dbos.ask("get_event", "w", "never", 0) is None
    assert await dbos.ask("read_stream", "w", "s") == [1, "two", {"three": 3}]
    assert await dbos.ask("read_stream", "w", "s", offset=1) == ["two", {"three": 3}]


async def test_it_sees_what_was_said_as_steps(shared_lab: Lab, dbos: Dbos) -> None:
    engine = await shared_lab.start(says, hears)
    await says.options(id="w")()
    handle = await hears.options(id="h").start()
    await eventually(lambda: engine.kernel.talk.signals.waiting)
    await engine.send("h", {"a": 1}, "t")
    await handle.result()
    assert [step["function_name"] for step in await dbos.ask("list_workflow_steps", "w")] == [
        *["DBOS.setEvent"] * 2,
        *["DBOS.writeStream"] * 3,
        "DBOS.closeStream",
    ]
    received, limit = await dbos.ask("list_workflow_steps", "h")
    assert (received["function_name"], received["output"]) == ("DBOS.recv", {"a": 1})
    assert limit["function_name"] == "DBOS.sleep"


@pytest.mark.usefixtures("dbos_can_write")
async def test_it_refuses_what_we_refuse(shared_lab: Lab, dbos: Dbos) -> None:
    await shared_lab.start(says)
    with pytest.raises(DbosRefused, match="nobody"):
        await dbos.ask("send", "nobody", 1)
