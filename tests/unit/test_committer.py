"""Group commit: batches that grow under load, and what becomes of each item whatever happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from perdure.engine.committer import Entry, Lane, Retry
from perdure.engine.services import Tasks
from perdure.errors import DatabaseConflict, DatabaseRejected, DatabaseUnavailable
from perdure.model.answer import BUSY, LOST, MINE, WRITTEN, Answer
from tests.support.leaps import LeapClock, SteadyIds
from tests.support.waiting import eventually

Batch = list[str]


class FakeTable:
    """What a lane writes to: it keeps what it was given, and answers as it is told."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.rows: list[str] = []
        self.gate: asyncio.Event | None = None
        self.reached = asyncio.Event()
        self.troubles: list[Exception] = []
        self.lose_answer = False
        self.bad: set[str] = set()
        self.busy: dict[str, int] = {}

    async def write(self, items: Sequence[str]) -> list[Answer[Any]]:
        self.batches.append(list(items))
        self.reached.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.troubles and not self.lose_answer:
            raise self.troubles.pop(0)
        if self.bad.intersection(items):
            raise DatabaseRejected(f"bad: {sorted(self.bad.intersection(items))}")
        answers = [self._answer(item) for item in items]
        if self.troubles:
            raise self.troubles.pop(0)
        return answers

    def _answer(self, item: str) -> Answer[Any]:
        if self.busy.get(item, 0) > 0:
            self.busy[item] -= 1
            return BUSY
        if item in self.rows:
            return MINE
        if item == "lost":
            return LOST
        self.rows.append(item)
        return WRITTEN


class Bench:
    """A lane on a fake table."""

    def __init__(self, *, max_batch: int = 100, capacity: int = 1000) -> None:
        self.table = FakeTable()
        self.clock = LeapClock()
        self.tasks = Tasks()
        retry = Retry(self.clock, SteadyIds())
        self.lane: Lane[str, Answer[Any]] = Lane(
            "items", self.table.write, retry, max_batch=max_batch, capacity=capacity
        )
        self.lane.open(self.tasks)

    def submit(self, *items: str) -> list[Entry[str, Answer[Any]]]:
        return [self.lane.submit(item) for item in items]

    async def close(self) -> None:
        await self.lane.close(DatabaseUnavailable("the engine was stopped"))
        await self.tasks.end()


@pytest.fixture
async def benches() -> AsyncIterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(**options: int) -> Bench:
        made.append(Bench(**options))
        return made[-1]

    yield make
    for bench in made:
        await bench.close()


@pytest.fixture
async def bench(benches: Callable[..., Bench]) -> Bench:
    return benches()


async def answers(entries: Sequence[Entry[str, Answer[Any]]]) -> list[Any]:
    """The answer or the failure of each."""
    async with asyncio.timeout(10):
        return await asyncio.gather(*(entry.future for entry in entries), return_exceptions=True)


async def test_a_lone_item_is_written_at_once_and_alone(bench: Bench) -> None:
    """No timer: one item, one write."""
    assert await answers(bench.submit("a")) == [WRITTEN]
    assert (bench.table.batches, bench.clock.slept) == ([["a"]], [])


async def test_what_comes_while_a_write_is_in_flight_goes_into_the_next(bench: Bench) -> None:
    """In the order it came, as one batch."""
    bench.table.gate = asyncio.Event()
    first = bench.submit("a")
    await bench.table.reached.wait()
    later = bench.submit("b", "c", "d")
    bench.table.gate.set()
    assert await answers(first + later) == [WRITTEN] * 4
    assert bench.table.batches == [["a"], ["b", "c", "d"]]


async def test_a_batch_has_at_most_so_many_items(benches: Callable[..., Bench]) -> None:
    """More are cut into several writes."""
    bench = benches(max_batch=3)
    entries = bench.submit(*"abcdefgh")
    assert await answers(entries) == [WRITTEN] * 8
    assert [len(batch) for batch in bench.table.batches] == [3, 3, 2]


async def test_one_bad_item_fails_alone(bench: Bench) -> None:
    """The batch is halved until it stands by itself; every other item is written once."""
    bench.table.bad = {"x"}
    items = [*"abcdef", "x", *"ghijklmno"]
    results = dict(zip(items, await answers(bench.submit(*items)), strict=True))
    assert isinstance(results.pop("x"), DatabaseRejected)
    assert set(results.values()) == {WRITTEN}
    assert sorted(bench.table.rows) == sorted(results)
    assert len(bench.table.batches) == 1 + 2 * 4


async def test_two_bad_items_fail_each_alone(bench: Bench) -> None:
    """Wherever they stand."""
    bench.table.bad = {"a", "z"}
    results = await answers(bench.submit("a", *"bcdefg", "z"))
    assert [isinstance(result, DatabaseRejected) for result in results] == [
        True,
        *[False] * 6,
        True,
    ]


async def test_a_busy_item_delays_nobody_and_is_tried_again(bench: Bench) -> None:
    """It moves to the side; its neighbours and all that come later go on."""
    bench.table.busy = {"held": 3}
    held, *others = bench.submit("held", "a", "b")
    assert await answers(others) == [WRITTEN, WRITTEN]
    assert await answers(bench.submit("c")) == [WRITTEN]
    assert await answers([held]) == [WRITTEN]
    assert bench.table.rows[:3] == ["a", "b", "c"]
    assert [batch for batch in bench.table.batches if "held" in batch][1:] == [["held"]] * 3
    assert bench.clock.slept == pytest.approx([0.002, 0.004, 0.008])


async def test_several_busy_items_are_tried_again_together(bench: Bench) -> None:
    """In batches with a back-off, not one by one."""
    bench.table.busy = {"p": 1, "q": 1}
    assert await answers(bench.submit("p", "a", "q")) == [WRITTEN] * 3
    assert bench.table.batches == [["p", "a", "q"], ["p", "q"]]


async def test_an_unsent_item_of_a_caller_that_is_gone_is_withdrawn(bench: Bench) -> None:
    """It is never written."""
    bench.table.gate = asyncio.Event()
    first = bench.submit("a")
    await bench.table.reached.wait()
    unwanted, wanted = bench.submit("b", "c")
    unwanted.future.cancel()
    bench.table.gate.set()
    assert await answers([*first, wanted]) == [WRITTEN, WRITTEN]
    assert bench.table.rows == ["a", "c"]
    assert not unwanted.is_out


async def test_a_sent_item_of_a_caller_that_is_gone_is_answered_for_whoever_waits(
    bench: Bench,
) -> None:
    """The write cannot be taken back; `settled` says when its answer is known."""
    bench.table.gate = asyncio.Event()
    (entry,) = bench.submit("a")
    await bench.table.reached.wait()
    entry.future.cancel()
    assert entry.is_out
    entry.settled = asyncio.get_running_loop().create_future()
    bench.table.gate.set()
    async with asyncio.timeout(10):
        await entry.settled
    assert (bench.table.rows, entry.is_out) == (["a"], False)


async def test_what_must_happen_with_the_answer_happens_without_the_caller(bench: Bench) -> None:
    """An item with `then` is not withdrawn, sent or not."""
    heard: list[Answer[Any]] = []
    bench.table.gate = asyncio.Event()
    first = bench.submit("a")
    await bench.table.reached.wait()
    entry = bench.lane.submit("b", heard.append)
    entry.future.cancel()
    last = bench.submit("c")
    bench.table.gate.set()
    await answers(first + last)
    assert (heard, bench.table.rows) == ([WRITTEN], ["a", "b", "c"])


@pytest.mark.parametrize("trouble", [DatabaseUnavailable, DatabaseConflict])
@pytest.mark.parametrize("lose_answer", [False, True], ids=["not written", "answer lost"])
async def test_trouble_is_waited_out_with_the_same_batch(
    bench: Bench, trouble: type[Exception], lose_answer: bool
) -> None:
    """The keys were fixed before the first try, so a try that got through answers *mine*."""
    bench.table.troubles = [trouble("away"), trouble("away")]
    bench.table.lose_answer = lose_answer
    expected = MINE if lose_answer else WRITTEN
    assert await answers(bench.submit("a", "b")) == [expected] * 2
    assert bench.table.batches == [["a", "b"]] * 3
    assert bench.table.rows == ["a", "b"]
    first_s = 0.05 if trouble is DatabaseUnavailable else 0.005
    assert bench.clock.slept == pytest.approx([first_s, 2 * first_s])


async def test_trouble_that_lasts_is_said_and_said_rarely(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Runs wait meanwhile; the log names the lane, the cause and the next try."""
    bench.clock.leaps_over_sleeps = True
    bench.table.troubles = [DatabaseConflict("again")] * 12
    with caplog.at_level(logging.WARNING, "perdure"):
        assert await answers(bench.submit("a")) == [WRITTEN]
    assert [record.getMessage() for record in caplog.records] == [
        "writing items: again (try 3); trying again in 0.02 s, runs wait meanwhile",
        "writing items: again (try 10); trying again in 1.00 s, runs wait meanwhile",
    ]


async def test_other_answers_are_delivered_as_they_are(bench: Bench) -> None:
    """*lost* and *mine* are the caller's to understand."""
    bench.table.rows = ["mine"]
    assert await answers(bench.submit("lost", "mine", "new")) == [LOST, MINE, WRITTEN]


async def test_a_bug_in_the_store_leaves_nobody_waiting(bench: Bench) -> None:
    """Every item of the batch fails with it; the lane goes on."""
    bench.table.troubles = [TypeError("a bug of ours")]
    results = await answers(bench.submit("a", "b"))
    assert [type(result) for result in results] == [TypeError, TypeError]
    assert await answers(bench.submit("c")) == [WRITTEN]


async def test_callers_are_held_back_while_the_queue_is_full(benches: Callable[..., Bench]) -> None:
    """There is room again once the queue is shorter than its capacity."""
    bench = benches(max_batch=2, capacity=4)
    bench.table.gate = asyncio.Event()
    entries = bench.submit("a")
    await bench.table.reached.wait()
    entries += bench.submit(*"bcde")
    assert bench.lane.is_full
    waiting = asyncio.ensure_future(bench.lane.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    bench.table.gate.set()
    async with asyncio.timeout(10):
        await waiting
    assert await answers(entries) == [WRITTEN] * 5


@pytest.mark.parametrize("where", ["queued", "in flight", "waiting for the database", "busy"])
async def test_a_closed_lane_fails_whatever_waits(bench: Bench, where: str) -> None:
    """In flight or not; and whatever is submitted later, at once."""
    if where == "busy":
        bench.table.busy = {"a": 10**9}
    elif where == "waiting for the database":
        bench.table.troubles = [DatabaseUnavailable("away")] * 1000
    else:
        bench.table.gate = asyncio.Event()
    entries = bench.submit("a")
    if where != "queued":
        await bench.table.reached.wait()
    if where in ("busy", "waiting for the database"):
        await eventually(bench.clock.sleepers)
    entries += bench.submit("b")
    (abandoned,) = bench.submit("c")
    abandoned.future.cancel()
    await bench.close()
    entries += bench.submit("late")
    results = await answers(entries if where != "busy" else [entries[0], entries[-1]])
    assert {str(result) for result in results} == {"the engine was stopped"}
    assert bench.lane.is_full is False


async def test_a_cancelled_worker_fails_what_waits_and_what_comes(bench: Bench) -> None:
    """When asyncio ends every task, nobody is left waiting for a write that nobody makes."""
    bench.table.gate = asyncio.Event()
    entries = bench.submit("a")
    await bench.table.reached.wait()
    entries += bench.submit("b")
    await bench.tasks.end()
    entries += bench.submit("c")
    results = await answers(entries)
    assert [type(result) for result in results] == [DatabaseUnavailable] * 3


async def test_thousands_of_items_of_many_callers_are_each_answered_once(bench: Bench) -> None:
    """Batches grow with the load: far fewer writes than items."""

    async def caller(name: int) -> list[Answer[Any]]:
        return [await bench.lane.submit(f"{name}-{number}").future for number in range(20)]

    everything = await asyncio.gather(*(caller(name) for name in range(200)))
    assert {kind for each in everything for kind in each} == {WRITTEN}
    assert len(set(bench.table.rows)) == len(bench.table.rows) == 4000
    assert len(bench.table.batches) <= 80
