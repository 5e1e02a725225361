"""Removing what has ended: on demand in batches, and by a timer of the engine."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure import (
    Client,
    ConfigurationError,
    Engine,
    InvalidArgument,
    Retention,
    WorkflowNotFound,
    step,
    workflow,
)
from perdure.errors import WrongPlace
from tests.support.engines import Lab
from tests.support.waiting import eventually

running: list[Engine] = []


@workflow(name="ends")
async def ends(number: int) -> int:
    return number


@workflow(name="fails")
async def fails() -> None:
    raise ValueError("on purpose")


@step(name="purging")
async def purging() -> int:
    return await running[-1].workflows.purge(older_than=0, names=["ends"])


@workflow(name="purges in a step")
async def purges_in_a_step() -> int:
    return await purging()


@workflow(name="purges in its body")
async def purges_in_its_body() -> int:
    return await running[-1].workflows.purge(older_than=0)


async def started(lab: Lab, **options: Any) -> Engine:
    engine = await lab.start(ends, fails, purges_in_a_step, purges_in_its_body, **options)
    running.append(engine)
    return engine


async def ended(lab: Lab, *numbers: int) -> None:
    """Workflows of these numbers that have ended, a millisecond apart at least."""
    for number in numbers:
        await ends.options(id=f"e-{number}", engine=lab.engine)(number)
        lab.clock.leap(1)


async def left(lab: Lab) -> list[str]:
    rows = await lab.rows("SELECT workflow_uuid FROM workflow_status ORDER BY workflow_uuid")
    return [row["workflow_uuid"] for row in rows]


async def test_what_ended_long_ago_is_removed(lab: Lab) -> None:
    engine = await started(lab)
    await ended(lab, 1, 2)
    lab.clock.leap(86_400)
    await ended(lab, 3)
    week = timedelta(hours=12)
    assert await engine.workflows.purge(older_than=week, dry_run=True) == 2
    assert await left(lab) == ["e-1", "e-2", "e-3"]
    assert await engine.workflows.purge(older_than=week) == 2
    assert await left(lab) == ["e-3"]
    with pytest.raises(WorkflowNotFound):
        await engine.workflows.get("e-1")


async def test_batches_limits_states_and_names(lab: Lab) -> None:
    engine = await started(lab)
    await ended(lab, *range(5))
    with pytest.raises(ValueError, match="on purpose"):
        await fails.options(id="f")()
    purge = engine.workflows.purge
    assert await purge(older_than=0, states=["ERROR"], names=["ends"]) == 0
    assert await purge(older_than=0, names=["ends"], batch=2, limit=3) == 3
    assert await left(lab) == ["e-3", "e-4", "f"]
    assert await purge(older_than=0, states="ERROR") == 1
    assert await purge(older_than=0, dry_run=True, limit=1) == 1
    assert await purge(older_than=0, batch=1) == 2


async def test_the_newest_are_kept_whatever_their_age(lab: Lab) -> None:
    engine = await started(lab)
    await ended(lab, *range(5))
    lab.clock.leap(86_400)
    purge = engine.workflows.purge
    assert await purge(older_than=3_600, keep=5) == 0
    assert await purge(older_than=864_000, keep=1) == 0
    assert await purge(keep=9) == 0
    assert await purge(keep=2, dry_run=True) == 3
    assert await purge(keep=2) == 3
    assert await left(lab) == ["e-3", "e-4"]


async def test_the_engine_removes_by_itself(lab: Lab) -> None:
    retention = Retention(older_than=timedelta(days=1), every=timedelta(hours=1))
    await started(lab, retention=retention)
    await ended(lab, 1)
    lab.clock.leap(86_400)
    await ended(lab, 2)
    lab.engine.kernel.purger.wake()

    async def removed() -> bool:
        return await left(lab) == ["e-2"]

    await eventually(removed)


async def test_several_engines_share_the_work(shared_lab: Lab) -> None:
    lab = shared_lab
    retention = Retention(older_than=0, names=["ends"])
    await started(lab)
    await ended(lab, *range(20))
    others = [await lab.start(ends, retention=retention) for _ in range(2)]
    for engine in others:
        engine.kernel.purger.wake()

    async def removed() -> bool:
        return await left(lab) == []

    await eventually(removed)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "say what may go"),
        ({"states": ["ERROR"]}, "say what may go"),
        ({"older_than": -1}, "older_than"),
        ({"keep": 0}, "keep=0"),
        ({"keep": True}, "keep=True"),
        ({"older_than": 0, "states": ["PENDING"]}, "'PENDING' is no state"),
        ({"older_than": 0, "states": []}, "a text or several, or be left out"),
        ({"older_than": 0, "names": [1]}, "a text or several, or be left out"),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    memory_lab: Lab, options: dict[str, Any], reason: str
) -> None:
    engine = await started(memory_lab)
    await ended(memory_lab, 1)
    with pytest.raises(InvalidArgument, match=reason):
        await engine.workflows.purge(**options)
    with pytest.raises(ConfigurationError, match=reason):
        Retention(**options)
    assert await left(memory_lab) == ["e-1"]


@pytest.mark.parametrize(
    "options", [{"batch": 0}, {"batch": 10_001}, {"limit": 0}, {"limit": "1"}, {"size": 1}]
)
async def test_wrong_sizes_are_refused(memory_lab: Lab, options: dict[str, Any]) -> None:
    engine = await started(memory_lab)
    with pytest.raises(InvalidArgument):
        await engine.workflows.purge(older_than=0, **options)
    with pytest.raises(ConfigurationError, match="every"):
        Retention(older_than=0, every=0.5)


async def test_a_workflow_removes_in_a_step_only(memory_lab: Lab) -> None:
    await started(memory_lab)
    await ended(memory_lab, 1, 2)
    assert await purges_in_a_step() == 2
    with pytest.raises(WrongPlace, match="in a step"):
        await purges_in_its_body()


async def test_a_client_removes_what_is_of_its_name(shared_lab: Lab) -> None:
    await started(shared_lab)
    await ended(shared_lab, 1)
    async with Client(shared_lab.url) as nobody:
        with pytest.raises(InvalidArgument, match="name="):
            await nobody.workflows.purge(older_than=0)
    async with Client(shared_lab.url, name="other") as other:
        assert await other.workflows.purge(older_than=0) == 0
    async with Client(shared_lab.url, name="app") as same:
        assert await same.workflows.purge(older_than=0) == 1


async def test_one_connection_is_enough(shared_lab: Lab) -> None:
    """What removes holds one connection at a time, and none while it rests."""
    engine = await started(shared_lab, pool_size=1)
    await ended(shared_lab, 1, 2, 3)
    assert await engine.workflows.purge(keep=1, batch=1) == 2
