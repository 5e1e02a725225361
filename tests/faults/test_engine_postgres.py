"""What a Postgres that fails does to running workflows: delay, never loss, never an outcome."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from perdure import Engine, gather, step, workflow
from tests.support.engines import Lab, open_lab
from tests.support.leaps import LeapClock
from tests.support.postgres import Databases, PostgresServer
from tests.support.proxy import FaultProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120)

effects: Counter[str] = Counter()
gates: dict[str, asyncio.Event] = {}


@step(name="effect")
async def effect(word: str) -> str:
    effects[word] += 1
    return word.upper()


@step(name="at gate")
async def at_gate(word: str) -> str:
    effects[word] += 1
    await gates[word].wait()
    return word.upper()


@workflow(name="three")
async def three(word: str) -> list[str]:
    return [
        await effect(f"{word} one"),
        await at_gate(f"{word} two"),
        await effect(f"{word} three"),
    ]


@workflow(name="plain")
async def plain(word: str) -> list[str]:
    return [await effect(f"{word} one"), await effect(f"{word} two")]


@workflow(name="parent")
async def parent(word: str) -> list[str]:
    return await plain(word)


@pytest.fixture(autouse=True)
def fresh_counters() -> None:
    effects.clear()
    gates.clear()


@pytest.fixture
async def postgres_lab(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lab]:
    async for each in open_lab(postgres_url, monkeypatch):
        yield each


def once(*words: str) -> dict[str, int]:
    return dict.fromkeys(words, 1)


async def test_a_restart_of_the_server_delays_a_run_and_takes_nothing_from_it(
    own_postgres: PostgresServer,
) -> None:
    """The server is stopped at once and started again while a step is under way."""
    databases = Databases(own_postgres.dsn)
    url = await databases.create()
    gates["w two"] = asyncio.Event()
    async with Engine(url, workflows=[three], heartbeat=0.2, lease=2) as engine:
        executor = engine.executor_id
        handle = await three.options(id="w", engine=engine).start("w")
        await eventually(lambda: effects["w two"])
        await asyncio.to_thread(own_postgres.stop, "immediate")
        gates["w two"].set()
        await asyncio.to_thread(own_postgres.start)
        async with asyncio.timeout(60):
            assert await handle == ["W ONE", "W TWO", "W THREE"]
        status = await handle.status()
        assert (status.attempts, status.executor_id) == (1, executor)
    assert effects == once("w one", "w two", "w three")


async def test_an_outage_longer_than_a_lease_kills_nobody(own_postgres: PostgresServer) -> None:
    """Two processes' worth of engines live through it; neither takes the other for dead."""
    databases = Databases(own_postgres.dsn)
    url = await databases.create()
    gates["w two"] = asyncio.Event()
    clock = LeapClock()
    engines = [Engine(url, workflows=[three], heartbeat=0.1, lease=3, clock=clock) for _ in "12"]
    async with engines[0] as one, engines[1]:
        handle = await three.options(id="w", engine=one).start("w")
        await eventually(lambda: effects["w two"])
        await asyncio.to_thread(own_postgres.stop, "immediate")
        clock.leap(6)  # the outage itself: twice the lease
        await asyncio.to_thread(own_postgres.start)
        gates["w two"].set()
        async with asyncio.timeout(60):
            assert await handle == ["W ONE", "W TWO", "W THREE"]
        assert (await handle.status()).attempts == 1
    assert effects == once("w one", "w two", "w three")


@pytest.mark.parametrize(
    "statement", ['INSERT INTO "dbos".workflow_status', "operation_outputs", "workflow_output"]
)
async def test_a_lost_answer_to_a_commit_repeats_nothing(postgres_lab: Lab, statement: str) -> None:
    """The connection is cut after the statement was done, before its answer arrives."""
    async with FaultProxy(postgres_lab.url) as proxy:
        url = proxy.url(postgres_lab.url)
        async with Engine(url, workflows=[plain, parent], heartbeat=0.2) as engine:
            await plain.options(id="warm", engine=engine)("warm")
            effects.clear()
            fault = proxy.cut_answer(statement)
            async with asyncio.timeout(30):
                result = await parent.options(id="w", engine=engine)("w")
            assert fault.fired.is_set()
    assert result == ["W ONE", "W TWO"]
    assert effects == once("w one", "w two")
    assert [name for _, name in await postgres_lab.history("w-1")] == ["effect", "effect"]
    assert [name for _, name in await postgres_lab.history("w")] == ["plain", "DBOS.getResult"]


async def test_cuts_at_random_moments_repeat_nothing(postgres_lab: Lab) -> None:
    """Every connection is broken again and again while a hundred workflows run."""
    async with FaultProxy(postgres_lab.url) as proxy:
        url = proxy.url(postgres_lab.url)
        async with Engine(url, workflows=[plain], heartbeat=0.2, lease=5) as engine:
            runs = [plain.options(id=f"w{n}", engine=engine)(f"w{n}") for n in range(100)]
            work = asyncio.ensure_future(gather(*runs))
            for _ in range(8):
                await eventually(lambda: proxy.connections > 0)
                proxy.cut()
                await asyncio.sleep(0.05)  # lets some of the work through between two cuts
            async with asyncio.timeout(60):
                results = await work
    assert results == [[f"W{n} ONE", f"W{n} TWO"] for n in range(100)]
    assert set(effects.values()) == {1}
    assert len(effects) == 200


async def test_a_foreign_lock_on_one_run_delays_no_other(postgres_lab: Lab) -> None:
    """Somebody holds the row of one run; the others record and end meanwhile."""
    lab = postgres_lab
    engine = await lab.start(three, plain)
    gates["held two"] = asyncio.Event()
    held = await three.options(id="held", engine=engine).start("held")
    await eventually(lambda: effects["held two"])
    stranger = await lab.backdoor.connect()  # type: ignore[attr-defined]
    try:
        transaction = stranger.transaction()
        await transaction.start()
        await stranger.execute(
            "SELECT 1 FROM workflow_status WHERE workflow_uuid = 'held' FOR UPDATE"
        )
        gates["held two"].set()
        async with asyncio.timeout(20):
            for n in range(20):
                assert await plain.options(engine=engine)(f"free{n}")
        assert [row[0] for row in await lab.history("held")] == [1]
        await transaction.rollback()
    finally:
        await stranger.close()
    async with asyncio.timeout(20):
        assert await held == ["HELD ONE", "HELD TWO", "HELD THREE"]
    assert effects["held two"] == 1


async def test_a_database_that_never_answers_does_not_hold_up_a_stop(postgres_lab: Lab) -> None:
    """The network is a black hole when the engine is told to stop."""
    async with FaultProxy(postgres_lab.url) as proxy:
        engine = Engine(proxy.url(postgres_lab.url), workflows=[three], heartbeat=0.2, grace=0.2)
        await engine.start()
        gates["w two"] = asyncio.Event()
        await three.options(id="w", engine=engine).start("w")
        await eventually(lambda: effects["w two"])
        proxy.black_hole()
        gates["w two"].set()
        async with asyncio.timeout(60):
            await engine.stop()
        proxy.restore()
    assert await postgres_lab.state("w") == "PENDING"
    survivor = await postgres_lab.start(three)
    async with asyncio.timeout(30):
        assert await survivor.handle("w") == ["W ONE", "W TWO", "W THREE"]
    assert effects["w one"] == 1
