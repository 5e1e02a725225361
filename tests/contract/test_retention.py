"""`RetentionStore`: removing workflows that ended long ago."""

import asyncio
from typing import Any

import pytest

from perdure.model.answer import AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.queue import Rate
from perdure.model.retention import ENDED, Expired, Purged
from perdure.model.status import WorkflowState
from perdure.store.postgres import retention as postgres_retention
from perdure.store.sqlite import retention as sqlite_retention
from tests.support import rows
from tests.support.store import Process, Site, kinds

BEFORE_MS = 1_000_000

TABLES = {
    "workflow_status": "workflow_uuid",
    "workflow_input": "workflow_uuid",
    "workflow_output": "workflow_uuid",
    "operation_outputs": "workflow_uuid",
    "workflow_events": "workflow_uuid",
    "workflow_events_history": "workflow_uuid",
    "streams": "workflow_uuid",
    "notifications": "destination_uuid",
}


async def ended(site: Site, at_ms: int = 500, **columns: Any) -> WorkflowId:
    """A workflow that ended then."""
    values = {"status": "SUCCESS", "application_name": "app", "completed_at": at_ms, **columns}
    return await site.foreign(**values)


async def purge(me: Process, limit: int = 100, **wanted: Any) -> int:
    """Remove all that is wanted, and say how many that were."""
    asked = Expired(**{"before_ms": BEFORE_MS, **wanted})
    since_ms: int | None = 0
    removed = 0
    while since_ms is not None:
        purged = await me.store.purge(asked, since_ms, limit)
        assert purged.number <= limit
        assert purged.next_ms is None or purged.next_ms >= since_ms
        removed, since_ms = removed + purged.number, purged.next_ms
    return removed


async def left(site: Site) -> set[WorkflowId]:
    """The workflows that there are."""
    found = await site.backdoor.rows("SELECT workflow_uuid FROM workflow_status")
    return {WorkflowId(row["workflow_uuid"]) for row in found}


async def belongings(site: Site, workflow_id: WorkflowId) -> set[str]:
    """The tables that hold something of a workflow."""
    held = set()
    for table, column in TABLES.items():
        if await site.backdoor.rows(f"SELECT 1 FROM {table} WHERE {column} = ?", workflow_id):
            held.add(table)
    if any(row["workflow_id"] == workflow_id for row in await site.own("stream_log")):
        held.add("stream_log")
    return held


async def complete(site: Site) -> WorkflowId:
    """An ended workflow with something in every table."""
    chosen = await ended(site)
    for table in ("workflow_input", "workflow_output"):
        await site.insert(table, workflow_uuid=chosen)
    await site.insert("operation_outputs", workflow_uuid=chosen, function_id=1, function_name="s")
    await site.insert("workflow_events", workflow_uuid=chosen, key="k", value="1")
    await site.insert(
        "workflow_events_history", workflow_uuid=chosen, function_id=1, key="k", value="1"
    )
    await site.backdoor.run(
        'INSERT INTO streams (workflow_uuid, key, value, "offset", function_id)'
        " VALUES (?, 'k', '1', 0, 1)",
        chosen,
    )
    await site.insert(
        "notifications", message_uuid=f"m-{chosen}", destination_uuid=chosen, message="1"
    )
    log = "stream_log" if site.kind == "postgres" else "perdure_stream_log"
    await site.insert(log, workflow_id=chosen, append_id="a")
    return chosen


async def test_everything_of_a_workflow_goes_with_it(site: Site, me: Process) -> None:
    """“with its input, output, steps, events and their history, streams and messages, and with
    what our own schema holds of its streams”."""
    gone = await complete(site)
    other = await complete(site)
    await site.update(other, completed_at=BEFORE_MS)
    whole = {*TABLES, "stream_log"}
    assert await belongings(site, gone) == whole
    assert await purge(me) == 1
    assert await belongings(site, gone) == set()
    assert await belongings(site, other) == whole


async def test_age_is_counted_from_the_end(site: Site, me: Process) -> None:
    """“the wanted that ended at `since_ms` or later”, and before `before_ms`: not that began."""
    long_ran = await ended(site, BEFORE_MS, created_at=1)
    await ended(site, BEFORE_MS - 1)
    assert await purge(me) == 1
    assert await left(site) == {long_ran}


@pytest.mark.parametrize("state", WorkflowState)
async def test_only_what_has_ended_goes(site: Site, me: Process, state: WorkflowState) -> None:
    """“Ended workflows”: whatever the other columns say, those that may still run stay."""
    await ended(site, status=state.value)
    assert await purge(me) == int(state in ENDED)


async def test_states_and_names_narrow(site: Site, me: Process) -> None:
    """“the wanted”: in one of the states, and of one of the names."""
    failed = await ended(site, status="ERROR", name="a")
    kept = {await ended(site, name="b"), await ended(site, status="CANCELLED", name="a")}
    wanted: dict[str, Any] = {"states": (WorkflowState.ERROR,), "names": ("a", "c")}
    assert await purge(me, **wanted) == 1
    assert await left(site) == kept - {failed}
    assert await purge(me, names=("a", "b")) == 2


async def test_nothing_of_another_application_goes(site: Site, me: Process) -> None:
    """“Ended workflows of this application or of none”."""
    theirs = await ended(site, application_name="other")
    await ended(site, application_name=None)
    assert await purge(me) == 1
    assert await left(site) == {theirs}


@pytest.mark.parametrize(
    ("parent", "goes"),
    [
        ({"status": "PENDING", "completed_at": None}, False),
        ({"status": "ENQUEUED", "completed_at": 400}, False),
        ({"status": "ERROR", "completed_at": BEFORE_MS}, False),
        ({"status": "ERROR", "completed_at": 400}, True),
    ],
)
async def test_a_child_stays_while_its_parent_may_need_it(
    site: Site, me: Process, parent: dict[str, Any], goes: bool
) -> None:
    """“A workflow stays while its parent has not ended, or ended at `before_ms` or later”."""
    above = await ended(site, name="parent", **parent)
    child = await ended(site, parent_workflow_id=above)
    assert await purge(me, names=(rows.KEY.name,)) == int(goes)
    assert (child in await left(site)) is not goes


async def test_a_child_goes_when_its_parent_is_gone(site: Site, me: Process) -> None:
    """“A workflow stays while its parent has not ended”: one that is gone needs nothing."""
    await ended(site, parent_workflow_id="removed before")
    assert await purge(me) == 1


async def test_a_tree_goes_at_once(site: Site, me: Process) -> None:
    """“A workflow stays while its parent has not ended”: whichever of them ended first."""
    root = await ended(site, 300)
    for at_ms in (200, 300, 400):
        await ended(site, at_ms, parent_workflow_id=root)
    assert await purge(me) == 4


async def test_batches_have_a_limit_and_take_the_longest_ended_first(
    site: Site, me: Process
) -> None:
    """“up to `limit`”, “in the order in which they ended”."""
    ids = [await ended(site, 100 + number // 2) for number in range(7)]
    wanted = Expired(BEFORE_MS)
    assert await me.store.purge(wanted, 0, 4) == Purged(4, 101)
    assert await left(site) == set(ids[4:])
    assert await purge(me, limit=2) == 3


async def test_a_call_looks_at_a_bounded_number_of_rows(
    site: Site, me: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """“looks at some thousands of ended rows at most, whatever is wanted of them”."""
    for module in (postgres_retention, sqlite_retention):
        monkeypatch.setattr(module, "SIGHT", 3)
    for at_ms in range(100, 110):
        await ended(site, at_ms, name="another")
    wanted_id = await ended(site, 110)
    wanted = Expired(BEFORE_MS, names=(rows.KEY.name,))
    assert await me.store.purge(wanted, 0, 10) == Purged(0, 104)
    assert await me.store.expired(wanted, 0) == Purged(0, 104)
    assert await purge(me, names=wanted.names) == 1
    assert wanted_id not in await left(site)


async def test_looking_counts_what_would_go(site: Site, me: Process) -> None:
    """“Count what `purge` would remove, and remove nothing”."""
    alive = await ended(site, status="PENDING", completed_at=None)
    await ended(site, parent_workflow_id=alive)
    await ended(site, name="b", status="ERROR")
    await ended(site, BEFORE_MS)
    await ended(site)
    before = await left(site)
    assert await me.store.expired(Expired(BEFORE_MS), 0) == Purged(2, None)
    assert await me.store.expired(Expired(BEFORE_MS, names=("b",)), 0) == Purged(1, None)
    assert await left(site) == before


async def test_how_many_newest_are_kept(site: Site, me: Process) -> None:
    """“When the last of the `number` newest of the wanted ended; None if there are fewer”."""
    for at_ms in (100, 200, 200, 300):
        await ended(site, at_ms)
    await ended(site, 250, name="another")
    wanted = Expired(BEFORE_MS, names=(rows.KEY.name,))
    found = [await me.store.kept_since_ms(wanted, number) for number in range(1, 6)]
    assert found == [300, 200, 200, 100, None]


async def test_logged_claims_are_forgotten_when_no_window_reaches_back(
    site: Site, me: Process
) -> None:
    """“that no window of their queue reaches back to by now, or whose queue has none”."""
    now = await me.store.now_ms()
    log = "rate_log" if site.kind == "postgres" else "perdure_rate_log"
    await me.queue("limited", rate=Rate(5, 60))
    await me.queue("free")
    for queue in ("limited", "free", "deleted"):
        for age_ms in (1_000, 50_000, 300_000):
            values = {"queue_name": queue, "started_at": now - age_ms, "workflow_id": f"w-{age_ms}"}
            await site.insert(log, **values)
    assert await me.store.forget_claims(now - 2_000, 100) == 5
    kept = {(row["queue_name"], now - row["started_at"]) for row in await site.own("rate_log")}
    assert kept == {
        ("limited", 1_000),
        ("limited", 50_000),
        ("free", 1_000),
        ("deleted", 1_000),
    }
    assert await me.store.forget_claims(now, 1) == 1


async def test_two_processes_purge_together(site: Site, me: Process) -> None:
    """“Nobody is waited for”: what one has locked the other leaves, and all is gone in the end."""
    ids = [await ended(site, number) for number in range(60)]
    other = await site.process()
    counts = await asyncio.gather(*(purge(each, limit=5) for each in (me, other, me)))
    rest = await purge(me)
    assert sum(counts) + rest == len(ids)
    assert await left(site) == set()


async def test_who_comes_late_writes_nothing(site: Site, me: Process) -> None:
    """“Each goes with its … steps”: none is left by an execution that does not know, and a new
    workflow of the same id begins afresh."""
    run = await me.running()
    await me.store.finish([rows.finish(run)])
    await site.update(run.workflow_id, completed_at=5)
    assert await purge(me) == 1
    assert kinds(await me.store.record([rows.checkpoint(run)])) == [AnswerKind.LOST]
    await me.started(rows.direct(run.workflow_id))
    assert await belongings(site, run.workflow_id) == {"workflow_status", "workflow_input"}
