"""Streams: appended in order by their workflow, followed by anybody, ended by a close or an end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import (
    Client,
    InvalidArgument,
    StreamTimeout,
    WorkflowNotFound,
    WorkflowState,
    close_stream,
    gather,
    read_stream,
    run_step,
    sleep,
    step,
    workflow,
    write_stream,
)
from perdure.errors import (
    DatabaseUnavailable,
    NotRunning,
    SerializationError,
    UndecodableValue,
    WaitInterrupted,
)
from tests.support.engines import Lab
from tests.support.talking import (
    CLOSED,
    all_of,
    follows,
    insert_workflow,
    open_gate,
    stored_stream,
    writes,
    writes_at,
)
from tests.support.waiting import eventually
from tests.support.workflows import look


async def test_a_stream_reads_back_in_order_and_ends_at_its_close(lab: Lab) -> None:
    """From anywhere and any offset; what ended stays ended; a key never written is empty."""
    engine = await lab.start(writes)
    handle = await writes.options(id="w").start(["a", {"b": 1}, None], close=True)
    reader = handle.stream("s")
    assert [await anext(reader), await anext(reader), await anext(reader)] == ["a", {"b": 1}, None]
    for _ in range(2):
        with pytest.raises(StopAsyncIteration):
            await anext(reader)
    assert reader.offset == 3
    assert await all_of(read_stream("w", "s", offset=1)) == [{"b": 1}, None]
    assert await all_of(read_stream("w", "s", offset=4)) == []
    assert await all_of(engine.handle("w").stream("never")) == []
    rows = await stored_stream(lab, "w", "s")
    assert rows == [(0, '"a"', 1), (1, '{"b":1}', 2), (2, "null", 3), (3, CLOSED, 4)]
    assert await lab.history("w") == [
        (1, "DBOS.writeStream"),
        (2, "DBOS.writeStream"),
        (3, "DBOS.writeStream"),
        (4, "DBOS.closeStream"),
    ]


@pytest.mark.parametrize("how", ["return", "fail"])
async def test_a_stream_without_a_close_ends_with_its_workflow(lab: Lab, how: str) -> None:
    """Every value that was written is delivered first, the last one too."""
    await lab.start(writes_at)
    word = f"{lab.kind} {how}"
    handle = await writes_at.options(id="w").start(word, how)
    reader = handle.stream("s")
    assert [await anext(reader), await anext(reader)] == [1, 2]
    rest = asyncio.ensure_future(all_of(reader))
    open_gate(word)
    assert await rest == [3]


async def test_a_cancelled_writer_is_read_to_its_last_value(lab: Lab) -> None:
    await lab.start(writes_at)
    handle = await writes_at.options(id="w").start(f"{lab.kind} never opened", "return")
    reader = handle.stream("s")
    assert [await anext(reader), await anext(reader)] == [1, 2]
    rest = asyncio.ensure_future(all_of(reader))
    await handle.cancel()
    assert await rest == []


async def test_reading_stops_at_the_close_whatever_follows(lab: Lab) -> None:
    """Also where another SDK wrote it without the quotes of JSON."""

    @workflow(name="goes on")
    async def goes_on() -> None:
        await write_stream("s", 1)
        await close_stream("s")
        await write_stream("s", 2)

    await lab.start(goes_on)
    await goes_on.options(id="w")()
    assert await all_of(read_stream("w", "s")) == [1]
    await lab.backdoor.run(
        "UPDATE streams SET value = ? WHERE value = ?", CLOSED.strip('"'), CLOSED
    )
    assert await all_of(read_stream("w", "s")) == [1]


async def test_many_values_come_in_pages(lab: Lab) -> None:
    """A reader that follows while it is written, and one that begins in the middle."""
    await lab.start(writes, follows)
    handle = await writes.options(id="w").start(list(range(250)), close=False)
    assert await all_of(handle.stream("s")) == list(range(250))
    assert await all_of(handle.stream("s", offset=150)) == list(range(150, 250))
    pages = [items[0] for items in lab.store.batches("stream_pages")]
    assert max(page.limit for page in pages) == 100


async def test_a_value_that_does_not_come_in_time_ends_the_reader(lab: Lab) -> None:
    """The limit is that of each value."""
    await lab.start(writes_at)
    word = f"{lab.kind} in time"
    handle = await writes_at.options(id="w").start(word, "return")
    # To write them may take longer than the limit.
    patient = handle.stream("s")
    assert [await anext(patient), await anext(patient)] == [1, 2]
    reader = handle.stream("s", timeout=0.2)
    assert [await anext(reader), await anext(reader)] == [1, 2]
    with pytest.raises(StreamTimeout, match="'s'") as caught:
        await anext(reader)
    assert (caught.value.workflow_id, reader.offset) == ("w", 2)
    with pytest.raises(StopAsyncIteration):
        await anext(reader)
    with pytest.raises(StreamTimeout):
        await anext(handle.stream("s", offset=2, timeout=0))
    open_gate(word)
    assert await all_of(read_stream("w", "s", offset=reader.offset)) == [3]


async def test_a_bad_value_fails_its_own_read_alone(lab: Lab) -> None:
    await lab.start(writes)
    await writes.options(id="w")([1, "two", 3], close=False)
    reader = read_stream("w", "s", into=int)
    assert await anext(reader) == 1
    with pytest.raises(UndecodableValue):
        await anext(reader)
    assert await anext(reader) == 3


async def test_what_a_step_writes_is_no_step_of_its_own(lab: Lab) -> None:
    """The rows bear the step's id; it may also close."""

    @step(name="streams")
    async def streams() -> None:
        await write_stream("s", "inside")
        await close_stream("s")

    @workflow(name="outer")
    async def outer() -> None:
        await look()
        await streams()

    await lab.start(outer)
    await outer.options(id="w")()
    assert await lab.history("w") == [(1, "look"), (2, "streams")]
    assert await stored_stream(lab, "w", "s") == [(0, '"inside"', 2), (1, CLOSED, 2)]


async def test_an_attempt_that_is_made_again_appends_nothing_again(lab: Lab) -> None:
    """The same value in the same place is the same append; another value is another."""
    attempts: list[int] = []

    @step(name="streams", max_attempts=3, interval=0)
    async def streams() -> None:
        attempts.append(len(attempts))
        await write_stream("s", "first")
        await write_stream("s", "first")
        await write_stream("s", attempts[-1])
        if len(attempts) < 3:
            raise OSError("again")

    @workflow(name="outer")
    async def outer() -> None:
        await streams()
        await streams()

    await lab.start(outer)
    await outer.options(id="w")()
    values = [(text, writer) for _, text, writer in await stored_stream(lab, "w", "s")]
    assert values == [
        ('"first"', 1),
        ('"first"', 1),
        ("0", 1),
        ("1", 1),
        ("2", 1),
        ('"first"', 2),
        ('"first"', 2),
        ("3", 2),
    ]


async def test_what_a_body_wrote_is_not_written_again(lab: Lab) -> None:
    """Three replays, each with a step that runs again and writes again."""

    @workflow(name="outer")
    async def outer() -> None:
        await write_stream("s", "body")
        await run_step("streams", _streams)

    await lab.start(outer)
    await outer.options(id="w")()
    for _ in range(3):
        await lab.forget("w", [2])
        await lab.rerun("w")
    assert [text for _, text, _ in await stored_stream(lab, "w", "s")] == ['"body"', '"step"']


async def _streams() -> None:
    await write_stream("s", "step")


async def test_writers_at_once_leave_no_gap_and_lose_nothing(lab: Lab) -> None:
    """Twenty calls of the body and twenty steps, on one key."""

    @step(name="streams")
    async def streams(number: int) -> None:
        for part in range(3):
            await write_stream("s", [number, part])

    @workflow(name="crowd")
    async def crowd() -> None:
        await gather(
            *(write_stream("s", [number, 0]) for number in range(20)),
            *(streams(number) for number in range(20, 40)),
        )

    await lab.start(crowd)
    await crowd.options(id="w")()
    assert [offset for offset, _, _ in await stored_stream(lab, "w", "s")] == list(range(80))
    values = await all_of(read_stream("w", "s"))
    for number in range(40):
        parts = [part for writer, part in values if writer == number]
        assert parts == list(range(1 if number < 20 else 3)), "each writer's order is kept"


async def test_a_lost_answer_appends_nothing_twice(lab: Lab) -> None:
    """Neither from a body nor from a step."""

    async def streams() -> None:
        lab.store.fail("append", DatabaseUnavailable("cut"), after=True)
        await write_stream("s", "step")

    @workflow(name="outer")
    async def outer() -> None:
        await write_stream("s", "body")
        await run_step("streams", streams)

    await lab.start(outer)
    lab.store.fail("append", DatabaseUnavailable("cut"), after=True)
    await outer.options(id="w")()
    assert len(lab.store.batches("append")) == 4
    assert [text for _, text, _ in await stored_stream(lab, "w", "s")] == ['"body"', '"step"']


async def test_refusals(memory_lab: Lab) -> None:
    """Outside a workflow nothing is written; no engine, no reader; offsets count from 0."""
    for call in (write_stream("s", 1), close_stream("s")):
        with pytest.raises(NotRunning, match="outside a workflow"):
            await call
    with pytest.raises(NotRunning):
        read_stream("w", "s")
    await memory_lab.start(writes)
    with pytest.raises(NotRunning, match="outside a workflow"):
        await write_stream("s", 1)
    with pytest.raises(WorkflowNotFound):
        await all_of(read_stream("nobody", "s"))
    wrong: list[dict[str, Any]] = [
        {"offset": -1},
        {"offset": True},
        {"offset": 2**63},
        {"timeout": -1},
    ]
    for options in wrong:
        with pytest.raises(InvalidArgument):
            read_stream("w", "s", **options)
    with pytest.raises(InvalidArgument):
        read_stream("w", "k" * 9_000)


async def test_an_offset_that_no_stream_reaches_is_one_behind_its_end(lab: Lab) -> None:
    await lab.start(writes)
    await writes.options(id="w")([1], close=False)
    assert await all_of(read_stream("w", "s", offset=2**63 - 1)) == []


WRONG: dict[str, Any] = {
    "no stored form": lambda: write_stream("s", object()),
    "a blank key": lambda: write_stream("", 1),
    "NUL in a key": lambda: write_stream("a\x00b", 1),
    "half a character to close": lambda: close_stream("\ud800"),
    "a blank key to close": lambda: close_stream(" "),
    "a key that fits nowhere": lambda: write_stream("€" * 3_000, 1),
    "the end itself": lambda: write_stream("s", "__DBOS_STREAM_CLOSED__"),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_refusal_takes_no_id(memory_lab: Lab, wrong: str) -> None:
    @workflow(name="wrong")
    async def wrongly() -> None:
        call = WRONG[wrong]()
        assert call.step_id is None
        with pytest.raises((InvalidArgument, SerializationError)):
            await call
        await look()

    await memory_lab.start(wrongly)
    await wrongly.options(id="w")()
    assert await memory_lab.history("w") == [(1, "look")]


async def test_a_cancelled_or_stopped_reader_stops_at_once(shared_lab: Lab) -> None:
    """In a workflow, whose run is released; outside, where the wait is interrupted."""
    lab = shared_lab
    engine = await lab.start(follows, grace=3_600)
    await insert_workflow(lab, "silent", status="PENDING")
    cancelled = await follows.options(id="c").start("silent", "s")
    await follows.options(id="s").start("silent", "s")
    outside = asyncio.ensure_future(all_of(read_stream("silent", "s")))
    await eventually(lambda: len(lab.store.batches("stream_pages")) >= 3)
    await cancelled.cancel()
    await lab.until("c", WorkflowState.CANCELLED)
    await engine.stop()
    assert await lab.state("s") == "ENQUEUED"
    with pytest.raises(WaitInterrupted):
        await outside


@dataclass(frozen=True)
class Token:
    text: str
    number: int


async def test_typed_values_come_back_as_they_were(lab: Lab) -> None:
    @workflow(name="reads")
    async def reads() -> bool:
        values = [value async for value in read_stream("w", "s", into=Token)]
        return values == [Token("a", 1), Token("b", 2)]

    @workflow(name="typed")
    async def typed() -> None:
        await gather(write_stream("s", Token("a", 1)), sleep(0.001))
        await write_stream("s", Token("b", 2))

    await lab.start(reads, typed)
    await typed.options(id="w")()
    assert await reads.options(id="r")() is True
    assert await all_of(read_stream("w", "s", into=Token)) == [Token("a", 1), Token("b", 2)]


async def test_a_client_follows(shared_lab: Lab) -> None:
    lab = shared_lab
    await lab.start(writes_at)
    word = f"{lab.kind} client follows"
    await writes_at.options(id="w").start(word, "return")
    async with Client(lab.url) as client:
        reader = client.read_stream("w", "s", into=int)
        assert [await anext(reader), await anext(reader)] == [1, 2]
        rest = asyncio.ensure_future(all_of(reader))
        open_gate(word)
        assert await rest == [3]
        with pytest.raises(WorkflowNotFound):
            await all_of(client.read_stream("nobody", "s"))
