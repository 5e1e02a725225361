"""The options of a call that enqueues: what they write, and what is refused before anything is."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import (
    InvalidArgument,
    Queue,
    UnknownQueue,
    UnknownVersion,
    workflow,
)
from tests.support.engines import Lab
from tests.support.logged import logged
from tests.support.workflows import child

CLOSED = {"listen": []}
"""Nothing is begun: what was written can be looked at."""


async def test_an_enqueued_workflow_is_begun_and_keeps_its_queue(lab: Lab) -> None:
    await lab.start(child, queues=[Queue("q")])
    handle = await child.options(queue="q", id="w").start("x")
    assert await handle == "X"
    row = await lab.status("w")
    assert (row["status"], row["queue_name"], row["recovery_attempts"]) == ("SUCCESS", "q", 1)
    assert row["parent_workflow_id"] is None
    assert await child.options(queue=Queue("q"))("y") == "Y"


async def test_the_row_of_one_that_waits(lab: Lab) -> None:
    """It has no owner and no attempt, and a priority of 0, which comes first."""
    engine = await lab.start(child, queues=[Queue("q")], version="v1", **CLOSED)
    await child.options(queue="q", id="w", attributes={"a": 1}).start("x")
    row = await lab.status("w")
    assert (row["status"], row["queue_name"], row["priority"]) == ("ENQUEUED", "q", 0)
    assert (row["owner_xid"], row["recovery_attempts"], row["started_at_epoch_ms"]) == (
        None,
        0,
        None,
    )
    assert (row["application_name"], row["application_version"]) == ("app", "v1")
    assert (row["deduplication_id"], row["queue_partition_key"]) == (None, None)
    assert row["delay_until_epoch_ms"] is None
    assert row["executor_id"] == engine.executor_id
    attributes = (await engine.workflows.get("w")).attributes
    assert json.loads(attributes or "") == {"a": 1}


@pytest.mark.parametrize("priority", [1, 2, 2**31 - 1])
async def test_priorities_are_stored_as_given(memory_lab: Lab, priority: int) -> None:
    await memory_lab.start(child, queues=[Queue("q")], **CLOSED)
    await child.options(queue="q", priority=priority, id="w").start("x")
    assert (await memory_lab.status("w"))["priority"] == priority


@pytest.mark.parametrize("priority", [0, -1, 2**31, 1.5, 1.0, True, "1"])
def test_what_is_no_priority(priority: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"priority=.* from 1 to 2,147,483,647"):
        child.options(queue="q", priority=priority)


@pytest.mark.parametrize(
    "option",
    [
        {"priority": 1},
        {"priority": 0},
        {"delay": 1},
        {"delay": 0},
        {"dedup_id": "d"},
        {"partition_key": "k"},
        {"version": "v2"},
        {"allow_unknown_queue": True},
        {"allow_unknown_version": True},
    ],
    ids=lambda option: "-".join(map(str, *option.items())),
)
def test_what_says_how_to_stand_in_a_queue_needs_one(option: dict[str, Any]) -> None:
    """An option that would be ignored is a mistake."""
    with pytest.raises(InvalidArgument, match=rf"{next(iter(option))}= needs queue="):
        child.options(**option)


def test_what_is_not_given_may_be_said_by_none() -> None:
    child.options(priority=None, delay=None, dedup_id=None, partition_key=None, version=None)
    child.options(queue=None, allow_unknown_queue=False)


@pytest.mark.parametrize(
    "options",
    [
        {"dedup_policy": "return_existing"},
        {"dedup_id": "d", "dedup_policy": "sometimes"},
        {"dedup_id": ""},
        {"dedup_id": " "},
        {"dedup_id": 3},
        {"dedup_id": "x" * 513},
        {"partition_key": ""},
        {"partition_key": "a\x00"},
        {"partition_key": "\ud800"},
        {"version": ""},
        {"delay": -1},
        {"delay": float("nan")},
        {"delay": "1 s"},
        {"id_policy": "perhaps"},
    ],
    ids=repr,
)
def test_what_is_no_value_of_an_option(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=list(options)[-1]):
        child.options(queue="q", **options)


@pytest.mark.parametrize("queue", ["", " ", 7, "_perdure_internal_queue", "_dbos_internal_queue"])
def test_what_is_no_queue(queue: Any) -> None:
    with pytest.raises(InvalidArgument, match="queue="):
        child.options(queue=queue)


async def test_a_queue_that_nobody_registered_is_refused_and_nothing_written(lab: Lab) -> None:
    """The message names those there are; a typing error does not wait for ever."""
    engine = await lab.start(child, queues=[Queue("media"), Queue("emails")])
    with pytest.raises(UnknownQueue, match=r"no queue 'meida'.*registered: emails, media"):
        await child.options(queue="meida").start("x")
    with pytest.raises(UnknownQueue):
        await child.options(queue="meida")("x")
    with pytest.raises(UnknownQueue):
        await child.options(queue="meida").start_many([("x",), ("y",)])
    with pytest.raises(UnknownQueue):
        await engine.enqueue("child", queue="meida", args=("x",))
    assert await lab.count() == 0


async def test_a_queue_may_be_registered_after_the_call_that_says_so(lab: Lab) -> None:
    """Nothing is checked against what is not there."""
    engine = await lab.start(child)
    bound = child.options(queue="later", allow_unknown_queue=True, priority=3, partition_key="k")
    handle = await bound.start("x")
    assert (await handle.status()).state == "ENQUEUED"
    assert (await engine.queues.depth("later")).enqueued == 1
    await engine.queues.register(Queue("later", partitioned=True))
    assert await handle.result(timeout=30) == "X"


async def test_a_queue_that_is_there_checks_also_who_allows_unknown_ones(lab: Lab) -> None:
    await lab.start(child, queues=[Queue("q")])
    with pytest.raises(InvalidArgument, match="'q' is not partitioned"):
        await child.options(queue="q", allow_unknown_queue=True, partition_key="k").start("x")
    assert await lab.count() == 0


async def test_a_partitioned_queue_takes_keys_and_others_do_not(lab: Lab) -> None:
    """A key that would be ignored, and a row that no claim would find, are refused."""
    await lab.start(child, queues=[Queue("plain"), Queue("parts", partition_concurrency=1)])
    with pytest.raises(InvalidArgument, match=r"'parts' is partitioned.*partition_key="):
        await child.options(queue="parts").start("x")
    with pytest.raises(InvalidArgument, match=r"'plain' is not partitioned.*partitioned=True"):
        await child.options(queue="plain", partition_key="k").start("x")
    assert await lab.count() == 0
    handle = await child.options(queue="parts", partition_key="k", id="w").start("x")
    assert await handle == "X"
    assert (await lab.status("w"))["queue_partition_key"] == "k"


async def test_a_queue_without_priorities_refuses_them(lab: Lab) -> None:
    await lab.start(child, queues=[Queue("q", priority_enabled=False)])
    with pytest.raises(InvalidArgument, match=r"'q' knows no priorities.*priority_enabled=True"):
        await child.options(queue="q", priority=1).start("x")
    assert await child.options(queue="q")("x") == "X"
    assert await lab.count() == 1


async def test_nothing_is_refused_for_what_a_queue_was(shared_lab: Lab) -> None:
    """Another process changed the queue: this one asks before it refuses."""
    lab = shared_lab
    await lab.start(child, queues=[Queue("q")], heartbeat=1000, lease=10_000)
    await child.options(queue="q")("x")
    other = await lab.start(listen=[])
    await other.queues.update("q", partitioned=True)
    bound = child.options(queue="q", partition_key="k", engine=lab.engines[0])
    assert await (await bound.start("y")).result(timeout=30) == "Y"


async def test_versions(lab: Lab) -> None:
    """A workflow goes to the version that is named; one that nobody registered is refused."""
    engine = await lab.start(child, queues=[Queue("q")], version="v1", listen=[])
    with pytest.raises(UnknownVersion, match=r"'app' has no version 'v2'.*allow_unknown_version"):
        await child.options(queue="q", version="v2").start("x")
    assert await lab.count() == 0
    await child.options(queue="q", version="v2", allow_unknown_version=True, id="new").start("x")
    await child.options(queue="q", version="v1", id="old").start("x")
    assert (await lab.status("new"))["application_version"] == "v2"
    assert (await lab.status("old"))["application_version"] == "v1"
    await engine.kernel.store.register_version("v2")
    await child.options(queue="q", version="v2", id="newer").start("x")


async def test_a_version_runs_what_was_enqueued_for_it(shared_lab: Lab) -> None:
    """In whatever order they came."""
    lab = shared_lab
    await lab.start(child, queues=[Queue("q")], version="v1")
    v2 = await lab.start(child, version="v2")
    for number, version in enumerate(("v1", "v2", "v2", "v1")):
        bound = child.options(queue="q", version=version, id=f"w{number}", engine=v2)
        await bound.start("x")
    executors = {"v1": lab.engines[0].executor_id, "v2": v2.executor_id}
    for number, version in enumerate(("v1", "v2", "v2", "v1")):
        row = await lab.until(f"w{number}")
        assert (row["status"], row["executor_id"]) == ("SUCCESS", executors[version])


async def test_a_delay_is_waited_for_on_the_database_s_clock(lab: Lab) -> None:
    """A delayed workflow is DELAYED, does not begin early, and then begins."""
    await lab.start(child, queues=[Queue("q")])
    handle = await child.options(queue="q", delay=timedelta(hours=1), id="w").start("x")
    row = await lab.status("w")
    assert row["status"] == "DELAYED"
    assert 0 <= row["delay_until_epoch_ms"] - row["created_at"] - 3_600_000 < 60_000
    lab.clock.leap(3_500)
    assert await child.options(queue="q")("other") == "OTHER"
    assert (await handle.status()).state == "DELAYED"
    lab.clock.leap(200)
    assert await handle.result(timeout=30) == "X"


async def test_a_delay_of_zero_is_none(memory_lab: Lab) -> None:
    await memory_lab.start(child, queues=[Queue("q")], **CLOSED)
    await child.options(queue="q", delay=0, id="w").start("x")
    assert await memory_lab.state("w") == "ENQUEUED"


async def test_a_delayed_workflow_cancelled_never_begins(lab: Lab) -> None:
    """And its deduplication id is free."""
    await lab.start(child, queues=[Queue("q")])
    bound = child.options(queue="q", delay=60, dedup_id="d", priority=2)
    handle = await bound.start("x")
    await handle.cancel()
    lab.clock.leap(120)
    assert (await handle.status()).state == "CANCELLED"
    assert await child.options(queue="q", dedup_id="d")("y") == "Y"
    assert (await handle.status()).state == "CANCELLED"


async def test_a_timeout_starts_when_the_workflow_does(lab: Lab) -> None:
    """Waiting in the queue is not charged: the budget is stored, the instant at the claim."""
    engine = await lab.start(child, queues=[Queue("q")])
    await engine.queues.pause("q")
    handle = await child.options(queue="q", timeout=100, id="w").start("x")
    row = await lab.status("w")
    assert (row["workflow_timeout_ms"], row["workflow_deadline_epoch_ms"]) == (100_000, None)
    lab.clock.leap(1_000)
    await engine.queues.resume("q")
    assert await handle.result(timeout=30) == "X"
    row = await lab.status("w")
    assert row["workflow_deadline_epoch_ms"] == row["started_at_epoch_ms"] + 100_000


async def test_a_deadline_is_an_instant_also_in_a_queue(lab: Lab) -> None:
    engine = await lab.start(child, queues=[Queue("q")])
    await engine.queues.pause("q")
    deadline = datetime.fromtimestamp(2_000_000_000, UTC)
    await child.options(queue="q", deadline=deadline, id="w").start("x")
    row = await lab.status("w")
    assert row["workflow_timeout_ms"] is None
    assert row["workflow_deadline_epoch_ms"] == 2_000_000_000_000


async def test_a_deadline_that_passes_in_the_queue_cancels(lab: Lab) -> None:
    engine = await lab.start(child, queues=[Queue("q")])
    await engine.queues.pause("q")
    soon = datetime.now(UTC) + timedelta(hours=1)
    handle = await child.options(queue="q", deadline=soon).start("x")
    lab.clock.leap(3_700)
    await lab.until(handle.workflow_id)
    assert (await handle.status()).state == "CANCELLED"


async def test_an_existing_id_on_another_queue_is_joined_with_a_warning(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    """The stored queue stands; the warning names both."""
    await lab.start(child, queues=[Queue("a"), Queue("b")])
    await child.options(queue="a", id="w")("x")
    with caplog.at_level(logging.WARNING, "perdure"):
        assert await child.options(queue="b", id="w")("x") == "X"
    (record,) = [each for each in caplog.records if "queue" in each.message]
    assert "'a'" in record.message
    assert "'b'" in record.message
    assert (await lab.status("w"))["queue_name"] == "a"
    caplog.clear()
    with caplog.at_level(logging.WARNING, "perdure"):
        await child.options(queue="a", id="w")("x")
        await child.options(id="w")("x")
    assert logged(caplog) == []


async def test_arguments_are_checked_before_anything_is_written(lab: Lab) -> None:
    unstorable: Any = object()

    @workflow(name="takes")
    async def takes(value: int) -> int:
        return value

    await lab.start(takes, queues=[Queue("q")])
    with pytest.raises(Exception, match="cannot store"):
        await takes.options(queue="q").start(unstorable)
    assert await lab.count() == 0
