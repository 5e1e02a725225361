"""Uses of the public surface that type checkers must refuse.

Each refused line carries an ignore; pyright reports an ignore that is not needed, so each proves
that its line is an error. Never run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from perdure import (
    Client,
    Engine,
    Queue,
    RateLimit,
    WorkflowHandle,
    gather,
    get_event,
    patch,
    read_stream,
    recv,
    run_step,
    send,
    sleep,
    step,
    workflow,
)


@step
async def fetch(url: str) -> bytes:
    return url.encode()


@workflow
async def index(url: str, limit: int = 10) -> int:
    return limit


async def arguments() -> None:
    await fetch(1)  # pyright: ignore[reportArgumentType]
    await fetch()  # pyright: ignore[reportCallIssue]
    await index("a", limits=3)  # pyright: ignore[reportCallIssue]
    await index.start(3)  # pyright: ignore[reportArgumentType]
    await index.options(id="x").start("a", "b")  # pyright: ignore[reportArgumentType]
    await run_step("name", len, 3)  # pyright: ignore[reportArgumentType]


async def results() -> tuple[str, WorkflowHandle[str]]:
    page: str = await fetch("a")  # pyright: ignore[reportAssignmentType]
    handle: WorkflowHandle[str] = await index.start("a")  # pyright: ignore[reportAssignmentType]
    return page, handle


async def options() -> None:
    index.options(ids="x")  # pyright: ignore[reportCallIssue]
    index.options(id=3)  # pyright: ignore[reportArgumentType]
    index.options(timeout="1 hour")  # pyright: ignore[reportArgumentType]
    Engine("memory:", heart_beat=1)  # pyright: ignore[reportCallIssue]
    await sleep("1 hour")  # pyright: ignore[reportArgumentType]


async def talk() -> int:
    await recv(5)  # pyright: ignore[reportArgumentType]
    await send("w")  # pyright: ignore[reportCallIssue]
    await get_event("w", 5)  # pyright: ignore[reportArgumentType]
    read_stream("w", "s", offset="1")  # pyright: ignore[reportArgumentType]
    number: int = await recv(into=int)  # pyright: ignore[reportAssignmentType]
    return number


async def queues(engine: Engine) -> None:
    Queue("q", 2)  # pyright: ignore[reportCallIssue]
    Queue("q", worker_concurency=2)  # pyright: ignore[reportCallIssue]
    Queue("q", rate_limit=(1, 2))  # pyright: ignore[reportArgumentType]
    Queue("q").worker_concurrency = 3  # pyright: ignore[reportAttributeAccessIssue]
    RateLimit(5)  # pyright: ignore[reportCallIssue]
    Engine("memory:", queues=["q"])  # pyright: ignore[reportArgumentType]
    index.options(queue=3)  # pyright: ignore[reportArgumentType]
    index.options(queue="q", priority="high")  # pyright: ignore[reportArgumentType]
    index.options(queue="q", dedup_policy="join")  # pyright: ignore[reportArgumentType]
    await index.start_many(["a"])  # pyright: ignore[reportArgumentType]
    await engine.enqueue("convert", "a", queue="q")  # pyright: ignore[reportCallIssue]
    await engine.enqueue("convert")  # pyright: ignore[reportCallIssue]
    await engine.enqueue("convert", queue="q", engine=engine)  # pyright: ignore[reportCallIssue]
    await engine.queues.update("q", limit=3)  # pyright: ignore[reportCallIssue]


async def plain_coroutines() -> None:
    await gather(fetch.fn("a"))  # pyright: ignore[reportArgumentType]


@workflow  # pyright: ignore[reportArgumentType]
def blocking(url: str) -> int:
    return len(url)


@workflow  # pyright: ignore[reportArgumentType]
async def generating(url: str) -> AsyncIterator[int]:
    yield len(url)


@step(max_attempt=5)  # pyright: ignore[reportCallIssue, reportUntypedFunctionDecorator]
async def misspelt(url: str) -> int:
    return len(url)


@workflow(required_roles=3)  # pyright: ignore[reportArgumentType]
async def guarded() -> None: ...


Engine("memory:", serializers={"a": 3})  # pyright: ignore[reportArgumentType]


async def clients(client: Client) -> None:
    await client.enqueue("index")  # pyright: ignore[reportCallIssue]
    await client.enqueue("index", queue="q", application=3)  # pyright: ignore[reportArgumentType]
    client.handle(3)  # pyright: ignore[reportArgumentType]
    await patch(3)  # pyright: ignore[reportArgumentType]


async def commands(engine: Engine) -> None:
    on = engine.workflows
    await on.cancel(7)  # pyright: ignore[reportArgumentType]
    await on.fork("w", 1.5)  # pyright: ignore[reportArgumentType]
    await on.fork("w", priority=1)  # pyright: ignore[reportCallIssue]
    await on.rewind("w", timeout=1)  # pyright: ignore[reportCallIssue]
    await on.import_("text")  # pyright: ignore[reportArgumentType]
    await on.set_attributes("w", ["a"])  # pyright: ignore[reportArgumentType]


async def questions(engine: Engine) -> None:
    on = engine.workflows
    await on.list(status="ERROR")  # pyright: ignore[reportCallIssue]
    await on.list(names=3)  # pyright: ignore[reportArgumentType]
    await on.count(limit=3)  # pyright: ignore[reportCallIssue]
