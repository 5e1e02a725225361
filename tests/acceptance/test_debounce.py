"""Debounced calls: many in quick succession become one, with the last arguments."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from perdure import Client, Debounce, InvalidArgument, Queue, QueueDeduplicated, gather, workflow
from perdure.api.call_options import IdPolicy
from perdure.api.enqueue import Submission
from perdure.api.placement import DedupPolicy
from perdure.errors import UnknownQueue
from tests.support.engines import Lab, names
from tests.support.waiting import eventually

HOUR = 3_600
MAIL = Queue("mail")
ADA = Debounce("ada", period=HOUR, timeout=3 * HOUR)

ran: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()


@workflow(name="digest")
async def digest(word: str) -> str:
    ran[word] += 1
    return word.upper()


@workflow(name="asks twice")
async def asks_twice(queue: str | None) -> list[str]:
    debounced = digest.options(debounce=ADA, queue=queue)
    first = await debounced.start("one")
    second = await debounced.start("two")
    return [first.workflow_id, second.workflow_id]


@workflow(name="catches")
async def catches() -> str:
    try:
        await digest.options(debounce=ADA, queue=MAIL).start("one")
    except QueueDeduplicated as refusal:
        return f"held by {refusal.holder}"
    return "started"


@workflow(name="asks at once")
async def asks_at_once() -> list[str]:
    debounced = digest.options(debounce=ADA, queue=MAIL)
    found = await gather(*(debounced.start(str(number)) for number in range(3)))
    return [handle.workflow_id for handle in found]


async def started(lab: Lab, **options: Any) -> None:
    await lab.start(digest, asks_twice, catches, asks_at_once, queues=[MAIL], **options)


async def test_the_last_arguments_run_once(lab: Lab) -> None:
    await started(lab)
    debounced = digest.options(debounce=ADA, queue=MAIL)
    handles = [await debounced.start(word) for word in ("one", "two", "three")]
    assert len({handle.workflow_id for handle in handles}) == 1
    row = await lab.status(handles[0].workflow_id)
    assert (row["status"], row["deduplication_id"], row["queue_name"]) == (
        "DELAYED",
        "digest-ada",
        "mail",
    )
    lab.clock.leap(HOUR + 1)
    assert [await handle.result() for handle in handles] == ["THREE"] * 3
    assert ran == {"three": 1}


async def test_calls_push_back_up_to_the_timeout(lab: Lab) -> None:
    await started(lab)
    debounced = digest.options(debounce=ADA, queue=MAIL)
    first = await debounced.start("0")
    for number in range(1, 4):
        lab.clock.leap(HOUR * 0.9)
        assert (await debounced.start(str(number))).workflow_id == first.workflow_id
    lab.clock.leap(HOUR * 0.4)
    assert await first.result() == "3"
    assert (await debounced.start("4")).workflow_id != first.workflow_id


async def test_without_a_queue_it_waits_in_the_internal_one(lab: Lab) -> None:
    await started(lab)
    debounced = digest.options(debounce=Debounce("ada", period=HOUR))
    first, second = await debounced.start("one"), await debounced.start("two")
    assert first.workflow_id == second.workflow_id
    assert (await lab.status(first.workflow_id))["queue_name"] == "_perdure_internal_queue"
    lab.clock.leap(HOUR + 1)
    assert await second.result() == "TWO"


async def test_awaiting_the_call_waits_for_the_result(lab: Lab) -> None:
    await started(lab)
    debounced = digest.options(debounce=ADA, queue=MAIL)
    call = asyncio.ensure_future(debounced("one"))
    await eventually(lambda: lab.rows("SELECT 1 FROM workflow_status"))
    await debounced.start("two")
    lab.clock.leap(HOUR + 1)
    assert await call == "TWO"


async def test_keys_belong_to_a_function_and_a_queue(lab: Lab) -> None:
    await started(lab)
    found = [
        await digest.options(debounce=ADA, queue=MAIL).start("a"),
        await digest.options(debounce=ADA).start("b"),
        await digest.options(debounce=Debounce("bob", period=HOUR), queue=MAIL).start("c"),
    ]
    assert len({handle.workflow_id for handle in found}) == 3


async def test_a_given_id_is_that_of_the_first(lab: Lab) -> None:
    await started(lab)
    first = await digest.options(debounce=ADA, queue=MAIL, id="mine").start("one")
    second = await digest.options(debounce=ADA, queue=MAIL, id="yours").start("two")
    assert (first.workflow_id, second.workflow_id) == ("mine", "mine")


async def test_by_name_and_from_a_client(shared_lab: Lab) -> None:
    lab = shared_lab
    await started(lab)
    by_name = await lab.engine.enqueue("digest", queue=MAIL, args=("one",), debounce=ADA)
    async with Client(lab.url) as client:
        pushed = await client.enqueue("digest", queue="mail", args=("two",), debounce=ADA)
        assert pushed.workflow_id == by_name.workflow_id
        bob = Debounce("bob", period=HOUR)
        ours = await client.enqueue("digest", queue="mail", args=("three",), debounce=bob)
        again = await client.enqueue("digest", queue="mail", args=("four",), debounce=bob)
        assert again.workflow_id == ours.workflow_id
    assert (await lab.status(ours.workflow_id))["application_version"] is None
    lab.clock.leap(HOUR + 1)
    assert await by_name.result() == "TWO"
    assert await lab.engine.handle(ours.workflow_id).result() == "FOUR"


async def test_in_a_workflow_the_bounce_is_a_step_and_the_start_a_child(lab: Lab) -> None:
    await started(lab)
    first, second = await asks_twice.options(id="p")("mail")
    assert (first, second) == ("p-2", "p-2")
    history = await lab.history("p")
    assert history == [
        (1, "DBOS.debounce_delayed_workflow"),
        (2, "digest"),
        (3, "DBOS.debounce_delayed_workflow"),
    ]
    before = await lab.status("p-2")
    assert before["parent_workflow_id"] == "p"
    await lab.rerun("p")
    assert await lab.status("p-2") == before
    assert await lab.history("p") == history


async def test_it_runs_for_the_user_of_the_last_call(memory_lab: Lab) -> None:
    """In a workflow that is its own user."""
    await started(memory_lab)
    for user in ("ada", "bob"):
        handle = await digest.options(debounce=ADA, queue=MAIL, authenticated_user=user).start("x")
    row = await memory_lab.status(handle.workflow_id)
    assert row["authenticated_user"] == "bob"
    eve: Any = {"authenticated_user": "eve", "authenticated_roles": ["staff"]}
    await asks_twice.options(id="p", **eve)(None)
    row = await memory_lab.status("p-2")
    assert (row["authenticated_user"], row["authenticated_roles"]) == ("eve", '["staff"]')


async def test_a_replay_repeats_what_was_decided(lab: Lab) -> None:
    """Also when the workflow has run and the key is free."""
    await started(lab)
    decided = await asks_twice.options(id="p")(None)
    lab.clock.leap(HOUR + 1)
    await lab.until("p-2")
    await lab.rerun("p")
    assert await lab.engine.handle("p").result() == decided
    assert len(await lab.rows("SELECT 1 FROM workflow_status")) == 2


async def test_a_held_key_is_refused_and_recorded(lab: Lab) -> None:
    await started(lab)
    held = await digest.options(queue=MAIL, dedup_id="digest-ada", delay=9 * HOUR).start("x")
    assert await catches.options(id="p")() == f"held by {held.workflow_id}"
    assert names(await lab.history("p")) == ["DBOS.debounce_delayed_workflow"]
    await lab.engine.workflows.cancel(held.workflow_id)
    await lab.rerun("p")
    assert await lab.engine.handle("p").result() == f"held by {held.workflow_id}"
    await digest.options(queue=MAIL, dedup_id="digest-ada", delay=9 * HOUR).start("x")
    with pytest.raises(QueueDeduplicated):
        await digest.options(debounce=ADA, queue=MAIL).start("one")


async def test_branches_that_race_record_one_workflow(lab: Lab) -> None:
    """Whoever starts it, the others push it back, each recorded under its own ids."""
    await started(lab)
    found = await asks_at_once.options(id="p")()
    assert len(set(found)) == 1
    history = await lab.history("p")
    await lab.rerun("p")
    assert await lab.engine.handle("p").result() == found
    assert await lab.history("p") == history
    assert len(await lab.rows("SELECT 1 FROM workflow_status")) == 2


async def test_many_callers_at_once_make_one(shared_lab: Lab) -> None:
    lab = shared_lab
    await started(lab)
    second = await lab.start(digest)
    for number in range(5):
        debounce = Debounce(f"k{number}", period=HOUR)
        calls = [
            digest.options(debounce=debounce, queue=MAIL, engine=engine).start(str(each))
            for each in range(6)
            for engine in (lab.engines[0], second)
        ]
        handles = await asyncio.gather(*(_awaited(call) for call in calls))
        assert len({handle.workflow_id for handle in handles}) == 1


async def _awaited(call: Any) -> Any:
    return await call


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 1},
        {"delay": 1},
        {"dedup_id": "x"},
        {"dedup_policy": DedupPolicy.REJECT},
        {"partition_key": "k"},
    ],
)
async def test_what_cannot_go_with_it_is_refused(memory_lab: Lab, options: Any) -> None:
    await started(memory_lab)
    with pytest.raises(InvalidArgument, match="cannot go with debounce="):
        digest.options(debounce=ADA, queue=MAIL, **options)


async def test_wrong_calls_are_refused_before_a_row_is_written(memory_lab: Lab) -> None:
    await started(memory_lab)
    for wrong in ({"key": ""}, {"period": 0}, {"period": -1}, {"timeout": 0}, {"key": "x" * 600}):
        values: dict[str, Any] = {"key": "k", "period": 1, **wrong}
        with pytest.raises(InvalidArgument):
            Debounce(values.pop("key"), **values)
    with pytest.raises(InvalidArgument, match="write Debounce"):
        digest.options(debounce="ada")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="REJECT"):
        await digest.options(debounce=ADA, id_policy=IdPolicy.REJECT).start("x")
    with pytest.raises(InvalidArgument, match="one by one"):
        await digest.options(debounce=ADA, queue=MAIL).start_many([("x",)])
    with pytest.raises(InvalidArgument, match="one by one"):
        await memory_lab.engine.enqueue_many(
            [Submission("digest", ("x",))], queue=MAIL, debounce=ADA
        )
    with pytest.raises(InvalidArgument):
        await digest.options(debounce=Debounce("k" * 510, period=1)).start("x")
    with pytest.raises(UnknownQueue):
        await digest.options(debounce=ADA, queue="nowhere").start("x")
    await memory_lab.engine.queues.register(Queue("parts", partition_concurrency=1))
    with pytest.raises(InvalidArgument, match="takes no debounced workflows"):
        await digest.options(debounce=ADA, queue="parts").start("x")
    assert await memory_lab.rows("SELECT 1 FROM workflow_status") == []
