"""Looking at workflows: pages, numbers, families, steps, what they said and what they hold."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import (
    WorkflowNotFound,
    WorkflowState,
    close_stream,
    set_event,
    step,
    workflow,
    write_stream,
)
from perdure.api.management import Workflows
from perdure.errors import InvalidArgument, ListingTooSlow
from perdure.model.listing import StreamSummary
from perdure.model.workflow import WorkflowRow
from tests.support.engines import Lab
from tests.support.logged import logged


@step
async def note(word: str) -> str:
    return word


@workflow(name="leaf")
async def leaf(word: str, *, fail: bool = False) -> str:
    if fail:
        raise ValueError(word)
    return await note(word)


@workflow(name="stem")
async def stem(words: list[str]) -> int:
    for word in words:
        await leaf(word)
    return len(words)


@workflow(name="root")
async def root() -> int:
    return await stem(["a", "b"]) + await stem(["c"])


@step(name="breaks")
async def breaks() -> None:
    raise ValueError("on purpose")


@workflow(name="flaky")
async def flaky() -> int:
    try:
        await breaks()
    except ValueError:
        return 0
    return 1


@workflow(name="talker")
async def talker() -> None:
    await set_event("progress", {"done": 1})
    for number in range(5):
        await write_stream("log", number)
    await close_stream("log")
    await write_stream("more", "x")


def ids(rows: list[WorkflowRow]) -> list[str]:
    return [row.workflow_id for row in rows]


async def several(lab: Lab, count: int = 7) -> Workflows:
    """An engine that has run that many leaves, one of which failed."""
    engine = await lab.start(leaf)
    for number in range(count):
        await leaf.options(id=f"w{number}", attributes={"number": number}).start(
            f"word {number}", fail=number == 3
        )
        await lab.until(f"w{number}")
    return engine.workflows


async def test_pages_of_a_listing(lab: Lab) -> None:
    """Each page names the next; inserts meanwhile neither repeat nor hide a row."""
    workflows = await several(lab)
    page = await workflows.list(limit=3)
    assert (ids(page), page.next is None) == (["w0", "w1", "w2"], False)
    # By its id it also comes last of those of one millisecond.
    await leaf.options(id="x later")("x")
    page = await workflows.list(limit=3, after=page.next)
    assert ids(page) == ["w3", "w4", "w5"]
    page = await workflows.list(limit=3, after=page.next)
    assert (ids(page), page.next) == (["w6", "x later"], None)
    page = await workflows.list(limit=8)
    assert (len(page), page.next) == (8, None)
    page = await workflows.list(newest_first=True, limit=2)
    page = await workflows.list(newest_first=True, limit=2, after=page.next)
    assert ids(page) == ["w5", "w4"]


async def test_all_pages_one_after_the_other(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pages of bounded size; a limit is one of all of them."""
    monkeypatch.setattr("perdure.api.listing._AT_ONCE", 3)
    monkeypatch.setattr("perdure.api.listing._AT_ONCE_WITH_PAYLOADS", 2)
    workflows = await several(lab)
    everything = [f"w{number}" for number in range(7)]
    assert [row.workflow_id async for row in workflows.iterate()] == everything
    found = [row async for row in workflows.iterate(newest_first=True, with_inputs=True)]
    assert ids(found) == everything[::-1]
    assert all(row.inputs for row in found)
    for limit in (1, 3, 4, 6, 7, 8):
        found = [row async for row in workflows.iterate(limit=limit)]
        assert ids(found) == everything[:limit]
    with pytest.raises(InvalidArgument, match="limit=0"):
        _ = [row async for row in workflows.iterate(limit=0)]
    with pytest.raises(InvalidArgument, match="unknown options: status"):
        await workflows.list(status="ERROR")  # type: ignore[call-arg]


async def test_numbers(lab: Lab) -> None:
    """One, or one for each kind."""
    workflows = await several(lab)
    assert await workflows.count() == 7
    assert await workflows.count(states="ERROR", names=["leaf"]) == 1
    assert await workflows.count(attributes={"number": 3}) == 1
    by_state = await workflows.count(by="state")
    assert [(each.state, each.number) for each in by_state] == [
        (WorkflowState.SUCCESS, 6),
        (WorkflowState.ERROR, 1),
    ]
    now = datetime.now(UTC)
    (bucket,) = await workflows.count(
        by=["name", "created"],
        span=timedelta(days=100_000),
        created_from=now - timedelta(hours=1),
        created_to=now + timedelta(hours=1),
    )
    assert (bucket.name, bucket.number, bucket.created_at_ms) == ("leaf", 7, 0)
    for wrong in (
        {"by": "colour"},
        {"by": []},
        {"by": "state", "span": 0},
        {"by": "state", "limit": 0},
    ):
        with pytest.raises(InvalidArgument, match=next(reversed(wrong))):
            await workflows.count(**wrong)  # type: ignore[call-overload]


async def test_numbers_of_steps(lab: Lab) -> None:
    """By name, and by when they ended; with those that failed, and the longest time of one."""
    lately = datetime.now(UTC) - timedelta(minutes=1)
    engine = await lab.start(stem, leaf, flaky)
    await stem.options(id="s")(["a", "b"])
    assert await flaky.options(id="f")() == 0
    count = engine.workflows.count_steps
    found = {each.name: (each.number, each.failed) for each in await count()}
    assert found == {"leaf": (2, 0), "DBOS.getResult": (2, 0), "note": (2, 0), "breaks": (1, 1)}
    (each,) = await count(names="note", by=["name", "completed"], span=timedelta(days=100_000))
    assert (each.name, each.number, each.completed_at_ms) == ("note", 2, 0)
    assert each.longest_ms is not None
    assert await count(names="note", completed_to=lately) == []
    assert sum(each.number for each in await count(completed_from=lately)) == 7
    for wrong in ({"by": "state"}, {"by": ()}, {"span": 0}, {"limit": 0}, {"states": "ERROR"}):
        with pytest.raises(InvalidArgument, match=next(iter(wrong))):
            await count(**wrong)  # type: ignore[arg-type]


async def test_a_family(lab: Lab) -> None:
    """Children, the whole tree, and the way up."""
    engine = await lab.start(root, stem, leaf)
    assert await root.options(id="r")() == 3
    tree = await engine.workflows.tree("r")
    assert [(each.depth, each.workflow.key.name) for each in tree] == [
        (0, "root"),
        (1, "stem"),
        (2, "leaf"),
        (2, "leaf"),
        (1, "stem"),
        (2, "leaf"),
    ]
    children = await engine.workflows.children("r", limit=1)
    assert (ids(children), children.next is None) == ([tree[1].workflow.workflow_id], False)
    last = tree[-1].workflow.workflow_id
    assert ids(await engine.workflows.ancestors(last)) == [tree[4].workflow.workflow_id, "r"]
    assert await engine.workflows.ancestors("r") == []
    with pytest.raises(InvalidArgument, match="more than 4 descendants"):
        await engine.workflows.tree("r", limit=4)
    with pytest.raises(InvalidArgument, match="parents"):
        await engine.workflows.children("r", parents="x")
    for missing in (engine.workflows.tree, engine.workflows.ancestors):
        with pytest.raises(WorkflowNotFound):
            await missing("nobody")


async def test_steps_in_pages(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, or page by page; without their outputs if those are not wanted."""
    monkeypatch.setattr("perdure.api.listing._AT_ONCE", 2)

    @workflow(name="long")
    async def long() -> None:
        for number in range(7):
            await note(str(number))

    engine = await lab.start(long)
    await long.options(id="w")()
    steps = await engine.workflows.steps("w")
    assert ([each.step_id for each in steps], steps.next) == (list(range(1, 8)), None)
    page = await engine.workflows.steps("w", limit=3, with_outputs=False)
    assert [(each.step_id, each.output) for each in page] == [(1, None), (2, None), (3, None)]
    page = await engine.workflows.steps("w", limit=4, after=page.next)
    assert ([each.step_id for each in page], page.next) == ([4, 5, 6, 7], None)
    assert page[0].output == '"3"'
    with pytest.raises(WorkflowNotFound):
        await engine.workflows.steps("nobody")
    with pytest.raises(InvalidArgument, match="after=-1"):
        await engine.workflows.steps("w", after=-1)


async def test_what_a_workflow_said(lab: Lab) -> None:
    """Events by key, streams: how much is in them, and what, page by page; what was said to it."""
    engine = await lab.start(talker, leaf)
    await talker.options(id="t")()
    await leaf.options(id="quiet")("x")
    workflows = engine.workflows
    (event,) = await workflows.events("t")
    assert (event.key, event.value) == ("progress", '{"done":1}')
    assert await workflows.streams("t") == [
        StreamSummary("log", 5, is_closed=True),
        StreamSummary("more", 1, is_closed=False),
    ]
    page = await workflows.stream("t", "log", limit=3)
    assert ([row.value for row in page], page.next) == (["0", "1", "2"], 3)
    page = await workflows.stream("t", "log", offset=3)
    assert ([row.value for row in page], page.next) == (["3", "4"], None)
    assert await workflows.stream("t", "none") == []
    for number in range(3):
        await engine.send("t", number, "topic" if number else None)
    found = await workflows.messages("t")
    # Between the topics the millisecond decides, and it may be the same one.
    said = [(each.topic, each.message, each.is_consumed) for each in found]
    assert [each for each in said if each[0]] == [("topic", "1", False), ("topic", "2", False)]
    assert [each for each in said if not each[0]] == [(None, "0", False)]
    assert await workflows.messages("t", limit=1, unread=True) == found[:1]
    assert await workflows.messages("quiet") == []
    assert await workflows.events("quiet") == await workflows.streams("quiet") == []
    asks = (workflows.events, workflows.streams, workflows.messages)
    for ask in (*asks, lambda of: workflows.stream(of, "log")):
        with pytest.raises(WorkflowNotFound):
            await ask("nobody")
    with pytest.raises(InvalidArgument, match="unread=1"):
        await workflows.messages("t", unread=1)  # type: ignore[arg-type]


async def test_payloads_when_somebody_asks(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    """Decoded one by one; what cannot be read is the stored text, with a warning."""
    workflows = await several(lab, 4)
    good, bad = [
        workflows.payloads(await workflows.get(of, with_payloads=True)) for of in ("w0", "w3")
    ]
    assert (good.args, good.kwargs) == (("word 0",), {"fail": False})
    assert (good.output, good.error) == ("word 0", None)
    assert isinstance(bad.error, ValueError)
    assert bad.output is None
    await lab.backdoor.run("UPDATE workflow_status SET serialization = 'js_superjson'")
    row = await workflows.get("w0", with_payloads=True)
    unread = workflows.payloads(row)
    assert logged(caplog) == []
    with caplog.at_level(logging.WARNING):
        assert (unread.output, unread.args, unread.kwargs) == (row.output, row.inputs, row.inputs)
    assert "js_superjson" in caplog.text
    bare = workflows.payloads(await workflows.get("w0"))
    assert (bare.args, bare.kwargs, bare.output, bare.error) == ((), {}, None, None)


async def test_questions_in_a_body_are_steps(lab: Lab) -> None:
    """They replay what was there then, also that there was nothing."""
    seen: list[Any] = []

    @workflow(name="looks")
    async def looks() -> int:
        workflows = lab.engine.workflows
        page = await workflows.list(names="leaf", limit=1)
        more = await workflows.list(names="leaf", after=page.next)
        seen.append((ids(page), page.next, ids(more)))
        seen.append(await workflows.count(names="leaf"))
        seen.append([each.number for each in await workflows.count(by="state", names="leaf")])
        seen.append(len(await workflows.steps("w0")))
        seen.append([each.depth for each in await workflows.tree("w0")])
        seen.append([each.number for each in await workflows.count_steps(names="note")])
        seen.append([each.message for each in await workflows.messages("w0")])
        try:
            await workflows.get("later")
        except WorkflowNotFound:
            seen.append("none")
        return len(seen)

    engine = await lab.start(looks, leaf)
    for number in range(2):
        await leaf.options(id=f"w{number}")("x")
    await engine.send("w0", "first")
    assert await looks.options(id="l")() == 8
    names = [row["function_name"] for row in await lab.steps("l")]
    assert names == [
        "DBOS.listWorkflows",
        "DBOS.listWorkflows",
        "Perdure.countWorkflows",
        "Perdure.countWorkflows",
        "DBOS.listWorkflowSteps",
        "Perdure.listTree",
        "Perdure.countSteps",
        "Perdure.listMessages",
        "DBOS.getStatus",
    ]
    await leaf.options(id="later")("x")
    await engine.send("w0", "second")
    await lab.rerun("l")
    assert seen[8:] == seen[:8]


async def test_a_listing_that_takes_too_long_says_how_to_narrow_it(lab: Lab) -> None:
    """It is not asked again, which would take as long."""
    workflows = await several(lab, 1)
    lab.store.fail("list_workflows", ListingTooSlow(30))
    with pytest.raises(ListingTooSlow, match=r"within 30 s.*created_from"):
        await workflows.list(names="leaf")
