"""Readers of streams in workflows, where each value is a step, and under races and drops."""

from __future__ import annotations

import asyncio
import base64
import pickle
from typing import Any

import pytest

from perdure import (
    StreamTimeout,
    WorkflowNotFound,
    current,
    gather,
    read_stream,
    run_step,
    select,
    step,
    workflow,
)
from perdure.errors import BuiltElsewhere, DatabaseUnavailable, FormatUnavailable
from tests.support.engines import Lab
from tests.support.talking import (
    CLOSED,
    all_of,
    follows,
    insert_workflow,
    of,
    open_gate,
    writes,
    writes_at,
)
from tests.support.workflows import look


async def opens(word: str) -> None:
    open_gate(word)


async def test_a_reader_in_a_workflow_replays_what_it_read(lab: Lab) -> None:
    """Values and end, also when the writer is gone by then."""
    await lab.start(writes, follows)
    await writes.options(id="w")([1, "two"], close=True)
    assert await follows.options(id="r")("w", "s") == [1, "two"]
    rows = await lab.steps("r")
    assert [row["function_name"] for row in rows] == ["DBOS.readStream"] * 3
    assert [row["output"] for row in rows] == ["1", '"two"', CLOSED]
    await lab.backdoor.run("DELETE FROM streams")
    await lab.backdoor.run("DELETE FROM workflow_status WHERE workflow_uuid = 'w'")
    await lab.rerun("r")
    assert await lab.output("r") == '[1,"two"]'


async def test_a_replayed_reader_goes_on_where_it_was(lab: Lab) -> None:
    """Half of it was recorded: the rest is read from there."""
    await lab.start(writes, follows)
    await writes.options(id="w")(list(range(6)), close=False)
    await follows.options(id="r")("w", "s")
    await lab.cut("r", 4)
    await lab.rerun("r")
    assert await lab.output("r") == "[0,1,2,3,4,5]"
    assert len(await lab.steps("r")) == 7


async def test_failures_of_a_reader_in_a_workflow_are_recorded(lab: Lab) -> None:
    """A replay raises them again, though there is a value, or a workflow, by then."""

    @workflow(name="tries")
    async def tries(whom: str) -> str:
        reader = read_stream(whom, "s", timeout=0.05)
        try:
            return str(await anext(reader))
        except (StreamTimeout, WorkflowNotFound) as error:
            return type(error).__name__

    await lab.start(tries)
    assert await tries.options(id="missing")("nobody") == "WorkflowNotFound"
    await insert_workflow(lab, "late", status="PENDING")
    assert await tries.options(id="late reader")("late") == "StreamTimeout"
    for whom in ("nobody", "late"):
        if whom == "nobody":
            await insert_workflow(lab, whom)
        await lab.backdoor.run(
            'INSERT INTO streams (workflow_uuid, key, value, "offset", function_id, serialization)'
            " VALUES (?, 's', '1', 0, 1, 'portable_json')",
            whom,
        )
    for reader, outcome in (("missing", "WorkflowNotFound"), ("late reader", "StreamTimeout")):
        await lab.rerun(reader)
        assert await lab.output(reader) == f'"{outcome}"'
        (row,) = await lab.steps(reader)
        assert (row["function_name"], row["output"]) == ("DBOS.readStream", None)


async def test_two_readers_of_a_body_read_together(lab: Lab) -> None:
    """Two of their own, and two reads of one, which get different values."""

    @workflow(name="together")
    async def together() -> list[Any]:
        one, other = read_stream("w", "s"), read_stream("w", "s", offset=1)
        first = await gather(anext(one), anext(other))
        second = await gather(anext(one), anext(one))
        return [*first, *second, one.offset]

    await lab.start(writes, together)
    await writes.options(id="w")(list(range(5)), close=False)
    assert await together.options(id="t")() == [0, 1, 1, 2, 3]
    await lab.rerun("t")
    assert await lab.output("t") == "[0,1,1,2,3]"


async def test_a_read_that_lost_a_race_loses_no_value(lab: Lab) -> None:
    """The sequence is whole, none comes twice, and a replay reads the same."""

    @workflow(name="impatient")
    async def impatient(word: str) -> list[Any]:
        reader = read_stream("w", "s")
        found: list[Any] = [await anext(reader), await anext(reader)]
        first = await select(value=anext(reader), early=run_step("look", look.fn))
        found.append(first.name)
        await run_step("open", opens, word)
        return [*found, *[value async for value in reader]]

    await lab.start(writes_at, impatient)
    word = f"{lab.kind} impatient"
    await writes_at.options(id="w").start(word, "return")
    assert await impatient.options(id="r")(word) == [1, 2, "early", 3]
    await lab.rerun("r")
    assert await lab.output("r") == '[1,2,"early",3]'


async def test_a_read_that_is_dropped_outside_loses_no_value(lab: Lab) -> None:
    await lab.start(writes_at)
    word = f"{lab.kind} dropped"
    reader = (await writes_at.options(id="w").start(word, "return")).stream("s")
    assert [await anext(reader), await anext(reader)] == [1, 2]
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(reader)
    open_gate(word)
    assert await all_of(reader) == [3]


async def test_a_reader_stays_where_it_was_made(memory_lab: Lab) -> None:
    """A branch may be replayed alone: what it read of a reader it shares would be missing."""

    @workflow(name="shares")
    async def shares() -> list[Any]:
        reader = read_stream("w", "s")

        async def branch() -> str:
            with pytest.raises(BuiltElsewhere, match="make another where it is read"):
                await anext(reader)
            return "refused"

        (said,) = await gather(branch())
        return [said, await anext(reader)]

    await memory_lab.start(writes, shares)
    await writes.options(id="w")([1], close=False)
    assert await shares.options(id="r")() == ["refused", 1]


async def test_a_read_that_tied_and_lost_is_read_again(memory_lab: Lab) -> None:
    """Both ended at one moment, and the first in the list won: the value was not seen."""
    lab = memory_lab
    both = asyncio.Event()

    @workflow(name="tied")
    async def tied() -> list[Any]:
        reader = read_stream("w", "s")
        first = await select(early=run_step("early", both.wait), value=anext(reader))
        return [first.name, *[value async for value in reader]]

    await lab.start(writes, tied)
    await writes.options(id="w")([1, 2], close=False)
    held = lab.store.hold("stream_pages", after=True)
    handle = await tied.options(id="r").start()
    await held.reached()
    held.open()
    both.set()
    assert await handle.result() == ["early", 1, 2]
    assert await lab.history("r") != []
    await lab.rerun("r")
    assert await lab.output("r") == '["early",1,2]'


async def test_a_read_outside_that_tied_and_lost_is_read_again(memory_lab: Lab) -> None:
    """As in a workflow, though nothing is recorded."""
    lab = memory_lab
    both = asyncio.Event()
    await lab.start(writes)
    await writes.options(id="w")([1, 2], close=False)
    reader = read_stream("w", "s")
    held = lab.store.hold("stream_pages", after=True)
    race = asyncio.ensure_future(
        of(select(early=run_step("early", both.wait), value=anext(reader)))
    )
    await held.reached()
    held.open()
    both.set()
    first = await race
    assert (first.name, await all_of(reader)) == ("early", [1, 2])


async def test_inside_a_step_a_reader_is_plain(lab: Lab) -> None:
    """Only the step is recorded, and another attempt reads all of it again."""

    @step(name="reads", max_attempts=2, interval=0)
    async def reads() -> list[Any]:
        found = await all_of(read_stream("w", "s"))
        if current().attempt == 1:
            raise OSError("again")
        return found

    @workflow(name="outer")
    async def outer() -> list[Any]:
        return await reads()

    await lab.start(writes, outer)
    await writes.options(id="w")([1, 2], close=True)
    assert await outer.options(id="r")() == [1, 2]
    assert await lab.history("r") == [(1, "reads")]


@pytest.mark.parametrize("state", ["ENQUEUED", "DELAYED", "PENDING"])
async def test_a_writer_that_has_not_begun_has_not_ended(lab: Lab, state: str) -> None:
    """There is nothing yet, and something may follow."""
    await lab.start()
    await insert_workflow(lab, "w", status=state)
    with pytest.raises(StreamTimeout):
        await anext(read_stream("w", "s", timeout=0))


async def test_trouble_with_the_database_is_no_end_of_a_reader(memory_lab: Lab) -> None:
    """It is asked again; nothing of it is recorded."""
    lab = memory_lab
    await lab.start(writes, follows)
    await writes.options(id="w")([1, 2], close=True)
    lab.store.fail("stream_pages", DatabaseUnavailable("away"), times=2)
    assert await follows.options(id="r")("w", "s") == [1, 2]
    lab.store.fail("stream_pages", DatabaseUnavailable("away"), times=2)
    assert await all_of(read_stream("w", "s")) == [1, 2]


@pytest.mark.parametrize("label", ["", None, "portable_json"])
@pytest.mark.parametrize("text", [CLOSED, CLOSED.strip('"')])
async def test_the_end_as_other_sdks_write_it(lab: Lab, text: str, label: str | None) -> None:
    """With the quotes of JSON or without, labelled or not."""
    await lab.start(writes)
    await writes.options(id="w")([1, 2, 3], close=False)
    await relabel(lab, 1, text, label)
    assert await all_of(read_stream("w", "s")) == [1]


async def test_the_text_of_the_end_in_another_format_is_a_value(memory_lab: Lab) -> None:
    """Only what is written as the end is one; what is not read here fails its own read alone."""
    lab = memory_lab
    await lab.start(writes)
    await writes.options(id="w")([1, 2, 3], close=False)
    await relabel(lab, 1, CLOSED, "of their own")
    reader = read_stream("w", "s")
    assert await anext(reader) == 1
    with pytest.raises(FormatUnavailable):
        await anext(reader)
    assert await all_of(reader) == [3]


@pytest.mark.parametrize("protocol", [4, 5])
async def test_an_end_that_the_python_sdk_recorded_ends_the_reader(
    memory_lab: Lab, protocol: int
) -> None:
    """A workflow of theirs goes on here, where no pickle is loaded."""
    lab = memory_lab
    await lab.start(writes, follows)
    await writes.options(id="w")([1], close=True)
    await follows.options(id="r")("w", "s")
    end = base64.b64encode(pickle.dumps(CLOSED.strip('"'), protocol)).decode()
    await lab.backdoor.run(
        "UPDATE operation_outputs SET output = ?, serialization = 'py_pickle'"
        " WHERE workflow_uuid = 'r' AND function_id = 2",
        end,
    )
    assert (await lab.rerun("r"))["status"] == "SUCCESS"
    assert await lab.output("r") == "[1]"


async def relabel(lab: Lab, offset: int, text: str, label: str | None) -> None:
    """Exchange a value of the stream `s` for one that another program wrote."""
    await lab.backdoor.run(
        "UPDATE streams SET value = ?, serialization = ? WHERE key = 's' AND \"offset\" = ?",
        text,
        label,
        offset,
    )
