"""Uses of the public surface that type checkers must accept, with the types they must infer.

Checked by pyright in strict mode and by mypy; never run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type
from uuid import UUID

from perdure import (
    Client,
    DedupPolicy,
    Engine,
    Explanation,
    IdPolicy,
    LastStep,
    Message,
    OnConflict,
    Page,
    Queue,
    QueueDepth,
    QueueRow,
    RateLimit,
    StepCount,
    StepRow,
    Submission,
    WorkflowCount,
    WorkflowHandle,
    WorkflowRow,
    close_stream,
    current,
    deprecate_patch,
    gather,
    get_event,
    get_events,
    join,
    now,
    patch,
    random,
    read_stream,
    recv,
    run_step,
    select_workflow,
    send,
    send_bulk,
    set_event,
    sleep,
    step,
    uuid4,
    workflow,
    write_stream,
)
from perdure.model.ids import WorkflowId


@step
async def fetch(url: str, *, depth: int = 1) -> bytes:
    return url.encode() * depth


@step
def parse(page: bytes) -> list[str]:
    """A `def` step: its call is awaited all the same."""
    return page.decode().split()


def is_temporary(error: BaseException) -> bool:
    return isinstance(error, OSError)


@step(max_attempts=5, interval=0.5, timeout=timedelta(seconds=3), retry_if=is_temporary)
async def publish(word: str) -> int:
    return len(word)


@workflow
async def index(url: str, limit: int = 10) -> dict[str, int]:
    page = await fetch(url, depth=2)
    assert_type(page, bytes)
    words = await parse(page)
    assert_type(words, list[str])
    counts = await gather(*(publish(word) for word in words[:limit]))
    assert_type(counts, list[int])
    outcomes = await gather(publish("a"), publish("b"), return_exceptions=True)
    assert_type(outcomes, list[int | BaseException])
    await sleep(hours=1)
    await sleep(timedelta(days=1))
    await sleep(2.5)
    assert_type(await now(), datetime)
    assert_type(await uuid4(), UUID)
    assert_type(await random(), float)
    return dict(zip(words, counts, strict=False))


@workflow(name="crawl", max_recovery_attempts=3)
async def crawl(urls: list[str]) -> int:
    child = await index.start(urls[0])
    assert_type(child, WorkflowHandle[dict[str, int]])
    found = await index(urls[1], limit=3)
    assert_type(found, dict[str, int])
    size = await run_step("size", len, urls)
    assert_type(size, int)
    return size + len(await child)


async def main() -> None:
    async with Engine("memory:", workflows=[index, crawl], name="app", heartbeat=1) as engine:
        handle = await crawl.options(
            id="crawl-1",
            timeout=timedelta(minutes=5),
            attributes={"customer": 7},
            engine=engine,
            id_policy=IdPolicy.REJECT,
        ).start(["a", "b"])
        assert_type(handle, WorkflowHandle[int])
        assert_type(await handle, int)
        assert_type(await handle.result(timeout=3), int)
        assert_type(await handle.status(), WorkflowRow)
        await handle.cancel()
        await crawl.options(deadline=datetime.now(UTC))(["a"])

        known = engine.handle("crawl-1", crawl)
        assert_type(known, WorkflowHandle[int])
        unknown: WorkflowHandle[Any] = engine.handle("crawl-2")
        assert_type(await unknown, Any)
        assert_type(await engine.workflows.steps("crawl-1"), Page[StepRow, int])
        page = await engine.workflows.list(states="ERROR", parents=["a"], limit=5, after=None)
        assert_type(page, Page[WorkflowRow, str])
        assert_type(page.next, str | None)
        async for row in engine.workflows.iterate(created_from=datetime.now(UTC)):
            assert_type(row, WorkflowRow)
        assert_type(await engine.workflows.count(attributes={"plan": "gold"}), int)
        assert_type(await engine.workflows.count_steps(names="pack"), list[StepCount])
        by_hour = engine.workflows.count(by=("state", "created"), span=timedelta(hours=1))
        assert_type(await by_hour, list[WorkflowCount])

        on = engine.workflows
        assert_type(await on.cancel(["crawl-1", "crawl-2"], children=True), list[WorkflowId])
        assert_type(await on.resume("crawl-1", queue=media), list[WorkflowHandle[Any]])
        fork = await on.fork("crawl-1", LastStep.FAILED, version="2", children={"a": "b"})
        assert_type(fork, WorkflowHandle[Any])
        forks = await on.fork_many(row.workflow_id for row in await on.list(states="ERROR"))
        assert_type(forks, list[WorkflowHandle[Any]])
        assert_type(await on.rewind("crawl-1", "index", queue="media"), WorkflowHandle[Any])
        assert_type(await on.set_delay("crawl-1", timedelta(hours=1)), list[WorkflowId])
        assert_type(await on.delete("crawl-1"), list[WorkflowId])
        await on.set_attributes("crawl-1", {"customer": None}, merge=True)
        documents = await on.export(["crawl-1", "crawl-2"], children=True)
        assert_type(documents, list[dict[str, Any]])
        assert_type(await on.import_(documents, skip_existing=True), list[WorkflowId])
        await handle.cancel(children=True)


media = Queue(
    "media",
    worker_concurrency=2,
    global_concurrency=10,
    rate_limit=RateLimit(100, timedelta(minutes=1)),
    partition_concurrency=1,
    base_polling_interval=0.5,
    on_conflict=OnConflict.ALWAYS_UPDATE,
)


async def enqueueing(urls: list[str]) -> None:
    async with Engine("memory:", queues=[media], listen=[media, "b"], max_running=50) as engine:
        bound = crawl.options(
            queue=media,
            priority=3,
            delay=timedelta(minutes=1),
            dedup_id="crawl",
            dedup_policy=DedupPolicy.RETURN_EXISTING,
            partition_key=None,
            version="v2",
            allow_unknown_version=True,
        )
        assert_type(await bound.start(urls), WorkflowHandle[int])
        assert_type(await bound(urls), int)
        many = index.options(queue="media").start_many([(url,) for url in urls], ids=urls)
        assert_type(await many, list[WorkflowHandle[dict[str, int]]])
        assert_type(await index.start_many([("a", 3)]), list[WorkflowHandle[dict[str, int]]])
        named = await engine.enqueue("convert", queue=media, args=("a",), kwargs={"n": 1}, id="w")
        assert_type(named, WorkflowHandle[Any])
        submission = Submission("convert", ("a",), options={"partition_key": "k"})
        listed = await engine.enqueue_many([submission], queue="media", priority=1)
        assert_type(listed, list[WorkflowHandle[Any]])


async def managing(engine: Engine, client: Client) -> None:
    assert_type(await engine.queues.register(media), QueueRow)
    assert_type(await engine.queues.list(), list[QueueRow])
    changed = await client.queues.update("media", worker_concurrency=None, partitioned=True)
    assert_type(changed.is_paused, bool)
    assert_type(await client.queues.pause("media"), QueueRow)
    assert_type(await client.queues.delete("media"), bool)
    assert_type(await engine.queues.depths(), list[QueueDepth])
    assert_type(await engine.workflows.explain("crawl-1"), Explanation)
    assert_type((await client.workflows.explain("crawl-1")).text, str)


@workflow(required_roles=["manager"])
async def changing(url: str) -> bool:
    """A decision of a patch, and for whom the code runs."""
    await deprecate_patch("old")
    assert_type(await patch("new"), bool)
    here = current()
    assert_type(here.authenticated_user, str | None)
    assert_type(here.authenticated_roles, tuple[str, ...])
    bound = index.options(
        authenticated_user="bob",
        authenticated_roles=["manager"],
        assumed_role=None,
        serializer="plain",
        queue="media",
        application="other",
    )
    assert_type(await bound(url), dict[str, int])
    return here.assumed_role == "manager"


class Plain:
    """A format of the user's own."""

    def encode(self, tree: Any, /) -> str:
        return str(tree)

    def decode(self, text: str, /) -> Any:
        return text


async def clients() -> None:
    """What a client enqueues and waits for."""
    Engine("memory:", serializers={"plain": Plain()})
    async with Client("memory:", name="shop", serializers={"plain": Plain()}) as client:
        handle = await client.enqueue("index", queue="media", args=("a",), application="other")
        assert_type(handle, WorkflowHandle[Any])
        many = await client.enqueue_many([Submission("index", ("a",))], queue=media)
        assert_type(many, list[WorkflowHandle[Any]])
        assert_type(client.handle("w", into=int), WorkflowHandle[int])
        assert_type(await client.handle("w", into=int), int)
        assert_type(await client.select_workflow([handle, "w"]), WorkflowId)
        assert_type(await client.join(many), None)


async def outside() -> None:
    """Plain functions stay reachable, and the place of the running code is typed."""
    assert_type(await index.fn("a"), dict[str, int])
    assert_type(current().attempt, int | None)


@dataclass(frozen=True)
class Decision:
    approved: bool


@workflow
async def talks(whom: str) -> None:
    """What is read is typed by `into`; without it, it is whatever JSON holds."""
    assert_type(await recv("t", timeout=timedelta(days=1), into=Decision), Decision | None)
    unread: Any = await recv()
    assert_type(await send(whom, Decision(approved=True), "t", idempotency_key="k"), None)
    assert_type(await send_bulk([Message(whom, unread, "t")], to_forks=True), None)
    await set_event("progress", 0.5)
    assert_type(await get_event(whom, "k", timeout=0, into=int), int | None)
    assert_type(await get_events(whom), Mapping[str, Any])
    await write_stream("tokens", "word")
    await close_stream("tokens")
    async for word in read_stream(whom, "tokens", offset=1, timeout=2.5, into=str):
        assert_type(word, str)
    handle = await index.start("a")
    assert_type(await select_workflow([handle, whom]), WorkflowId)
    assert_type(await join([handle, whom]), None)
    assert_type(await handle.event("k", into=int), int | None)
    async for number in handle.stream("numbers", into=int):
        assert_type(number, int)


async def from_outside(engine: Engine) -> None:
    """An engine, a handle and a client talk alike."""
    await engine.send("w", 1)
    await engine.handle("w").send(1, "t")
    async with Client("memory:") as client:
        await client.send("w", 1, "t")
        await client.send_bulk([Message("w", 1)])
        assert_type(await client.get_event("w", "k", into=int), int | None)
        async for number in client.read_stream("w", "s", into=int):
            assert_type(number, int)
