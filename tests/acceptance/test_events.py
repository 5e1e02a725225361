"""Events: published once by a workflow, read by anybody, waited for without looking often."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import (
    Client,
    Engine,
    InvalidArgument,
    WorkflowState,
    current,
    get_event,
    get_events,
    run_step,
    select,
    set_event,
    sleep,
    step,
    workflow,
)
from perdure.errors import (
    AmbiguousEngine,
    DatabaseUnavailable,
    NotRunning,
    SerializationError,
    WaitInterrupted,
    WrongPlace,
)
from tests.support.engines import Lab
from tests.support.talking import gate, insert_workflow, of, open_gate, stored_events
from tests.support.waiting import eventually
from tests.support.workflows import look


@workflow(name="publishes")
async def publishes(values: dict[str, Any]) -> None:
    for key, value in values.items():
        await set_event(key, value)


@workflow(name="asks")
async def asks(whom: str, key: str, timeout: float | None) -> Any:
    return await get_event(whom, key, timeout=timeout)


@workflow(name="publishes at gate")
async def publishes_at(word: str) -> None:
    await gate(word)
    await set_event("k", word)


@workflow(name="progresses")
async def progresses(word: str) -> None:
    await look()
    await set_event("progress", 0.5)
    await gate(word)


async def history_of_events(lab: Lab, workflow_id: str) -> list[tuple[int, str, str]]:
    rows = await lab.rows(
        "SELECT function_id AS id, key, value FROM workflow_events_history"
        " WHERE workflow_uuid = ? ORDER BY 1, 2",
        workflow_id,
    )
    return [(row["id"], row["key"], row["value"]) for row in rows]


async def test_progress_is_seen_from_outside_and_survives_a_restart(shared_lab: Lab) -> None:
    """Neither lost nor published again by the next process; a missing key is None."""
    lab = shared_lab
    engine = await lab.start(progresses)
    word = f"{lab.kind} progress"
    handle = await progresses.options(id="w").start(word)
    assert await handle.event("progress", timeout=60) == 0.5
    assert await get_event("w", "progress", timeout=0) == 0.5
    assert await get_event("w", "other", timeout=0) is None
    await engine.stop()
    await lab.start(progresses)
    assert await get_event("w", "progress", timeout=0) == 0.5
    open_gate(word)
    await lab.until("w")
    assert await lab.history("w") == [(1, "look"), (2, "DBOS.setEvent"), (3, "gate")]
    assert await history_of_events(lab, "w") == [(2, "progress", "0.5")]


async def test_the_last_value_of_a_key_is_its_present_one(lab: Lab) -> None:
    """Keys are independent; the history keeps each value with its step."""

    @workflow(name="counts")
    async def counts() -> None:
        for number in range(3):
            await set_event("count", number)
        await set_event("other", None)

    await lab.start(counts)
    await counts.options(id="w")()
    await lab.rerun("w")
    assert await stored_events(lab, "w") == {"count": "2", "other": "null"}
    assert await get_events("w") == {"count": 2, "other": None}
    assert await history_of_events(lab, "w") == [
        (1, "count", "0"),
        (2, "count", "1"),
        (3, "count", "2"),
        (4, "other", "null"),
    ]
    row = (await lab.steps("w"))[0]
    assert (row["output"], row["error"], row["serialization"]) == (None, None, None)


async def test_a_read_in_a_workflow_is_recorded_and_replayed(lab: Lab) -> None:
    """What was read then, whatever is there now; its time limit only where it had to wait."""
    await lab.start(publishes, asks)
    await publishes.options(id="p")({"k": [1, 2]})
    assert await asks.options(id="a")("p", "k", 5) == [1, 2]
    assert await lab.history("a") == [(1, "DBOS.getEvent")]
    await lab.backdoor.run("UPDATE workflow_events SET value = '7'")
    await lab.rerun("a")
    assert await lab.output("a") == "[1,2]"
    late = await asks.options(id="b").start("p", "nothing", 3_600)
    await lab.until_asleep(3_000)
    lab.clock.leap(3_700)
    assert await late is None
    assert await lab.history("b") == [(1, "DBOS.getEvent"), (2, "DBOS.sleep")]
    await publishes.options(id="nobody")({"k": 1})
    await lab.rerun("b")
    assert await lab.output("b") == "null"


async def test_a_read_in_a_step_leaves_only_the_step(lab: Lab) -> None:
    @step(name="reads")
    async def reads() -> Any:
        return [
            await get_event("p", "k"),
            await get_events("p"),
            await get_event("p", "no", timeout=0),
        ]

    @workflow(name="outer")
    async def outer() -> Any:
        return await reads()

    await lab.start(publishes, outer)
    await publishes.options(id="p")({"k": 1})
    assert await outer.options(id="w")() == [1, {"k": 1}, None]
    assert await lab.history("w") == [(1, "reads")]


async def test_a_method_of_the_handle_is_a_step_like_the_function(lab: Lab) -> None:
    @workflow(name="parent")
    async def parent() -> Any:
        handle = await publishes.options(id="p").start({"k": 1})
        return [await handle.event("k", timeout=60), await handle.events()]

    await lab.start(publishes, parent)
    assert await parent.options(id="w")() == [1, {"k": 1}]
    ids = dict(await lab.history("w"))
    assert (ids[2], ids[4]) == ("DBOS.getEvent", "DBOS.get_events")
    await lab.cut("w", 5)
    await lab.backdoor.run("UPDATE workflow_events SET value = '7'")
    await lab.rerun("w")
    assert await lab.output("w") == '[1,{"k":1}]'


async def test_another_engine_is_refused_in_a_body_and_plain_in_a_step(memory_lab: Lab) -> None:
    """The ids would be of one database and the rows in another."""
    other: list[Engine] = []

    @step(name="elsewhere")
    async def elsewhere() -> Any:
        return await other[0].handle("w").event("k", timeout=0)

    @workflow(name="looks")
    async def looks() -> Any:
        there = other[0].handle("w")
        calls: list[Any] = [
            there.event("k"),
            there.events(),
            there.send(1),
            other[0].send("w", 1),
            other[0].send_bulk([]),
        ]
        for call in calls:
            assert call.step_id is None
            with pytest.raises(WrongPlace, match="another engine"):
                await call
        with pytest.raises(WrongPlace, match="another engine"):
            there.stream("s")
        return await elsewhere()

    await memory_lab.start(looks)
    async with Engine("memory:", workflows=[]) as second:
        other.append(second)
        with pytest.raises(AmbiguousEngine, match="get_event names none of them"):
            await get_event("w", "k")
        assert await looks.options(id="w", engine=memory_lab.engine)() is None
    assert await memory_lab.history("w") == [(1, "elsewhere")]


async def test_outside_a_workflow_nothing_is_published(memory_lab: Lab) -> None:
    """Nor inside a step; reading needs an engine."""
    with pytest.raises(NotRunning, match="set_event was called outside a workflow"):
        await set_event("k", 1)
    with pytest.raises(NotRunning):
        await get_event("w", "k")

    @step(name="publishes")
    async def inside() -> None:
        with pytest.raises(WrongPlace, match="set_event has no meaning inside a step"):
            await set_event("k", 1)

    @workflow(name="outer")
    async def outer() -> None:
        await inside()

    await memory_lab.start(outer)
    await outer.options(id="w")()
    assert await get_events("w") == {}


async def test_ids_are_those_of_building(memory_lab: Lab) -> None:
    """Built one way, awaited another; a read takes a second id for its time limit."""

    @workflow(name="builds")
    async def builds() -> None:
        a, b = sleep(0.001), set_event("k", 1)
        c = get_event(current().workflow_id or "", "k", timeout=0)
        d = look()
        assert [call.step_id for call in (a, b, c, d)] == [1, 2, 3, 5]
        for call in (d, c, b, a):
            await call

    await memory_lab.start(builds)
    await builds.options(id="w")()
    assert await memory_lab.history("w") == [
        (1, "DBOS.sleep"),
        (2, "DBOS.setEvent"),
        (3, "DBOS.getEvent"),
        (5, "look"),
    ]


WRONG: dict[str, Any] = {
    "no stored form": lambda: set_event("k", object()),
    "a blank key": lambda: set_event(" ", 1),
    "NUL in a key": lambda: set_event("a\x00b", 1),
    "half a character to read": lambda: get_event("w", "\ud800"),
    "no text": lambda: set_event(5, 1),  # type: ignore[arg-type]
    "a key that fits nowhere": lambda: set_event("€" * 3_000, 1),
    "no id": lambda: get_event("", "k"),
    "a long key to read": lambda: get_event("w", "k" * 9_000),
    "a negative timeout": lambda: get_event("w", "k", timeout=-1),
    "no id to read all of": lambda: get_events(""),
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


@dataclass(frozen=True)
class Progress:
    done: int
    of: int


async def test_a_typed_event_is_read_as_what_it_was(lab: Lab) -> None:
    """Inside, where a replay reads the same, and outside."""
    seen: list[Progress | None] = []

    @workflow(name="typed")
    async def typed() -> None:
        await set_event("progress", Progress(1, 2))
        seen.append(await get_event("w", "progress", into=Progress))

    await lab.start(typed)
    await typed.options(id="w")()
    await lab.rerun("w")
    seen.append(await get_event("w", "progress", into=Progress))
    assert seen == [Progress(1, 2)] * 3
    assert await get_event("w", "progress") == {"done": 1, "of": 2}


async def test_all_waiters_of_a_key_wake_and_those_who_leave_disturb_nobody(lab: Lab) -> None:
    """Twenty wait, half of them not for long."""
    await lab.start(publishes_at)
    word = f"{lab.kind} twenty"
    handle = await publishes_at.options(id="w").start(word)
    short = [asyncio.ensure_future(of(handle.event("k", timeout=0.05))) for _ in range(10)]
    long = [asyncio.ensure_future(of(handle.event("k", timeout=3_000))) for _ in range(10)]
    assert await asyncio.gather(*short) == [None] * 10
    open_gate(word)
    assert await asyncio.gather(*long) == [word] * 10
    assert lab.engine.kernel.talk.signals.waiting == 0


async def test_a_workflow_that_does_not_exist_yet_may_still_publish(lab: Lab) -> None:
    await lab.start(publishes)
    reading = asyncio.ensure_future(of(get_event("later", "k", timeout=3_000)))
    await lab.until_asleep(2_000)
    await publishes.options(id="later")({"k": "v"})
    assert await reading == "v"


async def test_the_limit_of_a_read_survives_a_restart(lab: Lab) -> None:
    """The instant was recorded when the wait began; another execution waits only for the rest."""
    await lab.start(asks)
    await asks.options(id="w").start("nobody", "k", 3_600)
    await lab.until_asleep(3_000)
    before = await lab.steps("w")
    assert before[0]["completed_at_epoch_ms"] == before[0]["started_at_epoch_ms"]
    lab.clock.leap(1_800)
    await lab.hand_back("w")
    await lab.until_asleep_for(1_000, 1_800)
    assert await lab.steps("w") == before
    lab.clock.leap(1_801)
    assert (await lab.until("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == "null"
    assert await lab.history("w") == [(1, "DBOS.getEvent"), (2, "DBOS.sleep")]


async def test_a_cancelled_or_stopped_reader_stops_at_once(shared_lab: Lab) -> None:
    """It only waits: nothing is lost by it, and however long the grace."""
    lab = shared_lab
    engine = await lab.start(asks, grace=3_600)
    cancelled = await asks.options(id="c").start("nobody", "k", 3_600)
    await asks.options(id="s").start("nobody", "k", None)
    await lab.until_asleep(3_000)
    await cancelled.cancel()
    await lab.until("c", WorkflowState.CANCELLED)
    await eventually(lambda: "c" not in engine.kernel.runner.runs)
    outside = asyncio.ensure_future(of(get_event("nobody", "k")))
    await eventually(lambda: engine.kernel.talk.signals.waiting == 2)
    await engine.stop()
    row = await lab.status("s")
    assert (row["status"], row["recovery_attempts"]) == ("ENQUEUED", 0)
    with pytest.raises(WaitInterrupted):
        await outside
    with pytest.raises(NotRunning):
        await cancelled.event("k")


async def test_a_lost_answer_publishes_nothing_twice(lab: Lab) -> None:
    await lab.start(publishes)
    lab.store.fail("publish", DatabaseUnavailable("cut"), times=2, after=True)
    await publishes.options(id="w")({"k": 1})
    assert len(lab.store.batches("publish")) == 3
    assert await history_of_events(lab, "w") == [(1, "k", "1")]


async def test_a_rivals_publication_of_the_same_step_is_adopted(lab: Lab) -> None:
    """Whoever recorded first decides; a record of another kind is a fault of the code."""
    recorded = asyncio.Event()

    @workflow(name="raced")
    async def raced(rival: str) -> None:
        await lab.backdoor.run(
            "INSERT INTO operation_outputs (workflow_uuid, function_id, function_name,"
            " completed_at_epoch_ms) VALUES (?, 1, ?, 7)",
            current().workflow_id,
            rival,
        )
        recorded.set()
        await set_event("k", 1)

    await lab.start(raced)
    await raced.options(id="same")("DBOS.setEvent")
    recorded.clear()
    await raced.options(id="other").start("look")
    await recorded.wait()
    await lab.until("other", WorkflowState.DELAYED)
    assert await stored_events(lab, "same") == await stored_events(lab, "other") == {}


async def test_a_losing_read_keeps_nothing_open(lab: Lab) -> None:
    @workflow(name="races")
    async def races() -> str:
        first = await select(late=get_event("nobody", "k"), early=run_step("look", look.fn))
        return str(first.name)

    await lab.start(races)
    assert await races.options(id="w")() == "early"
    assert lab.engine.kernel.talk.signals.waiting == 0
    await lab.rerun("w")
    assert await lab.output("w") == '"early"'


async def test_a_client_reads_and_waits(shared_lab: Lab) -> None:
    """It hears no hints: it looks, less and less often."""
    lab = shared_lab
    await lab.start(publishes_at)
    word = f"{lab.kind} client"
    await publishes_at.options(id="w").start(word)
    async with Client(lab.url) as client:
        assert await client.get_event("w", "k", timeout=0) is None
        waiting = asyncio.ensure_future(client.get_event("w", "k", timeout=60, into=str))
        open_gate(word)
        assert await waiting == word
        assert await client.get_events("w") == {"k": word}
        reading = asyncio.ensure_future(client.get_event("w", "never"))
        await asyncio.sleep(0)
    with pytest.raises((WaitInterrupted, NotRunning, DatabaseUnavailable)):
        await reading


async def test_the_event_of_another_sdk_is_read(lab: Lab) -> None:
    """A workflow of theirs, and a key of which only this application's reader knows."""
    await lab.start(publishes)
    await insert_workflow(lab, "theirs")
    await lab.backdoor.run(
        "INSERT INTO workflow_events (workflow_uuid, key, value, serialization)"
        " VALUES ('theirs', 'k', '{\"a\":1}', 'portable_json')"
    )
    assert await get_event("theirs", "k", timeout=60) == {"a": 1}
