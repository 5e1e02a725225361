"""A pool of one connection: nothing holds one while it asks for another."""

from __future__ import annotations

from typing import Any

from perdure import (
    Queue,
    current,
    gather,
    get_event,
    recv,
    send,
    set_event,
    workflow,
    workflows,
    write_stream,
)
from tests.support.engines import Lab
from tests.support.workflows import child, look


@workflow(name="busy")
async def busy(number: int) -> list[Any]:
    """Everything that a body can do with the database, some of it at the same time."""
    me = current().workflow_id or ""
    begun = await child.start(f"a{number}")
    queued = await child.options(queue="line", partition_key=str(number % 3)).start("b")
    await gather(look(), set_event("key", number), write_stream("log", number), send(me, number))
    told = await gather(recv(), get_event(me, "key", timeout=5))
    await workflows().set_attributes(me, {"number": number})
    return [*told, await begun, await queued, await workflows().count(ids=me)]


async def test_many_workflows_do_everything_at_once(shared_lab: Lab) -> None:
    """B053, B084: children, queues with limits, waits, what is said, commands and retention."""
    lab = shared_lab
    line = Queue("line", partition_concurrency=1, global_concurrency=2)
    engine = await lab.start(busy, child, queues=[line], pool_size=1)
    handles = await busy.options(engine=engine).start_many([(number,) for number in range(20)])
    for number, handle in enumerate(handles):
        expected = [number, number, f"A{number}", "B", 1]
        assert await handle.result(timeout=30) == expected
    assert await engine.workflows.count(states="SUCCESS") == 60
    lab.clock.leap(1)
    assert await engine.workflows.purge(older_than=0) == 60
