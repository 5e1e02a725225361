"""Messages: sent from anywhere, taken once, in order, whatever happens in between."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest

from perdure import (
    Client,
    InvalidArgument,
    Message,
    Queue,
    UnknownDestination,
    WorkflowState,
    gather,
    recv,
    send,
    send_bulk,
    step,
    workflow,
)
from perdure.errors import DatabaseUnavailable, NotRunning, SerializationError, WrongPlace
from tests.support.engines import Lab, names
from tests.support.talking import gated, insert_workflow, messages, open_gate, receives
from tests.support.waiting import eventually
from tests.support.workflows import look


@pytest.mark.parametrize("first", ["message", "wait"])
async def test_a_message_reaches_a_workflow_whichever_came_first(lab: Lab, first: str) -> None:
    """The step holds the message, and the row of the time limit stands beside it."""
    engine = await lab.start(gated)
    word = f"{lab.kind} {first}"
    handle = await gated.options(id="w").start(word)
    if first == "wait":
        open_gate(word)
        await lab.until_asleep(3_000)
    await engine.send("w", "hello", "t")
    open_gate(word)
    assert await handle.result() == "hello"
    assert await lab.history("w") == [(1, "gate"), (2, "DBOS.recv"), (3, "DBOS.sleep")]
    assert (await lab.steps("w"))[1]["output"] == '"hello"'


async def test_topics_do_not_cross(lab: Lab) -> None:
    """The default topic, the empty one and a named one are three; nothing found is a value."""
    engine = await lab.start(receives, queues=[Queue("q")])
    await insert_workflow(lab, "stranger")
    # It waits only once everything was sent, which may take longer than it waits.
    await engine.queues.pause("q")
    handle = await receives.options(id="w", queue="q").start([None, "", "t", "t"], 0.2)
    await engine.send("w", "named", "t")
    await engine.send("w", "empty", "")
    await engine.send("stranger", "not for w", "t")
    await engine.queues.resume("q")
    assert await handle.result() == [None, "empty", "named", None]


async def test_a_replay_takes_no_second_message(lab: Lab) -> None:
    """Two were sent, one was taken: it is what a replay returns."""
    engine = await lab.start(receives)
    handle = await receives.options(id="w").start(["t"], None)
    await engine.send("w", 1, "t")
    assert await handle.result() == [1]
    await engine.send("w", 2, "t")
    before = await lab.steps("w")
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == "[1]"
    assert await lab.steps("w") == before
    assert await messages(lab, "w") == [("t", "1", True), ("t", "2", False)]


async def test_the_order_of_a_topic_is_that_of_sending(lab: Lab) -> None:
    """Also of one bulk, and of those of one millisecond; other topics do not disturb it."""
    engine = await lab.start(receives)
    topics = [None, "", "t"]
    handle = await receives.options(id="w").start([topics[n % 3] for n in range(60)], None)
    for number in range(30):
        await engine.send("w", number, topics[number % 3])
    await engine.send_bulk(Message("w", number, topics[number % 3]) for number in range(30, 60))
    assert await handle.result() == list(range(60))
    times = await lab.rows(
        "SELECT created_at_epoch_ms AS at FROM notifications WHERE topic = 't' ORDER BY 1"
    )
    assert len({row["at"] for row in times}) == 20, "no two of a topic have the same moment"


async def test_two_receivers_of_a_topic_take_different_messages(lab: Lab) -> None:
    @workflow(name="twice")
    async def twice() -> list[Any]:
        return await gather(recv("t"), recv("t"))

    engine = await lab.start(twice)
    handle = await twice.options(id="w").start()
    await engine.send_bulk([Message("w", "one", "t"), Message("w", "two", "t")])
    assert sorted(await handle.result()) == ["one", "two"]
    assert [taken for _, _, taken in await messages(lab, "w")] == [True, True]
    assert names(await lab.history("w")) == ["DBOS.recv", "DBOS.recv"]


async def test_a_message_of_a_workflow_is_one_step_and_sent_once(lab: Lab) -> None:
    @workflow(name="tells")
    async def tells(whom: str) -> None:
        await send(whom, {"word": "hi"}, "t")

    await lab.start(tells)
    await insert_workflow(lab, "ear")
    await tells.options(id="w")("ear")
    await lab.rerun("w")
    (row,) = await lab.steps("w")
    assert (row["function_name"], row["output"], row["error"]) == ("DBOS.send", None, None)
    assert await messages(lab, "ear") == [("t", '{"word":"hi"}', False)]


async def test_methods_of_engine_and_handle_are_steps_like_the_functions(memory_lab: Lab) -> None:
    """Sent once, however often it is replayed; inside a step they are plain."""
    lab = memory_lab

    @step(name="inside")
    async def inside() -> None:
        await lab.engine.send("ear", 4)

    @workflow(name="tells")
    async def tells() -> None:
        await lab.engine.send("ear", 1)
        await lab.engine.send_bulk([Message("ear", 2)])
        await lab.engine.handle("ear").send(3)
        await inside()

    await lab.start(tells)
    await insert_workflow(lab, "ear")
    await tells.options(id="w")()
    await lab.rerun("w")
    assert names(await lab.history("w")) == ["DBOS.send", "DBOS.send_bulk", "DBOS.send", "inside"]
    assert [text for _, text, _ in await messages(lab, "ear")] == ["1", "2", "3", "4"]


async def test_a_bulk_of_a_workflow_is_one_step_whatever_its_length(lab: Lab) -> None:
    @workflow(name="tells")
    async def tells() -> None:
        await send_bulk([Message("a", 1, "t"), Message("b", 2)])
        await send_bulk([Message("a", 3, "t")])
        await send_bulk([])

    await lab.start(tells)
    await insert_workflow(lab, "a")
    await insert_workflow(lab, "b")
    await tells.options(id="w")()
    await lab.rerun("w")
    assert await lab.history("w") == [(number, "DBOS.send_bulk") for number in (1, 2, 3)]
    assert await messages(lab, "a") == [("t", "1", False), ("t", "3", False)]
    assert [text for _, text, _ in await messages(lab, "b")] == ["2"]


async def test_a_step_sends_with_every_attempt_and_cannot_receive(lab: Lab) -> None:
    """Inside a step nothing of it is recorded; a key makes its attempts one message."""
    attempts: list[str] = []

    @step(name="sends", max_attempts=2, interval=0)
    async def sends() -> None:
        attempts.append("one")
        await send("ear", "plain")
        await send("ear", "keyed", idempotency_key="k")
        with pytest.raises(WrongPlace, match="recv has no meaning inside a step"):
            await recv()
        if len(attempts) == 1:
            raise OSError("again")

    @workflow(name="tells")
    async def tells() -> None:
        await sends()

    await lab.start(tells)
    await insert_workflow(lab, "ear")
    await tells.options(id="w")()
    assert await lab.history("w") == [(1, "sends")]
    texts = [text for _, text, _ in await messages(lab, "ear")]
    assert texts == ['"plain"', '"keyed"', '"plain"']


async def test_forks_get_a_message_only_when_asked(lab: Lab) -> None:
    """Asked, every fork of the destination and every fork of those, each under its own id."""
    engine = await lab.start(receives)
    await insert_workflow(lab, "root")
    await insert_workflow(lab, "fork", forked_from="root")
    await insert_workflow(lab, "fork of fork", forked_from="fork")
    await engine.send("root", 1)
    assert [len(await messages(lab, each)) for each in ("root", "fork", "fork of fork")] == [
        1,
        0,
        0,
    ]
    for _ in range(2):
        await engine.send("root", 2, idempotency_key="k", to_forks=True)
    assert [len(await messages(lab, each)) for each in ("root", "fork", "fork of fork")] == [
        2,
        1,
        1,
    ]
    ids = await lab.rows("SELECT message_uuid AS id FROM notifications WHERE message = '2'")
    assert sorted(row["id"] for row in ids) == ["k::fork", "k::fork of fork", "k::root"]


async def test_a_key_holds_for_one_destination_for_ever(lab: Lab) -> None:
    """Another destination has its own; a repeat delivers nothing, also after the consumption."""
    engine = await lab.start(receives)
    await insert_workflow(lab, "b")
    handle = await receives.options(id="a").start([None], None)
    await engine.send("a", 1, idempotency_key="k")
    await engine.send("b", 2, idempotency_key="k")
    assert await handle.result() == [1]
    await engine.send("a", 3, idempotency_key="k")
    await engine.send("a", 4, idempotency_key="other")
    assert [text for _, text, _ in await messages(lab, "a")] == ["1", "4"]
    assert [text for _, text, _ in await messages(lab, "b")] == ["2"]


async def test_a_keyed_bulk_sent_twice_is_delivered_once(lab: Lab) -> None:
    """A key twice in one call for one destination is refused, and nothing is sent."""
    engine = await lab.start(receives)
    await insert_workflow(lab, "a")
    await insert_workflow(lab, "b")
    batch = [Message(each, 1, idempotency_key="k") for each in ("a", "b")]
    for _ in range(2):
        await engine.send_bulk(batch)
    assert [len(await messages(lab, each)) for each in ("a", "b")] == [1, 1]
    with pytest.raises(InvalidArgument, match="two messages to 'a' have the idempotency key 'n'"):
        await engine.send_bulk(Message("a", number, idempotency_key="n") for number in range(2))
    assert len(await messages(lab, "a")) == 1


async def test_one_unknown_destination_rejects_a_bulk(lab: Lab) -> None:
    engine = await lab.start(receives)
    await insert_workflow(lab, "a")
    with pytest.raises(UnknownDestination, match="'nobody'"):
        await engine.send_bulk([Message("a", 1), Message("nobody", 2)])
    with pytest.raises(UnknownDestination):
        await engine.send("nobody", 1)
    assert await messages(lab, "a") == []


async def test_an_unknown_destination_is_the_recorded_failure_of_a_step(lab: Lab) -> None:
    """A replay raises it again, also when there is such a workflow by then."""

    @workflow(name="tells")
    async def tells() -> str:
        try:
            await send("nobody", 1)
        except UnknownDestination as error:
            return error.workflow_id
        return "sent"

    await lab.start(tells)
    assert await tells.options(id="w")() == "nobody"
    await insert_workflow(lab, "nobody")
    await lab.rerun("w")
    assert await lab.output("w") == '"nobody"'
    assert await messages(lab, "nobody") == []


async def test_a_finished_workflow_keeps_a_message_unread(lab: Lab) -> None:
    engine = await lab.start(receives)
    await receives.options(id="w")([], None)
    await engine.send("w", "late")
    assert [taken for _, _, taken in await messages(lab, "w")] == [False]


WRONG: dict[str, Any] = {
    "no stored form": lambda: send("w", object()),
    "no text for a topic": lambda: send("w", 1, 5),  # type: ignore[arg-type]
    "NUL in a topic": lambda: send("w", 1, "a\x00b"),
    "a topic that fits nowhere": lambda: send("w", 1, "€" * 3_000),
    "half a character": lambda: recv("\ud800"),
    "no id": lambda: send(" ", 1),
    "a blank key": lambda: send("w", 1, idempotency_key=" "),
    "a key that fits nowhere": lambda: send("w", 1, idempotency_key="k" * 9_000),
    "no message": lambda: send_bulk([("w", 1)]),  # type: ignore[list-item]
    "a negative timeout": lambda: recv(timeout=-1),
    "a long topic to receive": lambda: recv("t" * 9_000),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_refusal_takes_no_id(memory_lab: Lab, wrong: str) -> None:
    """Nothing is recorded of it: the next call has the id it would have had."""

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
    assert await messages(memory_lab, "w") == []


async def test_outside_a_workflow_nothing_is_received(memory_lab: Lab) -> None:
    """Nobody would remember it. Sending needs an engine, and one only if none is named."""
    with pytest.raises(NotRunning, match="recv was called outside a workflow"):
        await recv()
    with pytest.raises(NotRunning):
        await send("w", 1)
    await memory_lab.start(receives)
    await insert_workflow(memory_lab, "w")
    await send("w", 1)
    await send_bulk([Message("w", 2)])
    await memory_lab.engine.handle("w").send(3, "t")
    assert sorted(text for _, text, _ in await messages(memory_lab, "w")) == ["1", "2", "3"]


class Grade(Enum):
    GOOD = "good"


@dataclass(frozen=True)
class Review:
    grade: Grade
    at: datetime


async def test_a_typed_message_arrives_as_what_it_is_read_into(lab: Lab) -> None:
    """Sent by its class; who names none gets JSON's kinds."""
    review = Review(Grade.GOOD, datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=UTC))
    seen: list[Any] = []

    @workflow(name="reviews")
    async def reviews() -> bool:
        seen.append(await recv("typed", into=Review))
        seen.append(await recv("plain"))
        return seen[-2] == review

    engine = await lab.start(reviews)
    handle = await reviews.options(id="w").start()
    await engine.send("w", review, "typed")
    await engine.send("w", review, "plain")
    assert await handle.result() is True
    await lab.rerun("w")
    assert seen[0] == seen[2] == review
    assert seen[1] == seen[3]
    assert seen[1]["grade"] == "good"


async def test_a_message_that_cannot_be_read_here_waits_for_code_that_can(lab: Lab) -> None:
    """It was taken and is recorded; the run is released, and a fixed deployment reads it."""

    def reading(kind: Any) -> Any:
        @workflow(name="reads")
        async def reads() -> Any:
            return await recv(into=kind)

        return reads

    strict = reading(int)
    engine = await lab.start(strict)
    await strict.options(id="w").start()
    await engine.send("w", "seven")
    await lab.until("w", WorkflowState.DELAYED)
    (row,) = await lab.steps("w")
    assert row["output"] == '"seven"'
    await lab.replace(reading(str))
    lab.clock.leap(3_600)
    assert (await lab.until("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == '"seven"'


async def test_a_large_message_and_names_with_separators_arrive(lab: Lab) -> None:
    """What announces a message is bounded, and is compared, never taken apart."""
    engine = await lab.start(receives)
    odd = "a::b'\"::"
    handle = await receives.options(id=odd).start([f"::{odd}", "b'\"::"], None)
    large = "x" * 5_000_000
    await engine.send(odd, large, f"::{odd}")
    await engine.send(odd, "small", "b'\"::")
    assert await handle.result() == [large, "small"]


async def test_a_lost_answer_sends_nothing_twice(lab: Lab) -> None:
    """The ids of messages are fixed before the first try."""
    engine = await lab.start(receives)
    await insert_workflow(lab, "w")
    lab.store.fail("send", DatabaseUnavailable("cut"), times=2, after=True)
    await engine.send("w", 1)
    assert len(lab.store.batches("send")) == 3
    assert len(await messages(lab, "w")) == 1


async def test_a_client_sends_too(shared_lab: Lab) -> None:
    """A program that runs no workflows, beside the engine that waits."""
    lab = shared_lab
    await lab.start(receives)
    handle = await receives.options(id="w").start(["t", "t"], None)
    async with Client(lab.url) as client:
        await client.send("w", 1, "t", idempotency_key="k")
        await client.send_bulk([Message("w", 0, "t", "k"), Message("w", 2, "t")])
        with pytest.raises(UnknownDestination):
            await client.send("nobody", 1)
    assert await handle.result() == [1, 2]


async def test_a_message_of_another_sdk_is_taken(lab: Lab) -> None:
    """As their clients write it: without a label it is what this application writes."""
    await lab.start(receives)
    handle = await receives.options(id="w").start(["t"], None)
    await lab.backdoor.run(
        "INSERT INTO notifications (message_uuid, destination_uuid, topic, message, serialization)"
        " VALUES ('m', 'w', 't', ?, 'portable_json')",
        json.dumps({"from": "afar"}),
    )
    assert await handle.result() == [{"from": "afar"}]
    await eventually(lambda: lab.engine.kernel.runner.runs == {})
