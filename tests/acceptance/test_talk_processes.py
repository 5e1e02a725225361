"""Messages, events and streams when processes are killed and connections are cut."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from perdure import (
    Engine,
    Message,
    get_event,
    read_stream,
    select_workflow,
    set_event,
    workflow,
)
from perdure.engine import talk as talk_module
from perdure.engine.signals import Signals
from perdure.model.ids import WorkflowId
from tests.acceptance.talk_program import MESSAGES, TOPICS, VALUES
from tests.support.engines import Lab, open_lab
from tests.support.process import ChildProcess
from tests.support.proxy import FaultProxy
from tests.support.talking import (
    all_of,
    gate,
    insert_workflow,
    messages,
    never_polling,
    of,
    open_gate,
    receives,
    stored_stream,
    until_wanted,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def kill_lab(shared_lab: Lab) -> Lab:
    """A lab whose newest engine runs nothing."""
    await shared_lab.start()
    return shared_lab


def process(lab: Lab, *arguments: str, most: int = 0) -> ChildProcess:
    """One that stands still when it has told so many things."""
    return ChildProcess("-m", "tests.acceptance.talk_program", lab.url, str(most), *arguments)


async def test_a_receiver_that_is_killed_takes_each_message_once(kill_lab: Lab) -> None:
    """In the order of each topic, however often it dies and whenever."""
    lab = kill_lab
    engine = lab.engine
    # The moments of the kills are not for secrets.
    chance = random.Random(76)
    with process(lab, "collect", "c", most=12) as first:
        await first.reaches("ready")
        await eventually(lambda: lab.find("c"))
        await engine.send_bulk(
            Message("c", number, TOPICS[number % 3]) for number in range(MESSAGES // 2)
        )
        await first.reaches(f"took {chance.randrange(3, 9)}")
        first.kill()
    for _ in range(2):
        with process(lab, most=6) as next_one:
            await next_one.reaches("took")
            next_one.kill()
    for number in range(MESSAGES // 2, MESSAGES):
        await engine.send("c", number, TOPICS[number % 3])
    with process(lab):
        await lab.until("c")
    assert await lab.output("c") == str(list(range(MESSAGES))).replace(" ", "")
    assert all(taken for _, _, taken in await messages(lab, "c"))
    assert len(await lab.steps("c")) == 3 * MESSAGES


async def test_a_sender_that_is_killed_sends_once(kill_lab: Lab) -> None:
    """What waits in one process is answered by another, before and after the killed one's."""
    lab = kill_lab
    with process(lab, "report", "r") as doomed:
        await doomed.reaches("asked")
        assert await get_event("r", "question", timeout=60) == "ready?"
        doomed.kill()
    await insert_workflow(lab, "answers")
    await lab.backdoor.run(
        "INSERT INTO workflow_events (workflow_uuid, key, value, serialization)"
        " VALUES ('answers', 'answer', '\"yes\"', 'portable_json')"
    )
    with process(lab):
        await lab.until("r")
    assert await lab.output("r") == '"yes"'
    rows = await lab.rows("SELECT * FROM workflow_events_history WHERE workflow_uuid = 'r'")
    assert len(rows) == 1


async def test_a_writer_that_is_killed_leaves_a_whole_stream(kill_lab: Lab) -> None:
    """A reader in another process follows: each value once, in order, to the close."""
    lab = kill_lab
    with process(lab, "stream", "s", most=8) as first:
        await first.reaches("wrote 0")
        reading = asyncio.ensure_future(all_of(read_stream("s", "s")))
        await first.reaches("wrote 6")
        first.kill()
    for _ in range(2):
        with process(lab, most=4) as next_one:
            await next_one.reaches("wrote")
            next_one.kill()
    with process(lab):
        await lab.until("s")
        assert await reading == list(range(VALUES))
    offsets = [offset for offset, _, _ in await stored_stream(lab, "s", "s")]
    assert offsets == list(range(VALUES + 1))


async def test_a_writer_that_dies_and_is_dead_lettered_ends_its_readers(kill_lab: Lab) -> None:
    """A reader waits while somebody may go on writing, and no longer."""
    lab = kill_lab
    with process(lab, "stream", "s", most=8) as doomed:
        await doomed.reaches("wrote 4")
        reading = asyncio.ensure_future(all_of(read_stream("s", "s")))
        doomed.kill()
    await lab.backdoor.run(
        "UPDATE workflow_status SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', owner_xid = NULL,"
        " queue_name = NULL WHERE workflow_uuid = 's'"
    )
    written = [text for _, text, _ in await stored_stream(lab, "s", "s")]
    assert [str(value) for value in await reading] == written


@pytest.fixture
async def cut_lab(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    async for each in open_lab(postgres_url, monkeypatch):
        yield each


async def test_a_listener_that_lost_its_connection_looks_again(
    cut_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every connection is ended, and the message is sent before the listener is back: no poll."""
    never_polling(monkeypatch)
    lab = cut_lab
    await lab.start(receives)
    handle = await receives.options(id="r").start(["t"], 3_000)
    await lab.until_asleep(2_000)
    await lab.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await lab.backdoor.run(
        "INSERT INTO notifications (message_uuid, destination_uuid, topic, message, serialization)"
        " VALUES ('m', 'r', 't', '\"found\"', 'portable_json')"
    )
    async with asyncio.timeout(30):
        assert await handle.result() == ["found"]


async def test_who_begins_to_listen_is_told_what_is_waited_for(
    cut_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that ends the workflow was not there, or cut off, when the wait began."""
    never_polling(monkeypatch)
    lab = cut_lab
    waiter = await lab.start(heartbeat=5)
    first = asyncio.ensure_future(of(select_workflow(["r"])))
    await eventually(lambda: waiter.kernel.waiter.waited_for(WorkflowId("r")) == 1)
    runner = await lab.start(receives, heartbeat=5)
    await until_wanted(lab, runner, "r")
    await receives.options(id="r", engine=runner).start(["t"], 3_000)
    await runner.send("r", "found", "t")
    async with asyncio.timeout(30):
        assert await first == "r"


async def test_what_was_said_last_is_told_before_a_process_stops(
    cut_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was said in the pause after another announcement; nobody would tell it afterwards."""
    never_polling(monkeypatch)
    # Nor does anybody look because a process stops.
    monkeypatch.setattr(Signals, "hear_all", lambda _: None)
    monkeypatch.setattr(talk_module, "PAUSE_S", 0.5)
    lab = cut_lab

    @workflow(name="says two")
    async def says_two() -> None:
        await set_event("one", 1)
        await gate("two")
        await set_event("two", 2)

    waiter = await lab.start(heartbeat=5)
    there = waiter.handle("w")
    one, two = (asyncio.ensure_future(of(there.event(key))) for key in ("one", "two"))
    await eventually(lambda: waiter.kernel.talk.signals.waiting == 2)
    speaker = await lab.start(says_two, heartbeat=5)
    handle = await says_two.options(id="w", engine=speaker).start()
    async with asyncio.timeout(30):
        assert await one == 1
        open_gate("two")
        await handle.result()
        await speaker.stop()
        assert await two == 2


async def test_a_half_open_connection_costs_seconds(postgres_url: str) -> None:
    """Nothing passes and nobody is told: the message is there soon after the line is back."""
    async with FaultProxy(postgres_url) as proxy:
        url = proxy.url(postgres_url)
        async with Engine(url, workflows=[receives], heartbeat=0.2, lease=2) as engine:
            handle = await receives.options(id="r", engine=engine).start(["t"], 3_000)
            async with Engine(postgres_url, workflows=[], heartbeat=0.2) as other:
                connections = proxy.accepted
                proxy.black_hole()
                await other.send("r", "found", "t")
                # The heartbeat notices that nothing answers, and connects anew.
                await eventually(lambda: proxy.accepted > connections)
                proxy.restore()
                async with asyncio.timeout(30):
                    assert await handle.result() == ["found"]


async def test_without_the_trigger_a_message_is_found(cut_lab: Lab) -> None:
    """A schema that was migrated without notifications: the poll is not far away."""
    lab = cut_lab
    engine = await lab.start(receives)
    handle = await receives.options(id="r").start(["t"], 3_000)
    await lab.until_asleep(2_000)
    await lab.backdoor.run("ALTER TABLE notifications DISABLE TRIGGER USER")
    await lab.backdoor.run(
        "INSERT INTO notifications (message_uuid, destination_uuid, topic, message, serialization)"
        " VALUES ('m', 'r', 't', '\"found\"', 'portable_json')"
    )
    assert await handle.result() == ["found"]
    assert engine.kernel.talk.signals.waiting == 0
