"""Waiting for what is said: hints make it fast, a shared poll makes it true, nothing is missed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure import (
    AwaitedWorkflowCancelled,
    get_event,
    join,
    read_stream,
    recv,
    select_workflow,
    set_event,
    timeout,
    workflow,
    write_stream,
)
from perdure.errors import DatabaseUnavailable
from perdure.model.ids import WorkflowId
from tests.support.engines import Lab
from tests.support.talking import (
    all_of,
    follows,
    gate,
    insert_workflow,
    never_polling,
    never_told,
    of,
    open_gate,
    receives,
    until_wanted,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120)


@workflow(name="receives one")
async def receives_one() -> Any:
    return await recv("t", timeout=3_000)


@workflow(name="asks for one")
async def asks_one(whom: str) -> Any:
    return await get_event(whom, "k", timeout=3_000)


@workflow(name="says")
async def says(word: str) -> None:
    """Publish and append, behind a gate."""
    await gate(word)
    await set_event("k", word)
    await write_stream("s", word)


@workflow(name="says at once")
async def says_at_once(pause_s: float) -> None:
    await asyncio.sleep(pause_s)
    await set_event("k", "v")


async def waiters_of_each_kind(lab: Lab, word: str) -> list[asyncio.Future[Any]]:
    """Workflows and outsiders that wait for the workflow `says`, and one for a message."""
    engine = lab.engine
    handles = [
        await receives_one.options(id="r", engine=engine).start(),
        await asks_one.options(id="a", engine=engine).start("says"),
        await follows.options(id="f", engine=engine).start("says", "s"),
    ]
    waits: list[Awaitable[Any]] = [
        *(handle.result() for handle in handles),
        engine.handle("says").event("k"),
        all_of(engine.handle("says").stream("s")),
    ]
    futures = [asyncio.ensure_future(of(each)) for each in waits]
    await lab.until_asleep(2_000)
    await eventually(lambda: len(lab.store.batches("events")) >= 2)
    await eventually(lambda: len(lab.store.batches("stream_pages")) >= 2)
    await eventually(lambda: lab.store.batches("receive"))
    assert not any(each.done() for each in futures), word
    return futures


def answers(word: str) -> list[Any]:
    return ["hello", word, [word], word, [word]]


EVERYTHING = (receives_one, asks_one, follows, says)


async def test_within_a_process_nobody_looks_to_hear(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any poll: a write wakes who waits, and the end of a workflow its readers."""
    never_polling(monkeypatch)
    word = f"{lab.kind} within"
    engine = await lab.start(*EVERYTHING, heartbeat=5)
    await says.options(id="says").start(word)
    futures = await waiters_of_each_kind(lab, word)
    open_gate(word)
    await engine.send("r", "hello", "t")
    assert await asyncio.gather(*futures) == answers(word)


async def test_across_processes_a_hint_is_enough(
    shared_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two engines, and no poll: by a notification, or by the change of the file."""
    never_polling(monkeypatch)
    lab, word = shared_lab, f"{shared_lab.kind} across"
    speaker = await lab.start(says, heartbeat=5)
    await says.options(id="says", engine=speaker).start(word)
    await lab.start(receives_one, asks_one, follows, heartbeat=5)
    futures = await waiters_of_each_kind(lab, word)
    await until_wanted(lab, speaker, "says")
    open_gate(word)
    await speaker.send("r", "hello", "t")
    assert await asyncio.gather(*futures) == answers(word)


@pytest.mark.parametrize("how", ["finished", "cancelled"])
async def test_an_end_elsewhere_is_told_to_whoever_waits(
    shared_lab: Lab, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """For a result, for all or for the first; nobody polls."""
    never_polling(monkeypatch)
    lab, word = shared_lab, f"{shared_lab.kind} ends {how}"
    runner = await lab.start(says, heartbeat=5)
    handle = await says.options(id="says", engine=runner).start(word)
    waiter = await lab.start(heartbeat=5)
    there = waiter.handle("says")
    waits = [asyncio.ensure_future(of(each)) for each in (select_workflow([there]), join([there]))]
    result = asyncio.ensure_future(of(there.result()))
    await until_wanted(lab, runner, "says")
    if how == "finished":
        open_gate(word)
        assert await result is None
    else:
        await handle.cancel()
        with pytest.raises(AwaitedWorkflowCancelled):
            await result
    assert await asyncio.gather(*waits) == ["says", None]
    await eventually(lambda: not runner.kernel.tidings.is_wanted(WorkflowId("says")))


async def test_without_hints_the_poll_finds_everything(
    shared_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also messages of a database whose trigger is gone."""
    never_told(monkeypatch)
    lab, word = shared_lab, f"{shared_lab.kind} polled"
    speaker = await lab.start(says)
    await says.options(id="says", engine=speaker).start(word)
    await lab.start(receives_one, asks_one, follows)
    futures = await waiters_of_each_kind(lab, word)
    open_gate(word)
    await speaker.send("r", "hello", "t")
    assert await asyncio.gather(*futures) == answers(word)


async def test_many_waiters_cost_one_statement_of_each_kind(lab: Lab) -> None:
    """However many wait: what each looked for itself is asked for together from then on."""
    number = 100
    engine = await lab.start(receives_one, asks_one, follows, max_running=1_000)
    await insert_workflow(lab, "silent", status="PENDING")
    for each in range(number):
        await receives_one.options(id=f"r{each}").start()
        await asks_one.options(id=f"a{each}").start("silent")
        await follows.options(id=f"f{each}").start("silent", "s")
    signals = engine.kernel.talk.signals
    await eventually(lambda: signals.waiting == 3 * number)
    await eventually(lambda: len(lab.clock.sleepers(2_000)) == 2 * number)
    await polls(lab, 1)
    lab.store.forget()
    await polls(lab, 3)
    counts = lab.store.counts
    assert abs(counts["events"] - counts["topics_with_messages"]) <= 1
    assert abs(counts["stream_pages"] - counts["topics_with_messages"]) <= 1
    assert counts["receive"] == 0
    assert {len(items) for items in lab.store.batches("topics_with_messages")} == {number}
    assert {len(items) for items in lab.store.batches("stream_pages")} == {1}, "one interest"


async def polls(lab: Lab, number: int) -> None:
    """Wait until that many more polls for messages began."""
    before = lab.store.counts["topics_with_messages"]
    await eventually(lambda: lab.store.counts["topics_with_messages"] >= before + number)


async def test_a_message_between_the_look_and_the_wait_is_not_missed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer that there is none is under way when it is sent; nobody polls."""
    never_polling(monkeypatch)
    engine = await lab.start(receives_one, heartbeat=5)
    held = lab.store.hold("receive", after=True)
    handle = await receives_one.options(id="r").start()
    await held.reached()
    await engine.send("r", "in between", "t")
    held.open()
    assert await handle.result() == "in between"


@pytest.mark.parametrize("kind", ["event", "stream"])
async def test_a_value_between_the_look_and_the_wait_is_not_missed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    never_polling(monkeypatch)
    word = f"{lab.kind} between {kind}"
    await lab.start(says, heartbeat=5)
    handle = await says.options(id="says").start(word)
    held = lab.store.hold("events" if kind == "event" else "stream_pages", after=True)
    call = handle.event("k") if kind == "event" else anext(read_stream("says", "s"))
    reading = asyncio.ensure_future(of(call))
    await held.reached()
    open_gate(word)
    await handle.result()
    held.open()
    assert await reading == word


TRIES = 500


async def test_at_random_offsets_nothing_is_ever_missed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sender and receiver begin within five milliseconds of each other; nobody polls."""
    never_polling(monkeypatch)
    engine = await lab.start(receives_one, says_at_once, heartbeat=5, max_running=1_000)
    # The offsets are not for secrets.
    chance = random.Random(66)
    most_s = 0.005

    async def by_message(number: int) -> None:
        handle = await receives_one.options(id=f"r{number}").start()
        await asyncio.sleep(chance.uniform(0, most_s))
        await engine.send(handle.workflow_id, number, "t")
        assert await handle.result() == number

    async def by_event(number: int) -> None:
        handle = await says_at_once.options(id=f"e{number}").start(chance.uniform(0, most_s))
        await asyncio.sleep(chance.uniform(0, most_s))
        assert await handle.event("k") == "v"

    places = asyncio.Semaphore(20)

    async def one(attempt: Callable[[int], Awaitable[None]], number: int) -> None:
        async with places:
            await attempt(number)

    tries = [one(by_message if number % 2 else by_event, number) for number in range(TRIES)]
    async with asyncio.timeout(90):
        await asyncio.gather(*tries)


async def test_a_wait_that_ends_leaves_nothing_behind(lab: Lab) -> None:
    """Neither a subscription nor a timer nor a poll."""
    engine = await lab.start(receives, says)
    signals = engine.kernel.talk.signals
    handle = await receives.options(id="r").start([None, "t"], 3_000)
    for value in (1, 2):
        await engine.send("r", value, None if value == 1 else "t")
    assert await handle.result() == [1, 2]
    await insert_workflow(lab, "silent", status="PENDING")
    reading = asyncio.ensure_future(of(get_event("silent", "k", timeout=3_000)))
    await lab.until_asleep(2_000)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await join(["r"])
    assert signals.waiting == 0
    await eventually(lambda: not lab.clock.sleepers(2_000))


WAITS: dict[str, Any] = {
    "message": lambda: recv("t"),
    "event": lambda: get_event("p", "k"),
    "value": lambda: anext(read_stream("p", "s")),
    "end": lambda: select_workflow(["p", "rival"]),
}
NAMES = {
    "message": "DBOS.recv",
    "event": "DBOS.getEvent",
    "value": "DBOS.readStream",
    "end": "DBOS.waitFirst",
}


async def arrive(lab: Lab) -> None:
    """What each of the waits waits for, from other programs."""
    portable = ("'\"late\"'", "'portable_json'")
    for table, columns in (
        ("notifications", {"message_uuid": "'m'", "destination_uuid": "'w'", "topic": "'t'"}),
        ("workflow_events", {"workflow_uuid": "'p'", "key": "'k'"}),
        ("streams", {"workflow_uuid": "'p'", "key": "'s'", '"offset"': "0", "function_id": "1"}),
    ):
        value = "message" if table == "notifications" else "value"
        row = {**columns, value: portable[0], "serialization": portable[1]}
        await lab.backdoor.run(
            f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(row.values())})"
        )
    await lab.backdoor.run("UPDATE workflow_status SET status = 'SUCCESS' WHERE name = 'other'")


@pytest.mark.parametrize("kind", WAITS)
async def test_what_a_rival_recorded_during_a_wait_is_adopted(memory_lab: Lab, kind: str) -> None:
    """Whoever recorded first decides; what came here is left, a message for the next `recv`."""
    lab = memory_lab

    @workflow(name="waits")
    async def waits() -> Any:
        return [await WAITS[kind](), await recv("t", timeout=0)]

    engine = await lab.start(waits)
    await insert_workflow(lab, "p", status="PENDING")
    await waits.options(id="w").start()
    kernel = engine.kernel
    await eventually(
        lambda: kernel.talk.signals.waiting + kernel.waiter.waited_for(WorkflowId("p")) == 1
    )
    await lab.backdoor.run(
        "INSERT INTO operation_outputs (workflow_uuid, function_id, function_name, output,"
        " serialization, completed_at_epoch_ms)"
        " VALUES ('w', 1, ?, '\"rival\"', 'portable_json', 7)",
        NAMES[kind],
    )
    await arrive(lab)
    assert (await lab.until("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == '["rival","late"]'


async def test_trouble_with_the_database_ends_no_wait(memory_lab: Lab) -> None:
    """Neither at the first look nor at any later one: it is waited out, and not recorded."""
    lab = memory_lab
    await lab.start(*EVERYTHING)
    trouble = DatabaseUnavailable("away")
    for method in ("receive", "events", "stream_pages"):
        lab.store.fail(method, trouble, times=2)
    await says.options(id="says").start("trouble")
    futures = await waiters_of_each_kind(lab, "trouble")
    for method in ("receive", "events", "stream_pages", "topics_with_messages"):
        lab.store.fail(method, trouble, times=2)
    open_gate("trouble")
    await lab.engine.send("r", "hello", "t")
    assert await asyncio.gather(*futures) == answers("trouble")


@pytest.mark.parametrize("long", [1e300, timedelta.max, timedelta(days=3650)], ids=str)
async def test_very_long_limits_are_kept_and_never_overflow(memory_lab: Lab, long: Any) -> None:
    """As those of a sleep; what comes in time is there."""
    lab = memory_lab

    @workflow(name="patient")
    async def patient() -> list[Any]:
        async def reads() -> Any:
            return await anext(read_stream("p", "s", timeout=long))

        return [
            await recv("t", timeout=long),
            await get_event("p", "k", timeout=long),
            await timeout(reads(), long),
        ]

    await lab.start(patient)
    handle = await patient.options(id="w").start()
    await lab.until_asleep(300_000_000)
    await insert_workflow(lab, "p", status="PENDING")
    await arrive(lab)
    assert await handle.result() == ["late"] * 3


async def test_what_was_read_is_recorded_as_its_publisher_wrote_it(lab: Lab) -> None:
    """Its text and its label, whatever format this application writes."""
    await lab.start(asks_one, receives_one)
    await insert_workflow(lab, "p")
    await lab.backdoor.run(
        "INSERT INTO workflow_events (workflow_uuid, key, value) VALUES ('p', 'k', '[1 ,2]')"
    )
    assert await asks_one.options(id="a")("p") == [1, 2]
    (row,) = await lab.steps("a")
    assert (row["output"], row["serialization"]) == ("[1 ,2]", None)
