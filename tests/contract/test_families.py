"""`ListingStore`: families, steps, messages and streams of a workflow."""

from __future__ import annotations

from perdure.model.ids import StepId
from perdure.model.listing import StepsRequest, StreamSummary
from perdure.model.wire import NULL_TOPIC, STREAM_CLOSED
from tests.support import rows
from tests.support.store import Process, Site


async def family(site: Site, *pairs: tuple[str, str | None]) -> None:
    """Workflows with their parents, in that order."""
    for number, (name, parent) in enumerate(pairs):
        await site.foreign(name, parent_workflow_id=parent, created_at=number)


async def below(me: Process, name: str, limit: int = 100) -> list[str]:
    return [row.workflow_id for row in await me.store.list_descendants(rows.wid(name), limit)]


async def above(me: Process, name: str, limit: int = 100) -> list[str]:
    return [row.workflow_id for row in await me.store.list_ancestors(rows.wid(name), limit)]


async def test_a_family(site: Site, me: Process) -> None:
    """“Children, their children and so on, each once”, and “The parent, its parent and so on up to
    the first whose parent has no row”."""
    await family(
        site, ("r", "gone"), ("a", "r"), ("b", "r"), ("c", "a"), ("d", "c"), ("x", None), ("y", "x")
    )
    assert await below(me, "r") == ["a", "b", "c", "d"]
    assert await below(me, "a") == ["c", "d"]
    assert await below(me, "d") == []
    assert await below(me, "nobody") == []
    assert await above(me, "d") == ["c", "a", "r"]
    assert await above(me, "r") == []
    assert await above(me, "nobody") == []


async def test_a_family_is_whoevers(site: Site, me: Process) -> None:
    """“Children, their children and so on”: of any application."""
    await family(site, ("r", None))
    await site.foreign("a", parent_workflow_id="r", application_name="other")
    assert await below(me, "r") == ["a"]


async def test_a_parent_is_listed_before_its_children_are(site: Site, me: Process) -> None:
    """“at most `limit`”: “A parent is listed unless all of its own are left out too”."""
    await family(site, ("r", None), *((f"a{number}", "r") for number in range(3)))
    for number in range(3):
        await site.foreign(f"b{number}", parent_workflow_id=f"a{number}", created_at=-1)
    for limit in range(7):
        found = set(await below(me, "r", limit))
        assert len(found) == min(limit, 6)
        assert all(f"a{name[1]}" in found for name in found)
    await family(site, *((f"l{n}", f"l{n - 1}") for n in range(20)))
    assert await above(me, "l10", 3) == ["l9", "l8", "l7"]


async def test_circles_end(site: Site, me: Process) -> None:
    """“not even where rows name each other as parents in a circle”, “a circle is followed once”."""
    await family(site, ("p", "r"), ("q", "p"), ("r", "q"), ("self", "self"), ("leaf", "r"))
    for name in ("p", "q", "r"):
        others = {"p", "q", "r"} - {name}
        assert set(await below(me, name)) == others | {"leaf"}
        assert set(await above(me, name)) == others
    assert await below(me, "self") == await above(me, "self") == []
    assert await above(me, "leaf", 50) == ["r", "q", "p"]


async def test_a_deep_and_a_broad_family(site: Site, me: Process) -> None:
    """“One statement”, however deep and broad."""
    await site.foreign("d0")
    await site.backdoor.run(
        "INSERT INTO workflow_status (workflow_uuid, status, parent_workflow_id, created_at)"
        " WITH RECURSIVE numbers (n) AS"
        " (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1500)"
        " SELECT 'd' || n, 'SUCCESS', 'd' || (n - 1), n FROM numbers"
    )
    assert await below(me, "d0", 2000) == [f"d{n}" for n in range(1, 1501)]
    assert await above(me, "d1500", 2000) == [f"d{n}" for n in range(1499, -1, -1)]


async def test_odd_rows_are_passed_over(site: Site, me: Process) -> None:
    """“Rows in a state that this version does not know are passed over”."""
    await family(site, ("r", None), ("a", "r"), ("b", "a"))
    await site.update(rows.wid("a"), status="PAUSED")
    assert await below(me, "r") == ["b"]
    assert await above(me, "b") == ["r"]


async def test_steps_in_pages(site: Site, me: Process) -> None:
    """“The next steps of a workflow, by step id; without outputs neither these nor errors”."""
    run = await me.running()
    written = [rows.checkpoint(run, number) for number in (3, 1, 2, 7)]
    await me.store.record(written)
    full = await me.store.list_steps(StepsRequest(run.workflow_id, StepId(0), 10))
    assert [step.step_id for step in full] == [1, 2, 3, 7]
    assert full == (await me.store.history([run.workflow_id]))[run.workflow_id]
    page = await me.store.list_steps(
        StepsRequest(run.workflow_id, StepId(1), 2, with_outputs=False)
    )
    assert [(step.step_id, step.output, step.error) for step in page] == [
        (2, None, None),
        (3, None, None),
    ]
    assert await me.store.list_steps(StepsRequest(run.workflow_id, StepId(7), 2)) == []
    assert await me.store.list_steps(StepsRequest(rows.wid("nobody"), StepId(0), 2)) == []


async def test_streams(site: Site, me: Process) -> None:
    """“how many values it holds, without the mark of its end”, “by key”."""
    run = await site.foreign("w")
    for key, values in (("b", ["1", "2", STREAM_CLOSED]), ("a", ["1"]), ("c", [STREAM_CLOSED])):
        for offset, value in enumerate(values):
            columns = {"workflow_uuid": run, "key": key, "value": value, '"offset"': offset}
            await site.insert("streams", **columns)
    assert await me.store.list_streams(run) == [
        StreamSummary("a", 1, is_closed=False),
        StreamSummary("b", 2, is_closed=True),
        StreamSummary("c", 0, is_closed=True),
    ]
    assert await me.store.list_streams(rows.wid("nobody")) == []


async def test_messages(site: Site, me: Process) -> None:
    """“The messages to a workflow in the order of sending, at most `limit` of them”; “With
    `is_unread` only those that it has not received”."""
    run = await me.running("w")
    sent = [rows.message(run, f"{number}", topic=topic) for number, topic in enumerate("aba")]
    for each in sent:
        await me.store.send([rows.sending(each)])
        site.clock.advance(10)
    await me.store.receive([rows.receiving(run, 1, "b")])
    columns = {"destination_uuid": "w", "message": "by another", "created_at_epoch_ms": 2**50}
    await site.insert("notifications", message_uuid="foreign", topic=NULL_TOPIC, **columns)
    found = await me.store.list_messages(run.workflow_id, 10, is_unread=False)
    assert [(each.topic, each.message, each.is_consumed, each.step_id) for each in found] == [
        ("a", sent[0].message, False, None),
        ("b", sent[1].message, True, 1),
        ("a", sent[2].message, False, None),
        (None, "by another", False, None),
    ]
    assert [each.message_id for each in found[:3]] == [each.message_id for each in sent]
    assert (found[3].sent_at_ms, found[3].serialization) == (2**50, None)
    unread = await me.store.list_messages(run.workflow_id, 2, is_unread=True)
    assert [each.message_id for each in unread] == [sent[0].message_id, sent[2].message_id]
    assert await me.store.list_messages(rows.wid("nobody"), 10, is_unread=False) == []
