"""Claims that fail, and queues whose row makes no sense: nothing is used up, nobody suffers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from perdure import Engine, Queue, RateLimit, WorkflowState, workflow
from perdure.errors import DatabaseUnavailable
from tests.support.backdoor import PostgresBackdoor
from tests.support.engines import Lab
from tests.support.ownership import Ownership, watched_ownership
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120)


@workflow(name="noop")
async def noop(word: str) -> str:
    return word


@pytest.fixture
async def log(shared_lab: Lab) -> AsyncIterator[Ownership]:
    async with watched_ownership(shared_lab.backdoor, shared_lab.kind) as each:
        yield each


async def enqueue(engine: Engine, queue: str, *words: str) -> None:
    bound = noop.options(queue=queue, engine=engine)
    await bound.start_many([(word,) for word in words])


async def until_claimed(log: Ownership, queue: str, count: int) -> None:
    async def claimed() -> bool:
        return len(await log.starts_ms(queue)) == count

    await eventually(claimed)


@pytest.mark.parametrize("answered", [False, True])
async def test_a_claim_that_fails_uses_nothing_of_the_rate(
    shared_lab: Lab, log: Ownership, *, answered: bool
) -> None:
    """Whether the database did it and the answer was lost, or did nothing of it."""
    lab = shared_lab
    line = Queue("line", rate_limit=RateLimit(5, 600))
    engine = await lab.start(noop, queues=[line])
    lab.store.fail("claim_shared", DatabaseUnavailable("cut"), times=4, after=answered)
    await enqueue(engine, "line", *"abcdefgh")
    await until_claimed(log, "line", 5)
    await engine.queues.update("line", rate_limit=RateLimit(6, 600))
    await until_claimed(log, "line", 6)
    await engine.queues.update("line", rate_limit=None)
    await until_claimed(log, "line", 8)
    for workflow_id, claims in (await log.claims("line")).items():
        assert ((await lab.until(workflow_id))["status"], claims) == ("SUCCESS", 1)
    assert lab.store.counts["claim_shared"] > 4


BROKEN = {
    "a rate without a period": "rate_limit_max = 5, rate_limit_period_sec = NULL",
    "a period without a rate": "rate_limit_max = NULL, rate_limit_period_sec = 5",
    "a period of nothing": "rate_limit_max = 5, rate_limit_period_sec = 0",
    "a negative period": "rate_limit_max = 5, rate_limit_period_sec = -1",
    "a negative limit": "concurrency = -1",
    "no room at all": "concurrency = 0",
    "a worker limit below nothing": "worker_concurrency = -3",
    "no interval": "polling_interval_sec = 0",
    "a negative interval": "polling_interval_sec = -2",
    "limits against each other": "concurrency = 1, worker_concurrency = 5",
}


@pytest.mark.parametrize("columns", BROKEN.values(), ids=BROKEN)
async def test_a_queue_whose_row_makes_no_sense_stops_no_other_and_can_be_mended(
    shared_lab: Lab, columns: str
) -> None:
    """Others may write what this library refuses."""
    lab = shared_lab
    submitter = await lab.start(noop, queues=[Queue("broken"), Queue("whole")], listen=[])
    await enqueue(submitter, "broken", "b")
    await lab.backdoor.run(f"UPDATE queues SET {columns} WHERE name = 'broken'")
    engine = await lab.start(noop)
    for word in "abc":
        handle = await noop.options(queue="whole", engine=engine).start(word)
        async with asyncio.timeout(30):
            assert await handle.result() == word
    await lab.backdoor.run(
        "UPDATE queues SET concurrency = NULL, worker_concurrency = NULL, rate_limit_max = NULL,"
        " rate_limit_period_sec = NULL, polling_interval_sec = 1 WHERE name = 'broken'"
    )
    rows = await lab.rows("SELECT workflow_uuid FROM workflow_status WHERE queue_name = 'broken'")
    assert (await lab.until(rows[0]["workflow_uuid"]))["status"] == "SUCCESS"
    assert engine.is_running


FAILING = (
    "CREATE SCHEMA failing",
    "CREATE SEQUENCE failing.tries",
    """
    CREATE FUNCTION failing.fail() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        -- What a transaction that is rolled back takes from a sequence stays taken.
        IF NEW.status = 'PENDING' AND nextval('failing.tries') <= 3 THEN
            RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001';
        END IF;
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER failing BEFORE UPDATE ON workflow_status FOR EACH ROW
    WHEN (OLD.status = 'ENQUEUED') EXECUTE FUNCTION failing.fail()
    """,
)


@pytest.mark.parametrize("shared_lab", ["postgres"], indirect=True)
async def test_serialization_failures_use_nothing_of_the_rate(
    shared_lab: Lab, log: Ownership
) -> None:
    lab = shared_lab
    submitter = await lab.start(
        noop, queues=[Queue("line", rate_limit=RateLimit(5, 600)), Queue("beside")], listen=[]
    )
    await enqueue(submitter, "line", *"abcdefgh")
    for statement in FAILING:
        await lab.backdoor.run(statement)
    try:
        engine = await lab.start(noop)
        await until_claimed(log, "line", 5)
        handle = await noop.options(queue="beside", engine=engine).start("x")
        assert await handle.result() == "x"
    finally:
        await lab.backdoor.run("DROP TRIGGER failing ON workflow_status")
        await lab.backdoor.run("DROP SCHEMA failing CASCADE")
    logged = await lab.rows("SELECT count(*) AS n FROM rate_log")
    assert (logged[0]["n"], len(await log.starts_ms("line"))) == (5, 5)


@pytest.mark.parametrize("shared_lab", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    "locked",
    ["queues WHERE name = 'hot' FOR UPDATE", "queues WHERE name = 'hot' FOR NO KEY UPDATE"],
)
async def test_a_session_that_holds_a_queue_stalls_no_other(shared_lab: Lab, locked: str) -> None:
    """It is idle in a transaction; the queue goes on when that ends."""
    lab = shared_lab
    limited = [Queue(name, global_concurrency=2) for name in ("hot", "cool")]
    engine = await lab.start(noop, queues=[*limited, Queue("free")])
    assert isinstance(lab.backdoor, PostgresBackdoor)
    async with lab.backdoor.transaction(f"SELECT FROM {locked}"):
        hot = await noop.options(queue="hot", engine=engine).start("hot")
        for name in ("cool", "free", "cool"):
            handle = await noop.options(queue=name, engine=engine).start(name)
            async with asyncio.timeout(30):
                assert await handle.result() == name
        assert (await hot.status()).state is WorkflowState.ENQUEUED
    async with asyncio.timeout(30):
        assert await hot.result() == "hot"


@pytest.mark.parametrize("shared_lab", ["postgres"], indirect=True)
@pytest.mark.parametrize("limit", [None, 3])
async def test_a_session_that_holds_a_row_stalls_no_other_of_its_queue(
    shared_lab: Lab, limit: int | None
) -> None:
    lab = shared_lab
    line = Queue("line", global_concurrency=limit)
    submitter = await lab.start(noop, queues=[line], listen=[])
    first = await noop.options(queue=line, engine=submitter).start("first")
    assert isinstance(lab.backdoor, PostgresBackdoor)
    lock = "SELECT FROM workflow_status WHERE workflow_uuid = ? FOR UPDATE"
    async with lab.backdoor.transaction(lock, first.workflow_id):
        engine = await lab.start(noop)
        handle = await noop.options(queue=line, engine=engine).start("second")
        async with asyncio.timeout(30):
            assert await handle.result() == "second"
        assert (await first.status()).state is WorkflowState.ENQUEUED
    async with asyncio.timeout(30):
        assert await first.result() == "first"
