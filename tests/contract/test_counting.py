"""`ListingStore.count_workflows` and `count_steps`."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import ListingTooSlow
from perdure.model.listing import (
    CountKey,
    CountRequest,
    ListingRequest,
    StepCountRequest,
    StepKey,
    Window,
    WorkflowCount,
)
from perdure.model.status import WorkflowState
from tests.support.database import build_store
from tests.support.store import Process, Site


async def counted(me: Process, *by: CountKey, **wanted: Any) -> list[WorkflowCount]:
    return await me.store.count_workflows(CountRequest(by=by, **wanted))


async def test_one_number(site: Site, me: Process) -> None:
    """“Counted by nothing it is one number, which may be 0”."""
    assert await counted(me) == [WorkflowCount(0)]
    for number in range(3):
        await site.foreign(created_at=10 + number)
    await site.foreign(application_name="other")
    await site.foreign(status="PAUSED")
    (found,) = await counted(me)
    assert (found.number, found.oldest_at_ms) == (3, 10)
    (found,) = await counted(me, created=Window(11, None))
    assert found.number == 2
    (found,) = await counted(me, states=())
    assert found == WorkflowCount(0)


async def test_waits_and_lives(site: Site, me: Process) -> None:
    """“the longest time from the creation to the start, … to the end, of those that have both”."""
    await site.foreign(created_at=100, started_at_epoch_ms=150, completed_at=500)
    await site.foreign(created_at=200, started_at_epoch_ms=290)
    await site.foreign(created_at=50)
    (found,) = await counted(me)
    assert (found.oldest_at_ms, found.longest_wait_ms, found.longest_life_ms) == (50, 90, 400)
    (found,) = await counted(me, created=Window(0, 50))
    assert (found.longest_wait_ms, found.longest_life_ms) == (None, None)


async def test_by_what_rows_say(site: Site, me: Process) -> None:
    """“How many workflows there are for each combination”, “then the largest numbers”; the numbers
    add up."""
    for number in range(12):
        await site.foreign(
            status="SUCCESS" if number % 4 else "ERROR",
            queue_name="q" if number % 2 else None,
            name="f" if number < 8 else "g",
            application_version="v1",
            executor_id="e" if number % 3 else "",
        )
    assert [(each.state, each.number) for each in await counted(me, CountKey.STATE)] == [
        (WorkflowState.SUCCESS, 9),
        (WorkflowState.ERROR, 3),
    ]
    assert [(each.name, each.number) for each in await counted(me, CountKey.NAME)] == [
        ("f", 8),
        ("g", 4),
    ]
    found = await counted(me, CountKey.QUEUE, CountKey.STATE)
    assert {(each.queue_name, each.state, each.number) for each in found} == {
        ("q", WorkflowState.SUCCESS, 6),
        (None, WorkflowState.SUCCESS, 3),
        (None, WorkflowState.ERROR, 3),
    }
    (found_version,) = await counted(me, CountKey.VERSION, CountKey.APPLICATION)
    assert (found_version.application_version, found_version.number) == ("v1", 12)
    executors = {each.executor_id: each.number for each in await counted(me, CountKey.EXECUTOR)}
    assert executors == {"e": 8, None: 4}
    everything = await counted(me, *CountKey)
    assert sum(each.number for each in everything) == 12


async def test_by_spans_of_time(site: Site, me: Process) -> None:
    """“Spans of time are `span_ms` long and begin at multiples of that. The earliest spans come
    first”, “None also where they have none”."""
    for instant in (0, 59_999, 60_000, 130_000, 130_001):
        await site.foreign(created_at=instant, completed_at=instant or None, status="SUCCESS")
    found = await counted(me, CountKey.CREATED)
    assert [(each.created_at_ms, each.number) for each in found] == [
        (0, 2),
        (60_000, 1),
        (120_000, 2),
    ]
    found = await counted(me, CountKey.COMPLETED, span_ms=100_000)
    assert {(each.completed_at_ms, each.number) for each in found} == {
        (None, 1),
        (0, 2),
        (100_000, 2),
    }
    found = await counted(me, CountKey.STATE, CountKey.CREATED, span_ms=1_000_000)
    assert [(each.state, each.created_at_ms, each.number) for each in found] == [
        (WorkflowState.SUCCESS, 0, 5)
    ]


async def test_the_limit(site: Site, me: Process) -> None:
    """“then the largest numbers; at most `limit`”."""
    for number in range(6):
        await site.foreign(name=f"f{number // 2}" if number < 4 else f"g{number}")
    found = await counted(me, CountKey.NAME, limit=3)
    assert [(each.name, each.number) for each in found] == [("f0", 2), ("f1", 2), ("g4", 1)]


async def test_what_takes_too_long(site: Site, me: Process) -> None:
    """“What runs out of the time of a statement raises `ListingTooSlow`”."""
    if site.kind == "memory":
        pytest.skip("a database in memory has only the store that made it")
    await site.backdoor.run(
        "INSERT INTO workflow_status (workflow_uuid, status, name, created_at)"
        " WITH RECURSIVE numbers (n) AS"
        " (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 30000)"
        " SELECT 'w' || n, 'SUCCESS', 'job ' || n, n FROM numbers"
    )
    hasty = build_store(site.database.url, "app", site.clock, deadline_s=0.001)
    await hasty.open()
    try:
        with pytest.raises(ListingTooSlow, match=r"within 0\.001 s"):
            await hasty.count_workflows(CountRequest(by=(CountKey.NAME,)))
        with pytest.raises(ListingTooSlow):
            await hasty.list_workflows(ListingRequest(limit=30_000))
    finally:
        await hasty.close()


async def recorded(site: Site) -> None:
    """Steps of two names, one of which failed, and one that does not say when it ended."""
    await site.foreign("w", application_name="app")
    steps: list[tuple[str, int | None, int | None, dict[str, Any]]] = [
        ("a", 0, 100, {}),
        ("a", 50, 60_000, {"error": "{}"}),
        ("a", 60_100, 60_300, {"error": ""}),
        ("b", None, 59_999, {}),
        ("b", 5, 10, {"application_name": None}),
        ("b", 5, 10, {"application_name": "other"}),
        ("c", 5, None, {}),
    ]
    for number, (name, began, ended, columns) in enumerate(steps, 1):
        times = {"started_at_epoch_ms": began, "completed_at_epoch_ms": ended}
        values = {"application_name": "app", **times, **columns}
        await site.insert(
            "operation_outputs", workflow_uuid="w", function_id=number, function_name=name, **values
        )


async def steps_of(me: Process, **wanted: Any) -> list[tuple[Any, ...]]:
    """Name, span, number, failures and longest time of each count."""
    found = await me.store.count_steps(StepCountRequest(**wanted))
    return [
        (each.name, each.completed_at_ms, each.number, each.failed, each.longest_ms)
        for each in found
    ]


async def test_steps_by_name(site: Site, me: Process) -> None:
    """“How many recorded steps there are”; “Those that do not say when they ended are left out”;
    “A step failed if it recorded an error”."""
    assert await steps_of(me) == []
    await recorded(site)
    assert await steps_of(me) == [("a", None, 3, 1, 59_950), ("b", None, 2, 0, 5)]
    assert await steps_of(me, any_application=True) == [
        ("a", None, 3, 1, 59_950),
        ("b", None, 3, 0, 5),
    ]
    assert await steps_of(me, limit=1) == [("a", None, 3, 1, 59_950)]


async def test_steps_by_spans_of_time(site: Site, me: Process) -> None:
    """“Spans of time and their order are those of a `CountRequest`”."""
    await recorded(site)
    by_time, by_name = StepKey.COMPLETED, StepKey.NAME
    assert await steps_of(me, by=(by_time,)) == [(None, 0, 3, 0, 100), (None, 60_000, 2, 1, 59_950)]
    assert await steps_of(me, by=(by_time, by_name), span_ms=60_000) == [
        ("b", 0, 2, 0, 5),
        ("a", 0, 1, 0, 100),
        ("a", 60_000, 2, 1, 59_950),
    ]
    assert await steps_of(me, by=(by_time,), span_ms=1_000_000) == [(None, 0, 5, 1, 59_950)]


async def test_steps_that_are_meant(site: Site, me: Process) -> None:
    """“those that ended within `completed`, of one of the `names` unless that is None”."""
    await recorded(site)
    assert await steps_of(me, completed=Window(100, 60_000)) == [
        ("a", None, 2, 1, 59_950),
        ("b", None, 1, 0, None),
    ]
    assert await steps_of(me, completed=Window(60_001, None)) == [("a", None, 1, 0, 200)]
    assert await steps_of(me, completed=Window(None, 10)) == [("b", None, 1, 0, 5)]
    assert await steps_of(me, names=("b", "c")) == [("b", None, 2, 0, 5)]
    assert await steps_of(me, names=()) == []
