"""Waiting for messages: until when, what ends it, and what was taken when an answer is lost."""

from __future__ import annotations

import asyncio
import base64
import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import (
    Message,
    WorkflowState,
    get_event,
    recv,
    run_step,
    select,
    workflow,
)
from perdure.engine import doubts
from perdure.errors import DatabaseUnavailable
from perdure.model.ids import WorkflowId
from perdure.model.talk import NewMessage, Sending
from tests.support.engines import Lab, settle
from tests.support.talking import gated, insert_workflow, messages, open_gate, receives
from tests.support.waiting import eventually
from tests.support.workflows import look


@dataclass(frozen=True)
class Word:
    text: str


async def test_a_lost_answer_takes_nothing_twice(lab: Lab) -> None:
    """The step's record holds what the first try took."""
    engine = await lab.start(gated)
    word = f"{lab.kind} lost answer"
    handle = await gated.options(id="w").start(word)
    await engine.send_bulk([Message("w", 1, "t"), Message("w", 2, "t")])
    lab.store.fail("receive", DatabaseUnavailable("cut"), times=2, after=True)
    open_gate(word)
    assert await handle.result() == 1
    assert len(lab.store.batches("receive")) == 3
    assert await messages(lab, "w") == [("t", "1", True), ("t", "2", False)]


async def test_what_a_lost_attempt_takes_late_arrives(
    memory_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was under way in the database when the next one found nothing; nobody tells of it."""
    monkeypatch.setattr(doubts, "LOOKS_S", (0.0, 3_000.0))

    @workflow(name="listens")
    async def listens() -> Any:
        return await recv("t")

    await memory_lab.start(listens)
    store = memory_lab.store
    store.fail("topics_with_messages", DatabaseUnavailable("cut"), times=1_000_000)
    store.fail("receive", DatabaseUnavailable("cut"))
    handle = await listens.options(id="w").start()
    # The lost one, the one after it, and the first look.
    await eventually(lambda: store.counts["receive"] == 3)
    message = NewMessage("m::w", WorkflowId("w"), "t", '"word"', "portable_json")
    await store.inner.send([Sending((message,), None)])
    await store.inner.receive(store.batches("receive")[0])
    assert (await memory_lab.status("w"))["status"] == "PENDING"
    memory_lab.clock.leap(3_001)
    memory_lab.engine.kernel.talk.doubts.wake()
    async with asyncio.timeout(20):
        assert await handle.result() == "word"


async def test_a_losing_receiver_leaves_later_messages_alone(lab: Lab) -> None:
    """The run ends at once; what comes then is nobody's, and no step is written any more."""

    @workflow(name="races")
    async def races() -> str:
        first = await select(late=recv("a", timeout=3_000), early=run_step("look", look.fn))
        return str(first.name)

    engine = await lab.start(races)
    assert await races.options(id="w")() == "early"
    before = await lab.steps("w")
    await engine.send("w", "late", "a")
    await lab.rerun("w")
    assert await messages(lab, "w") == [("a", '"late"', False)]
    assert await lab.steps("w") == before


@pytest.mark.parametrize("protocol", [4, 5])
async def test_that_the_python_sdk_received_nothing_is_read(memory_lab: Lab, protocol: int) -> None:
    """A workflow of theirs goes on here, whatever it reads and though no pickle is loaded."""
    lab = memory_lab

    @workflow(name="waits")
    async def waits() -> bool:
        message = await recv("t", timeout=0, into=Word)
        event = await get_event("nobody", "k", timeout=0, into=Word)
        return message is None and event is None

    await lab.start(waits)
    await waits.options(id="w")()
    await lab.backdoor.run(
        "UPDATE operation_outputs SET output = ?, serialization = 'py_pickle'",
        base64.b64encode(pickle.dumps(None, protocol)).decode(),
    )
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == "true"


async def test_the_limit_of_a_wait_survives_a_restart(lab: Lab) -> None:
    """The instant was recorded when the wait began; another execution waits only for the rest."""
    await lab.start(receives)
    await receives.options(id="w").start(["t"], 3_600)
    await lab.until_asleep(3_000)
    before = await lab.steps("w")
    assert [(row["function_id"], row["function_name"]) for row in before] == [(2, "DBOS.sleep")]
    lab.clock.leap(1_800)
    await lab.hand_back("w")
    await lab.until_asleep_for(1_000, 2_000)
    lab.clock.leap(1_801)
    assert (await lab.until("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == "[null]"
    (nothing, limit) = await lab.steps("w")
    assert [limit] == before
    assert limit["completed_at_epoch_ms"] == limit["started_at_epoch_ms"]
    assert (nothing["output"], nothing["serialization"]) == ("null", "portable_json")
    await lab.engine.send("w", "late", "t")
    await lab.rerun("w")
    assert await lab.output("w") == "[null]"


async def test_without_a_limit_it_waits_for_ever(memory_lab: Lab) -> None:
    """So does who waits for an event: nobody said that nothing is an answer."""
    lab = memory_lab

    @workflow(name="patient")
    async def patient() -> list[Any]:
        return [await recv("t"), await get_event("p", "k")]

    engine = await lab.start(patient)
    await insert_workflow(lab, "p")
    handle = await patient.options(id="w").start()

    async def a_while(look: str) -> None:
        """Let ten years pass once it has looked, and waits."""
        signals = engine.kernel.talk.signals
        await eventually(lambda: lab.store.counts[look] and signals.waiting == 1)
        lab.clock.leap(315_360_000)
        await settle()

    await a_while("receive")
    await engine.send("w", "late", "t")
    await a_while("events")
    await lab.backdoor.run(
        "INSERT INTO workflow_events (workflow_uuid, key, value) VALUES ('p', 'k', '7')"
    )
    assert await handle.result() == ["late", 7]


async def test_without_time_it_looks_once(lab: Lab) -> None:
    """And that there was nothing is replayed, whatever came since."""
    engine = await lab.start(receives)
    assert await receives.options(id="w")(["t"], 0) == [None]
    assert await lab.history("w") == [(1, "DBOS.recv")]
    assert len(lab.store.batches("receive")) == 1
    await engine.send("w", 1, "t")
    await lab.rerun("w")
    assert await lab.output("w") == "[null]"


async def test_a_cancelled_or_stopped_receiver_stops_at_once(shared_lab: Lab) -> None:
    """It only waits: however long the grace, and nothing is taken for it any more."""
    lab = shared_lab
    engine = await lab.start(receives, grace=3_600)
    cancelled = await receives.options(id="c").start(["t"], 3_600)
    await receives.options(id="s").start(["t"], None)
    await lab.until_asleep(3_000)
    await eventually(lambda: engine.kernel.talk.signals.waiting == 2)
    await cancelled.cancel()
    await lab.until("c", WorkflowState.CANCELLED)
    await engine.stop()
    row = await lab.status("s")
    assert (row["status"], row["recovery_attempts"]) == ("ENQUEUED", 0)
    engine = await lab.start(receives)
    await engine.send("s", "after", "t")
    await engine.send("c", "after", "t")
    assert await engine.handle("s", receives).result() == ["after"]
    assert [taken for _, _, taken in await messages(lab, "c")] == [False]
