"""A client's handles and waits, and the connections it has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from perdure import (
    AwaitedWorkflowCancelled,
    Client,
    InvalidArgument,
    Queue,
    WorkflowNotFound,
    WorkflowState,
    set_event,
    workflow,
    write_stream,
)
from perdure.errors import NotRunning, WaitInterrupted, WrongPlace
from tests.support.engines import Lab, settle
from tests.support.waiting import eventually
from tests.support.workflows import child, naps

DAY = 86_400
OF_CLIENTS = (
    "SELECT count(*) AS n FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND application_name <> 'standing' AND backend_type = 'client backend'"
)


@workflow(name="says")
async def says(word: str) -> dict[str, set[int]]:
    await set_event("word", word)
    await write_stream("words", word)
    return {word: {1, 2}}


async def connections(lab: Lab) -> int:
    return int((await lab.rows(OF_CLIENTS))[0]["n"])


async def test_a_missing_workflow_has_no_status_and_its_result_is_waited_for(
    shared_lab: Lab,
) -> None:
    lab = shared_lab
    engine = await lab.start(says)
    async with Client(lab.url) as client:
        handle = client.handle("w", into=dict[str, set[int]])
        with pytest.raises(WorkflowNotFound):
            await handle.status()
        with pytest.raises(WorkflowNotFound):
            await client.workflows.get("w")
        waiting = asyncio.ensure_future(handle.result())
        await says.options(id="w", engine=engine)("hello")
        assert await waiting == {"hello": {1, 2}}
        assert await client.handle("w") == {"hello": [1, 2]}
        assert (await handle.status()).state is WorkflowState.SUCCESS


async def test_a_handle_shows_what_its_workflow_says(shared_lab: Lab) -> None:
    await shared_lab.start(says, queues=[Queue("q")])
    async with Client(shared_lab.url) as client:
        handle = await client.enqueue("says", queue="q", args=("hello",))
        assert await handle.event("word", timeout=30) == "hello"
        assert [value async for value in handle.stream("words", timeout=30)] == ["hello"]
        await handle
        assert await handle.events() == {"word": "hello"}
        assert await client.get_event(handle.workflow_id, "nothing", timeout=0) is None


async def test_it_cancels_and_resumes_what_it_did_not_start(shared_lab: Lab) -> None:
    lab = shared_lab
    engine = await lab.start(naps)
    await naps.options(id="w", engine=engine).start(DAY)
    await lab.until_asleep(DAY - 1)
    async with Client(lab.url) as client:
        handle = client.handle("w")
        await handle.cancel()
        with pytest.raises(AwaitedWorkflowCancelled):
            await handle
        await lab.until_nothing_runs()
        await client.workflows.resume(["w"])
        await lab.until_asleep(DAY - 60)
        lab.clock.leap(DAY)
        assert await handle == "awake"
        (again,) = await client.workflows.resume("w")
        assert await again == "awake"
        assert (await again.status()).attempts == (await handle.status()).attempts


async def test_it_forks_tags_and_deletes_what_an_application_runs(shared_lab: Lab) -> None:
    """A delay of what waits already changes nothing, and says so."""
    lab = shared_lab
    await lab.start(child, queues=[Queue("q"), Queue("idle")], listen=["q"])
    async with Client(lab.url) as client:
        on = client.workflows
        await client.enqueue("child", queue="q", args=("x",), id="w", attributes={"a": 1})
        assert await client.handle("w") == "X"
        fork = await on.fork("w", id="f", queue="q")
        assert await fork.result(timeout=30) == "X"
        await on.set_attributes("w", {"customer": 7}, merge=True)
        found = await on.list(attributes={"customer": 7})
        assert [row.workflow_id for row in found] == ["w"]
        assert json.loads(found[0].attributes or "") == {"a": 1, "customer": 7}
        await client.enqueue("child", queue="idle", args=("y",), id="e")
        assert await on.set_delay("e", 60) == []
        assert await lab.state("e") == "ENQUEUED"
        assert await on.delete(["w", "f"]) == ["w", "f"]
        with pytest.raises(WorkflowNotFound):
            await on.get("w")


async def test_the_first_and_all_of_several(shared_lab: Lab) -> None:
    """By handle or id, also such as do not exist yet."""
    lab = shared_lab
    engine = await lab.start(child, naps)
    long = await naps.options(id="long", engine=engine).start(DAY)
    async with Client(lab.url) as client:
        first = asyncio.ensure_future(client.select_workflow([client.handle("long"), "short"]))
        everything = asyncio.ensure_future(client.join(["long", "short"]))
        await child.options(id="short", engine=engine)("x")
        assert await first == "short"
        assert not everything.done()
        await long.cancel()
        await everything
        await client.join([])
        with pytest.raises(InvalidArgument, match="at least one"):
            await client.select_workflow([])
        with pytest.raises(WrongPlace, match="another engine or client"):
            await client.join([long])


async def test_a_close_ends_what_waits(shared_lab: Lab) -> None:
    await shared_lab.start(child)
    client = Client(shared_lab.url)
    await client.open()
    waits: list[Callable[[], Any]] = [
        lambda: client.handle("w").result(),
        lambda: client.join(["w"]),
        lambda: client.select_workflow(["w"]),
    ]
    waiting = [asyncio.ensure_future(_awaited(each)) for each in waits]
    await asyncio.sleep(0)
    await client.close()
    for each in waiting:
        with pytest.raises(WaitInterrupted):
            await each


async def test_nobody_waits_for_a_result_after_the_end(shared_lab: Lab) -> None:
    """Also of what had ended: there is nobody who would ask."""
    lab = shared_lab
    engine = await lab.start(child)
    ended = await child.options(id="w", engine=engine).start("x")
    await ended
    async with Client(lab.url) as client:
        handles = [ended, client.handle("w"), client.handle("missing")]
    await engine.stop()
    for each in handles:
        with pytest.raises(NotRunning, match="was stopped"):
            await each.result(timeout=30)


@pytest.mark.parametrize("turns", [1, 2, 4, 8])
async def test_a_close_that_is_cancelled_leaves_nothing(postgres_lab: Lab, turns: int) -> None:
    """Wherever it was: no wait, and no connection."""
    client = Client(postgres_lab.url)
    await client.open()
    waits: list[Callable[[], Any]] = [
        lambda: client.handle("w").result(),
        lambda: client.get_event("w", "word", timeout=DAY),
    ]
    waiting = [asyncio.ensure_future(_awaited(each)) for each in waits]

    async def is_listening() -> bool:
        return await connections(postgres_lab) > 1

    await eventually(is_listening)
    closing = asyncio.ensure_future(client.close())
    await settle(turns)
    closing.cancel()
    await asyncio.wait([closing])
    for each in waiting:
        # One that was just asking the database is refused the next question.
        with pytest.raises((WaitInterrupted, NotRunning)):
            await asyncio.wait_for(each, 30)

    async def none() -> bool:
        return await connections(postgres_lab) == 0

    await eventually(none)


async def _awaited(wait: Callable[[], Any]) -> Any:
    return await wait()


async def test_it_has_few_connections_and_gives_them_up(postgres_lab: Lab) -> None:
    """However much it is asked at the same time."""
    lab = postgres_lab
    engine = await lab.start(queues=[Queue("q")])
    await engine.stop()

    async def none() -> bool:
        return await connections(lab) == 0

    await eventually(none)
    async with Client(lab.url) as client:
        await asyncio.gather(
            *(client.enqueue("child", queue="q", args=(n,)) for n in range(100)),
            *(client.workflows.list() for _ in range(20)),
        )
        assert 0 < await connections(lab) <= client.config.pool_size + 3
    await eventually(none)
    with pytest.raises(Exception, match="queue"):
        async with Client(lab.url) as client:
            await client.enqueue("child", queue="nowhere")
    await eventually(none)
