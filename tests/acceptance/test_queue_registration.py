"""Registered queues: what a declaration writes, and who may change it when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import (
    Cause,
    Client,
    ConfigurationError,
    InvalidArgument,
    OnConflict,
    Queue,
    RateLimit,
    UnknownQueue,
    WorkflowNotFound,
    workflow,
)
from perdure.errors import NotRunning, QueueOwnedByAnother
from tests.support.engines import Lab
from tests.support.waiting import eventually
from tests.support.workflows import child


async def stored(lab: Lab) -> list[str]:
    """The names in the shared table."""
    return [row["name"] for row in await lab.rows("SELECT name FROM queues ORDER BY name")]


async def insert_queue(lab: Lab, name: str, **columns: Any) -> None:
    """A queue that another program registered."""
    values = {"queue_id": f"id of {name}", "name": name, **columns}
    places = ", ".join("?" * len(values))
    await lab.backdoor.run(
        f"INSERT INTO queues ({', '.join(values)}) VALUES ({places})", *values.values()
    )


async def test_a_declared_queue_is_registered_at_the_start(lab: Lab) -> None:
    """In the shared table, as this application's, and the internal queues are not in it."""
    engine = await lab.start(
        child,
        queues=[Queue("media", worker_concurrency=2, global_concurrency=4), Queue("b"), Queue("a")],
    )
    assert await stored(lab) == ["a", "b", "media"]
    (row,) = await lab.rows("SELECT * FROM queues WHERE name = 'media'")
    assert (row["worker_concurrency"], row["concurrency"]) == (2, 4)
    assert (row["application_name"], row["polling_interval_sec"]) == ("app", 1.0)
    assert not row["partition_queue"]
    found = await engine.queues.list()
    assert [each.name for each in found] == ["a", "b", "media"]
    assert found[2].settings == Queue("media", worker_concurrency=2, global_concurrency=4).settings
    assert (found[2].application_name, found[2].is_paused) == ("app", False)


async def test_every_option_comes_back_as_it_was_declared(lab: Lab) -> None:
    queue = Queue(
        "q",
        worker_concurrency=3,
        global_concurrency=10,
        rate_limit=RateLimit(50, 2.5),
        priority_enabled=False,
        partitioned=True,
        partition_concurrency=2,
        partition_worker_concurrency=1,
        partition_rate_limit=RateLimit(5, 1.5),
        base_polling_interval=0.5,
        max_polling_interval=30,
    )
    engine = await lab.start(queues=[queue])
    assert (await engine.queues.get("q")).settings == queue.settings


async def test_registering_later_returns_what_is_registered(lab: Lab) -> None:
    """It is served from then on, and calls may name it at once."""
    engine = await lab.start(child)
    row = await engine.queues.register(Queue("late"))
    assert row == await engine.queues.get("late")
    assert await child.options(queue="late")("x") == "X"


async def test_registering_again_changes_what_is_stored(lab: Lab) -> None:
    """The latest version may, which a single one is."""
    engine = await lab.start(queues=[Queue("q", worker_concurrency=1)])
    row = await engine.queues.register(Queue("q", global_concurrency=7))
    assert row.settings == Queue("q", global_concurrency=7).settings
    assert row.created_at_ms <= row.updated_at_ms


async def test_a_queue_that_is_never_updated_reports_what_is_registered(lab: Lab) -> None:
    engine = await lab.start(queues=[Queue("q", worker_concurrency=1)])
    row = await engine.queues.register(
        Queue("q", worker_concurrency=5, on_conflict=OnConflict.NEVER_UPDATE)
    )
    assert row.settings.limits.worker == 1
    fresh = await engine.queues.register(Queue("r", on_conflict=OnConflict.NEVER_UPDATE))
    assert fresh.name == "r"


async def test_an_older_version_does_not_undo_what_a_newer_one_declared(shared_lab: Lab) -> None:
    """Also when it is started again, as in a roll-out that is not over; unless it says ALWAYS."""
    lab = shared_lab
    for version, declared, found in (("v1", 1, 1), ("v2", 2, 2), ("v1", 1, 2)):
        engine = await lab.start(version=version, queues=[Queue("q", worker_concurrency=declared)])
        assert (await engine.queues.get("q")).settings.limits.worker == found
    row = await lab.engine.queues.register(
        Queue("q", worker_concurrency=9, on_conflict=OnConflict.ALWAYS_UPDATE)
    )
    assert row.settings.limits.worker == 9


async def test_another_application_s_queue_is_refused_and_nothing_keeps_running(
    shared_lab: Lab,
) -> None:
    """Names of queues are one database's. The engine can be started once the queue is gone."""
    lab = shared_lab
    await lab.start(name="shop", queues=[Queue("q")])
    engine = lab.built(queues=[Queue("mine"), Queue("q", on_conflict=OnConflict.NEVER_UPDATE)])
    with pytest.raises(QueueOwnedByAnother, match="'q' is registered by application 'shop'"):
        await engine.start()
    assert not engine.is_running
    with pytest.raises(NotRunning):
        engine.queues  # noqa: B018 - raises
    assert await lab.engines[0].queues.delete("q")
    await engine.start()
    assert [row.name for row in await engine.queues.list()] == ["mine", "q"]


async def test_the_queues_of_another_application_are_not_seen(shared_lab: Lab) -> None:
    lab = shared_lab
    await lab.start(name="shop", queues=[Queue("theirs")])
    engine = await lab.start(child, queues=[Queue("ours")])
    assert [row.name for row in await engine.queues.list()] == ["ours"]
    with pytest.raises(UnknownQueue, match=r"'theirs'.*registered: ours"):
        await engine.queues.get("theirs")
    with pytest.raises(UnknownQueue):
        await engine.queues.update("theirs", worker_concurrency=1)
    with pytest.raises(UnknownQueue):
        await child.options(queue="theirs").start("x")
    assert not await engine.queues.delete("theirs")


async def test_a_queue_of_no_application_becomes_the_one_s_that_registers_it(lab: Lab) -> None:
    engine = await lab.start()
    await insert_queue(lab, "q", worker_concurrency=4)
    assert (await engine.queues.get("q")).application_name is None
    row = await engine.queues.register(Queue("q", on_conflict=OnConflict.NEVER_UPDATE))
    assert (row.application_name, row.settings.limits.worker) == ("app", 4)


async def test_a_queue_is_deleted_once_and_its_backlog_waits_for_another(lab: Lab) -> None:
    engine = await lab.start(child, queues=[Queue("q")])
    await engine.queues.pause("q")
    handle = await child.options(queue="q").start("x")
    assert await engine.queues.delete("q")
    assert not await engine.queues.delete("q")
    assert await stored(lab) == []
    with pytest.raises(UnknownQueue):
        await child.options(queue="q").start("y")
    depth = await engine.queues.depth("q")
    assert (depth.name, depth.enqueued) == ("q", 1)
    await engine.queues.register(Queue("q"))
    assert await handle.result(timeout=30) == "X"


@pytest.mark.parametrize("name", ["_perdure_internal_queue", "_dbos_internal_queue", "_dbos_x", ""])
async def test_reserved_names_are_refused_everywhere(memory_lab: Lab, name: str) -> None:
    queues = (await memory_lab.start()).queues
    for call in (
        queues.get(name),
        queues.update(name, worker_concurrency=1),
        queues.pause(name),
        queues.resume(name),
        queues.delete(name),
    ):
        with pytest.raises(ConfigurationError):
            await call


async def test_a_row_under_the_name_of_an_internal_queue_is_ignored(lab: Lab) -> None:
    """Its limits do not bind, its owner does not matter, and nobody sees it."""
    engine = await lab.start(child)
    for name in ("_perdure_internal_queue", "_dbos_internal_queue"):
        await insert_queue(lab, name, concurrency=0, worker_concurrency=0, application_name="else")
    assert await engine.queues.list() == []
    await child.options(id="w")("x")
    assert (await lab.rerun("w"))["status"] == "SUCCESS"


async def test_unknown_queues_are_named_with_those_there_are(memory_lab: Lab) -> None:
    queues = (await memory_lab.start(queues=[Queue("b"), Queue("a")])).queues
    for call in (
        queues.get("c"),
        queues.update("c", worker_concurrency=1),
        queues.pause("c"),
        queues.resume("c"),
    ):
        with pytest.raises(UnknownQueue, match=r"'c' is registered \(registered: a, b\)"):
            await call


async def test_two_engines_declare_at_the_same_moment(shared_lab: Lab) -> None:
    """One row stands, and neither fails."""
    engines = [shared_lab.built(queues=[Queue("q", worker_concurrency=2)]) for _ in range(4)]
    await asyncio.gather(*(engine.start() for engine in engines))
    assert await stored(shared_lab) == ["q"]


async def test_a_client_registers_and_changes_queues(shared_lab: Lab) -> None:
    """It must say what becomes of a registered one, for it has no version to compare."""
    lab = shared_lab
    engine = await lab.start(child)
    async with Client(lab.url) as client:
        with pytest.raises(ConfigurationError, match=r"ALWAYS_UPDATE or OnConflict\.NEVER_UPDATE"):
            await client.queues.register(Queue("q"))
        with pytest.raises(InvalidArgument, match=r"'q' is no Queue"):
            await client.queues.register("q")  # type: ignore[arg-type]
        await client.queues.register(Queue("q", on_conflict=OnConflict.ALWAYS_UPDATE))
        await client.queues.pause("q")
        handle = await child.options(queue="q").start("x")
        assert (await client.queues.depth("q")).enqueued == 1
        explanation = await client.workflows.explain(handle.workflow_id)
        assert (explanation.cause, "'q'" in explanation.text) == (Cause.QUEUE_PAUSED, True)
        with pytest.raises(WorkflowNotFound):
            await client.workflows.explain("nothing")
        assert (await client.queues.update("q", worker_concurrency=3)).settings.limits.worker == 3
        await client.queues.resume("q")
        assert await handle.result(timeout=30) == "X"
        assert [row.name for row in await client.queues.list()] == ["q"]
        assert await client.queues.delete("q")
    assert await engine.queues.list() == []
    with pytest.raises(NotRunning):
        client.queues  # noqa: B018 - raises


async def test_a_queue_registered_elsewhere_is_served(shared_lab: Lab) -> None:
    """By another engine, or by another program, while this process runs."""
    lab = shared_lab
    worker = await lab.start(child)
    other = await lab.start(queues=[Queue("q")])
    handle = await other.enqueue("child", queue="q", args=("x",))
    assert await handle.result(timeout=30) == "X"
    await insert_queue(lab, "foreign")
    handle = await worker.enqueue("child", queue="foreign", args=("y",))
    assert await handle.result(timeout=30) == "Y"


@workflow(name="held")
async def held(word: str) -> str:
    return word


async def test_listening_narrows_what_a_process_serves(lab: Lab) -> None:
    """Others stay ENQUEUED; queues may be named before they exist, and given as `Queue`."""
    ours, theirs = Queue("ours"), Queue("theirs")
    engine = await lab.start(held, queues=[ours, theirs], listen=[ours, "later"])
    left = await held.options(queue=theirs, id="left").start("x")
    assert await held.options(queue=ours)("a") == "a"
    await engine.queues.register(Queue("later"))
    assert await held.options(queue="later")("b") == "b"
    assert (await left.status()).state == "ENQUEUED"


async def test_a_process_that_listens_to_nothing_still_serves_the_internal_queues(
    lab: Lab,
) -> None:
    """What a dead process left without a queue must go on."""
    await lab.start(held, queues=[Queue("q")], listen=[])
    left = await held.options(queue="q").start("x")
    await held.options(id="w")("y")
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert (await left.status()).state == "ENQUEUED"


async def test_nothing_of_a_paused_queue_begins_until_it_is_resumed(lab: Lab) -> None:
    """Pausing twice keeps since when."""
    engine = await lab.start(held, queues=[Queue("q"), Queue("other")])
    paused = await engine.queues.pause("q")
    assert paused.is_paused
    handle = await held.options(queue="q").start("x")
    assert await held.options(queue="other")("y") == "y"
    assert (await handle.status()).state == "ENQUEUED"
    assert (await engine.queues.pause("q")).paused_at_ms == paused.paused_at_ms
    assert not (await engine.queues.resume("q")).is_paused
    assert await handle.result(timeout=30) == "x"


async def test_depths_count_what_is_in_the_queues(lab: Lab) -> None:
    gate = asyncio.Event()

    @workflow(name="waits")
    async def waits() -> None:
        await gate.wait()

    engine = await lab.start(waits, queues=[Queue("a", worker_concurrency=1), Queue("b")])
    assert [depth.name for depth in await engine.queues.depths()] == ["a", "b"]
    handles = await waits.options(queue="a").start_many([(), (), ()])
    await waits.options(queue="a", delay=1000).start()

    async def one_runs() -> bool:
        return (await engine.queues.depth("a")).pending == 1

    await eventually(one_runs)
    depth = await engine.queues.depth("a")
    assert (depth.enqueued, depth.delayed, depth.pending, depth.completed) == (2, 1, 1, 0)
    assert depth.oldest_at_ms is not None
    gate.set()
    for handle in handles:
        await handle.result(timeout=30)
    depth = await engine.queues.depth("a")
    assert (depth.enqueued, depth.pending, depth.completed) == (0, 0, 3)
