"""A client enqueues workflows by name: for its application, for another, or for any."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from perdure import (
    Client,
    DedupPolicy,
    Engine,
    IdPolicy,
    InvalidArgument,
    Queue,
    QueueDeduplicated,
    Submission,
    UnknownQueue,
    UnknownVersion,
    gather,
    workflow,
)
from perdure.errors import NotRunning, WorkflowIdInUse
from tests.support.database import Database
from tests.support.engines import Lab, handles, open_lab
from tests.support.workflows import child

ROW = ("status", "name", "queue_name", "application_name", "executor_id", "application_version")


@pytest.fixture
async def sqlite_lab(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Lab]:
    """A lab on a file, for what does not depend on the store."""
    async for each in open_lab(sqlite_database.url, monkeypatch):
        yield each


async def columns(lab: Lab, workflow_id: str, *names: str) -> list[Any]:
    row = await lab.status(workflow_id)
    return [row[name] for name in names]


async def test_an_application_runs_what_a_client_enqueued(shared_lab: Lab) -> None:
    """The client's handle reads the result, and the error of one that fails."""
    await shared_lab.start(child, queues=[Queue("q")])
    async with Client(shared_lab.url) as client:
        handle = await client.enqueue("child", queue="q", args=("x",))
        assert await handle.result(timeout=30) == "X"
        failing = await client.enqueue("child", queue="q", kwargs={"word": "fail"})
        with pytest.raises(Exception, match="as asked"):
            await failing


async def test_a_row_says_of_whom_it_is_and_names_no_process(shared_lab: Lab) -> None:
    """Of nobody without a name; whoever claims it first makes it his."""
    lab = shared_lab
    await lab.start(name="shop", version="v1", queues=[Queue("q")], listen=[])
    async with Client(lab.url) as nameless, Client(lab.url, name="shop") as named:
        await nameless.enqueue("child", queue="q", args=("x",), id="nobody")
        await named.enqueue("child", queue="q", id="shop")
        await nameless.enqueue("child", queue="q", id="v1", application="shop", version="v1")
    assert await columns(lab, "nobody", *ROW) == ["ENQUEUED", "child", "q", None, None, None]
    assert await columns(lab, "shop", *ROW) == ["ENQUEUED", "child", "q", "shop", None, None]
    assert await columns(lab, "v1", *ROW) == ["ENQUEUED", "child", "q", "shop", None, "v1"]
    row = await lab.status("nobody")
    assert (row["priority"], row["recovery_attempts"], row["owner_xid"]) == (0, 0, None)
    assert json.loads(await lab.input("nobody") or "") == {
        "namedArgs": {},
        "positionalArgs": ["x"],
    }
    engine = await lab.start(child, name="shop", version="v1")
    assert await engine.handle("nobody") == "X"
    row = await lab.status("nobody")
    assert (row["application_name"], row["executor_id"]) == ("shop", engine.executor_id)


async def test_every_option_reaches_the_row(shared_lab: Lab) -> None:
    """The timeout has no deadline before the workflow begins."""
    lab = shared_lab
    await lab.start(queues=[Queue("q", partitioned=True)], listen=[])
    async with Client(lab.url, name="shop") as client:
        await client.enqueue(
            "convert",
            queue=Queue("q"),
            class_name="Media",
            config_name="fast",
            id="w",
            application="app",
            version="app@default",
            timeout=5.5,
            priority=3,
            partition_key="k",
            dedup_id="d",
            attributes={"z": 1},
        )
    assert await columns(
        lab,
        "w",
        *("class_name", "config_name", "application_name", "application_version"),
        *("workflow_timeout_ms", "workflow_deadline_epoch_ms", "priority"),
        *("queue_partition_key", "deduplication_id"),
    ) == ["Media", "fast", "app", "app@default", 5500, None, 3, "k", "d"]
    attributes = (await lab.status("w"))["attributes"]
    assert json.loads(attributes) == {"z": 1}


async def test_a_delayed_one_waits_until_it_is_due(shared_lab: Lab) -> None:
    lab = shared_lab
    await lab.start(queues=[Queue("q")], listen=[])
    async with Client(lab.url) as client:
        await client.enqueue("child", queue="q", id="w", delay=60)
    row = await lab.status("w")
    assert row["status"] == "DELAYED"
    assert row["delay_until_epoch_ms"] - row["created_at"] >= 59_000


async def test_the_id_is_an_idempotency_key(shared_lab: Lab) -> None:
    """Whoever uses it again joins the one there is, and may ask to be refused instead."""
    lab = shared_lab
    await lab.start(queues=[Queue("q")], listen=[])
    async with Client(lab.url) as client, Client(lab.url) as another:
        for each in (client, another):
            handle = await each.enqueue("child", queue="q", args=("x",), id="w")
            assert handle.workflow_id == "w"
        with pytest.raises(WorkflowIdInUse):
            await client.enqueue("child", queue="q", id="w", id_policy=IdPolicy.REJECT)
    assert await lab.count() == 1


async def test_a_deduplication_id_that_is_held_refuses_or_gives_its_holder(
    shared_lab: Lab,
) -> None:
    lab = shared_lab
    await lab.start(queues=[Queue("q")], listen=[])
    async with Client(lab.url) as client:
        held: dict[str, Any] = {"queue": "q", "dedup_id": "d"}
        first = await client.enqueue("child", **held)
        with pytest.raises(QueueDeduplicated):
            await client.enqueue("child", **held)
        joined = await client.enqueue("child", **held, dedup_policy=DedupPolicy.RETURN_EXISTING)
        assert joined.workflow_id == first.workflow_id
    assert await lab.count() == 1


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"name": ""}, "name"),
        ({"args": "abc"}, "args"),
        ({"queue": None}, "queue"),
        ({"queue": "nowhere"}, "nowhere"),
        ({"version": "v9"}, "v9"),
        ({"partition_key": "k"}, "partition_key"),
        ({"priority": 0}, "priority"),
        ({"timeout": 0}, "timeout"),
        ({"delay": -1}, "delay"),
        ({"dedup_policy": DedupPolicy.RETURN_EXISTING}, "dedup_id"),
        ({"application": "No App"}, "application"),
        ({"application": 3}, "application"),
        ({"serializer": "nothing"}, "portable_json"),
        ({"args": ({1},)}, "set"),
        ({"attributes": [1]}, "attributes"),
    ],
    ids=repr,
)
async def test_what_cannot_be_enqueued_is_refused_before_a_row_is_written(
    sqlite_lab: Lab, given: dict[str, Any], named: str
) -> None:
    await sqlite_lab.start(queues=[Queue("q")], listen=[])
    options: dict[str, Any] = {"name": "child", "queue": "q", **given}
    async with Client(sqlite_lab.url) as client:
        with pytest.raises(Exception, match=named):
            await client.enqueue(**options)
    assert await sqlite_lab.count() == 0


async def test_many_at_once_in_the_order_given(shared_lab: Lab) -> None:
    """Few statements, each with options of its own, all checked before one is written."""
    lab = shared_lab
    await lab.start(child, queues=[Queue("q"), Queue("r", partitioned=True)])
    async with Client(lab.url) as client:
        many = [Submission("child", (str(n),)) for n in range(250)]
        many[7] = Submission("child", ("seven",), options={"id": "seven"})
        begun = await client.enqueue_many(many, queue="q")
        await client.join(begun)
        assert handles(*begun)[7] == "seven"
        assert [await each.result() for each in begun[5:9]] == ["5", "6", "SEVEN", "8"]
        before = await lab.count()
        keyed = Submission("child", options={"partition_key": "k"})
        with pytest.raises(InvalidArgument, match="'r' is partitioned"):
            await client.enqueue_many([keyed, Submission("child")], queue="r")
        with pytest.raises(InvalidArgument, match="options of a Submission"):
            await client.enqueue_many([keyed], queue="r", id="w")
        assert await client.enqueue_many([], queue="q") == []
    assert await lab.count() == before


async def test_queues_and_versions_are_those_of_the_application_it_is_for(shared_lab: Lab) -> None:
    """Whoever names another one is told what that one has; the nameless see everything."""
    lab = shared_lab
    await lab.start(name="shop", version="s1", queues=[Queue("shop-q")], listen=[])
    await lab.start(name="bank", version="b1", queues=[Queue("bank-q")], listen=[])
    async with Client(lab.url, name="shop") as shop, Client(lab.url) as nameless:
        with pytest.raises(UnknownQueue, match=r"registered: shop-q\)"):
            await shop.enqueue("f", queue="bank-q")
        with pytest.raises(UnknownQueue, match=r"registered: bank-q\)"):
            await shop.enqueue("f", queue="shop-q", application="bank")
        with pytest.raises(UnknownVersion, match="'bank' has no version 's1'"):
            await shop.enqueue("f", queue="bank-q", application="bank", version="s1")
        with pytest.raises(UnknownVersion, match="no application has a version 'v9'"):
            await nameless.enqueue("f", queue="bank-q", version="v9")
        await shop.enqueue("f", queue="bank-q", application="bank", version="b1", id="w")
        await nameless.enqueue("f", queue="bank-q", id="n")
        later: dict[str, Any] = {"allow_unknown_queue": True, "application": "later"}
        await shop.enqueue("f", queue="later-q", id="l", **later)
        assert [row.name for row in await nameless.queues.list()] == ["bank-q", "shop-q"]
        assert [row.name for row in await shop.queues.list()] == ["shop-q"]
        assert {row.name for row in await nameless.versions.list()} == {"b1", "s1"}
        assert (await nameless.queues.depth("bank-q")).enqueued == 2
        assert (await shop.queues.depth("bank-q")).enqueued == 1
    assert (await lab.status("w"))["application_name"] == "bank"
    assert (await lab.status("l"))["application_name"] == "later"


async def test_the_nameless_may_change_what_is_anybody_s(shared_lab: Lab) -> None:
    """It stays whose it is."""
    lab = shared_lab
    await lab.start(name="shop", version="s1", queues=[Queue("q")], listen=[])
    await lab.start(name="shop", version="s2", listen=[])
    async with Client(lab.url) as client:
        assert (await client.queues.update("q", worker_concurrency=2)).application_name == "shop"
        await client.queues.pause("q")
        assert (await client.queues.get("q")).is_paused
        row = await client.versions.promote("s1")
        assert (row.name, row.application_name) == ("s1", "shop")
        assert [each.name for each in await client.versions.list()] == ["s1", "s2"]
        assert await client.queues.delete("q")
        assert await client.queues.list() == []


async def test_an_engine_enqueues_for_another_application_too(shared_lab: Lab) -> None:
    """Also a workflow, as a child; its version is then the latest of the other one."""
    lab = shared_lab
    await lab.start(child, name="bank", version="b1", queues=[Queue("bank-q")])

    @workflow
    async def orders() -> str:
        (shop,) = engines
        handle = await shop.enqueue("child", queue="bank-q", args=("y",), application="bank")
        return str(await handle.result())

    engines: list[Engine] = []
    shop = await lab.start(orders, name="shop", version="s1")
    engines.append(shop)
    handle = await shop.enqueue("child", queue="bank-q", args=("x",), application="bank", id="w")
    assert await handle.result(timeout=30) == "X"
    assert await orders.options(engine=shop)() == "Y"
    row = await lab.status("w")
    assert (row["application_name"], row["application_version"]) == ("bank", "b1")
    with pytest.raises(InvalidArgument, match=r"application= needs queue="):
        orders.options(application="bank")


async def test_what_a_client_does_in_a_workflow_is_no_step(shared_lab: Lab) -> None:
    """Nor what is done through a handle of it."""
    lab = shared_lab

    @workflow
    async def uses() -> str:
        async with Client(lab.url) as client:
            handle = await client.enqueue("child", queue="q", args=("x",), id="w")
            await client.join([handle])
            assert await handle == await handle.result(timeout=20) == "X"
            assert await gather(handle.result(), handle.event("k", timeout=0)) == ["X", None]
            await handle.send("unread")
            assert await handle.events() == {}
            for reader in (handle.stream("s"), client.read_stream("w", "s")):
                assert [each async for each in reader] == []
            await handle.cancel()
            assert (await handle.status()).state == "SUCCESS"
            assert await client.select_workflow(["w"]) == "w"
            await client.workflows.cancel(["w"])
            return (await client.workflows.get("w")).state.value

    engine = await lab.start(uses, child, queues=[Queue("q")])
    handle = await uses.options(engine=engine).start()
    assert await handle.result(timeout=30) == "SUCCESS"
    assert await lab.history(handle.workflow_id) == []
    assert (await lab.status("w"))["parent_workflow_id"] is None


async def test_a_closed_client_enqueues_nothing(sqlite_lab: Lab) -> None:
    await sqlite_lab.start(queues=[Queue("q")])
    client = Client(sqlite_lab.url)
    for call in (
        client.enqueue("child", queue="q"),
        client.enqueue_many([Submission("child")], queue="q"),
        client.join(["w"]),
        client.select_workflow(["w"]),
    ):
        with pytest.raises(NotRunning):
            await call
    with pytest.raises(NotRunning):
        client.handle("w")
