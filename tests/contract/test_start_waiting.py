"""`RunStore.start` without a lease, and stores that are used in no application's name."""

from __future__ import annotations

import pytest

from perdure.model.answer import AnswerKind
from perdure.model.queue import QueueRow
from perdure.model.workflow import NewWorkflow
from perdure.ports.store import Store
from tests.support import rows
from tests.support.store import Process, Site, kinds


@pytest.fixture(params=["sqlite", "postgres"])
def site_kind(request: pytest.FixtureRequest) -> str:
    """A database in memory is used by one store alone."""
    kind: str = request.param
    return kind


@pytest.fixture
async def nameless(site: Site) -> Store:
    """A store used in no application's name."""
    return await site.store(None)


async def begun(store: Store, *items: NewWorkflow) -> list[AnswerKind]:
    return kinds(await store.start(rows.starts(*items), None))


async def test_without_a_lease_rows_wait_and_name_no_executor(site: Site) -> None:
    """“With None no lease is asked for, the rows name no executor”."""
    store = await site.store()
    assert (
        await begun(store, rows.enqueued("w"), rows.enqueued("d", delay_ms=60_000))
        == [AnswerKind.WRITTEN] * 2
    )
    row = await site.status(rows.wid("w"))
    assert (row["status"], row["executor_id"], row["owner_xid"]) == ("ENQUEUED", None, None)
    assert row["application_name"] == "app"
    assert (await site.status(rows.wid("d")))["status"] == "DELAYED"


async def test_its_answers_are_those_of_a_start(site: Site, me: Process) -> None:
    """“*mine*: a row with the same id and the same `creator` stands”; “*conflict*: another's”."""
    store = await site.store()
    first = rows.enqueued("w", deduplication_id="d")
    assert await begun(store, first) == [AnswerKind.WRITTEN]
    assert await begun(store, first) == [AnswerKind.MINE]
    others = [rows.enqueued("w"), rows.enqueued("x", deduplication_id="d"), rows.enqueued("y")]
    assert await begun(store, *others) == [
        AnswerKind.CONFLICT,
        AnswerKind.CONFLICT,
        AnswerKind.WRITTEN,
    ]
    (run, _) = await me.claim(version=rows.VERSION)
    assert run.workflow_id == first.workflow_id


async def test_a_row_may_be_another_application_s(site: Site, me: Process) -> None:
    """“`application_name` None is the application in whose name the store is used”."""
    await me.start(rows.enqueued("ours"), rows.enqueued("theirs", application_name="other"))
    owners = [
        (await site.status(rows.wid(each)))["application_name"] for each in ("ours", "theirs")
    ]
    assert owners == ["app", "other"]
    assert [run.workflow_id for run in await me.claim()] == ["ours"]


async def test_a_child_may_be_another_application_s(site: Site, me: Process) -> None:
    """Its parent's step is its parent's."""
    parent = await me.running("p")
    child = rows.child_of(parent, 1, rows.enqueued("c", application_name="other"))
    await me.start(child)
    assert (await site.status(rows.wid("c")))["application_name"] == "other"
    assert [step["application_name"] for step in await site.steps(rows.wid("p"))] == ["app"]


async def test_used_in_no_name_rows_are_nobody_s(site: Site, nameless: Store, me: Process) -> None:
    """“… and that may be none”: whoever claims such a row makes it its own."""
    assert await begun(nameless, rows.enqueued("w", application_version=None)) == [
        AnswerKind.WRITTEN
    ]
    assert (await site.status(rows.wid("w")))["application_name"] is None
    await me.store.register_version(rows.VERSION)
    (run,) = await me.claim()
    assert run.workflow_id == "w"
    assert (await site.status(rows.wid("w")))["application_name"] == "app"


async def test_used_in_no_name_it_finds_the_queues_of_all(site: Site, nameless: Store) -> None:
    """“Every queue of that application, this one where it is None, or of none”."""
    for application, name in (("app", "a"), ("other", "b"), (None, "c")):
        store = await site.store(application)
        await store.register_queue(name, "", lambda *_, name=name: rows.queue(name))  # type: ignore[misc]
    assert _names(await nameless.queues()) == ["a", "b", "c"]
    assert _names(await nameless.queues("other")) == ["b", "c"]
    ours = await site.store()
    assert _names(await ours.queues()) == ["a", "c"]
    assert _names(await ours.queues("other")) == ["b", "c"]
    changed = await nameless.change_queue("b", lambda standing: standing.settings)
    assert changed is not None
    assert changed.application_name == "other"
    assert await ours.change_queue("b", lambda standing: standing.settings) is None
    assert await nameless.delete_queue("b")
    assert not await ours.delete_queue("b")


async def test_used_in_no_name_it_finds_the_versions_of_all(site: Site, nameless: Store) -> None:
    """“Used in no application's name the store finds the versions of all”, and promotes each for
    “the one that it belongs to”."""
    ours, theirs = await site.store(), await site.store("other")
    for store, version in ((ours, "a1"), (theirs, "o1"), (theirs, "o2")):
        await store.register_version(version)
    assert {row.name for row in await nameless.versions()} == {"a1", "o1", "o2"}
    assert [row.name for row in await ours.versions("other")] == ["o2", "o1"]
    promoted = await nameless.promote_version("o1")
    assert promoted is not None
    assert (promoted.name, promoted.application_name) == ("o1", "other")
    assert [row.name for row in await theirs.versions()] == ["o1", "o2"]
    assert await nameless.promote_version("nothing") is None


async def test_used_in_no_name_it_counts_what_is_in_queues_for_all(
    site: Site, nameless: Store, me: Process
) -> None:
    await me.start(rows.enqueued(), rows.enqueued(application_name="other"), rows.direct())
    assert [depth.enqueued for depth in await nameless.queue_depths([rows.QUEUE])] == [2]
    assert [depth.enqueued for depth in await me.store.queue_depths([rows.QUEUE])] == [1]


def _names(found: list[QueueRow]) -> list[str]:
    return [row.name for row in found]
