"""`ManagementStore.manage` of a `Cancel`."""

import pytest

from perdure.model.answer import AnswerKind
from perdure.model.management import Cancel
from tests.support import rows
from tests.support.store import Process, Site, kinds

CLEARED = ("owner_xid", "queue_name", "deduplication_id", "started_at_epoch_ms")


@pytest.mark.parametrize(
    "status", ["ENQUEUED", "DELAYED", "PENDING", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
)
async def test_every_row_without_outcome_can_be_cancelled(
    site: Site, me: Process, status: str
) -> None:
    """“rows whose state is not SUCCESS or ERROR become CANCELLED: owner, queue name, deduplication
    id and start time NULL, `updated_at` and `completed_at` now; the attempts, timeout, deadline and
    delay stay”."""
    found = await site.foreign(
        status=status,
        owner_xid="somebody",
        deduplication_id="d",
        started_at_epoch_ms=5,
        recovery_attempts=3,
        workflow_timeout_ms=7,
        workflow_deadline_epoch_ms=8,
        delay_until_epoch_ms=9,
        executor_id="theirs",
    )
    begun = await me.store.now_ms()
    assert await me.cancel([found]) == [found]
    ended = await me.store.now_ms()
    row = await site.status(found)
    assert row["status"] == "CANCELLED"
    assert [row[column] for column in CLEARED] == [None] * 4
    assert begun <= row["completed_at"] == row["updated_at"] <= ended
    assert row["recovery_attempts"] == 3
    assert (row["workflow_timeout_ms"], row["workflow_deadline_epoch_ms"]) == (7, 8)
    assert (row["delay_until_epoch_ms"], row["executor_id"]) == (9, "theirs")
    assert await site.payload("workflow_output", found) is None


@pytest.mark.parametrize("status", ["SUCCESS", "ERROR"])
async def test_an_outcome_stands_against_a_cancel(site: Site, me: Process, status: str) -> None:
    """“rows whose state is not SUCCESS or ERROR”: the others are left alone."""
    found = await site.foreign(status=status)
    before = await site.status(found)
    assert await me.cancel([found]) == []
    assert await site.status(found) == before


async def test_only_the_changed_ids_are_returned(site: Site, me: Process) -> None:
    """“the ids that became CANCELLED, in the order given”; “Unknown ids are passed over”."""
    done = await site.foreign(status="SUCCESS")
    one, two = await me.running("a::%"), await me.waiting("b_'")
    asked = [two.workflow_id, rows.wid("unknown"), done, one.workflow_id]
    assert await me.cancel(asked) == [two.workflow_id, one.workflow_id]
    assert await me.cancel([]) == []


async def test_an_id_given_twice_is_cancelled_once(me: Process) -> None:
    """“names the ids that became CANCELLED”: each once."""
    run = await me.running()
    assert await me.cancel([run.workflow_id] * 2) == [run.workflow_id]


async def test_a_cancelled_run_can_write_nothing_more(site: Site, me: Process) -> None:
    """“Needs no ownership of the rows: it takes it away from whoever runs them”."""
    run = await me.running()
    stranger = site.stranger(await site.store())
    await stranger.cancel([run.workflow_id])
    answers = await me.store.record([rows.checkpoint(run)])
    assert kinds(answers) == [AnswerKind.LOST]
    assert kinds(await me.store.release([rows.release(run)])) == [AnswerKind.LOST]
    assert kinds(await me.start(rows.child_of(run, 1, rows.direct()))) == [AnswerKind.LOST]
    assert await site.steps(run.workflow_id) == []


async def test_a_thousand_rows_are_cancelled_at_once(site: Site, me: Process) -> None:
    """“Whatever the number of ids, the statements are few”."""
    batch = [rows.enqueued() for _ in range(1000)]
    await me.start(*batch)
    ids = [item.workflow_id for item in batch]
    assert await me.cancel(ids) == ids
    left = await site.backdoor.rows(
        "SELECT COUNT(*) AS n FROM workflow_status WHERE status <> 'CANCELLED'"
    )
    assert left[0]["n"] == 0


async def test_a_whole_tree_is_cancelled(site: Site, me: Process) -> None:
    """“Descendants are found level by level”: “in the order given, descendants behind”."""
    root = await me.running("root")
    for place, name in enumerate(("root/b", "root/a"), 1):
        await me.start(rows.child_of(root, place, rows.enqueued(name)))
    grandchild = rows.direct("root/a/a", parent_workflow_id=rows.wid("root/a"))
    stranger = await me.running("stranger")
    await me.start(grandchild)
    managed = await me.managed(Cancel((stranger.workflow_id, root.workflow_id), children=True))
    assert managed.refusal is None
    assert managed.ids == ("stranger", "root", "root/a", "root/b", "root/a/a")
    assert {(await site.status(each))["status"] for each in managed.ids} == {"CANCELLED"}


async def test_a_child_is_not_cancelled_unless_asked_for(site: Site, me: Process) -> None:
    """“with `children`, all their descendants too”: only then."""
    parent = await me.running()
    child = rows.enqueued()
    await me.start(rows.child_of(parent, 1, child))
    assert await me.cancel([parent.workflow_id]) == [parent.workflow_id]
    assert (await site.status(child.workflow_id))["status"] == "ENQUEUED"


async def test_descendants_below_an_ended_workflow_are_found(site: Site, me: Process) -> None:
    """“below ended workflows too”: which are left alone themselves."""
    root, middle, leaf = rows.wid("root"), rows.wid("middle"), rows.wid("leaf")
    await site.foreign(root, status="SUCCESS")
    await site.foreign(middle, status="ERROR", parent_workflow_id=root)
    await site.foreign(leaf, parent_workflow_id=middle)
    managed = await me.managed(Cancel((root,), children=True))
    assert managed.ids == (leaf,)
    states = [(await site.status(each))["status"] for each in (root, middle, leaf)]
    assert states == ["SUCCESS", "ERROR", "CANCELLED"]


async def test_rows_that_are_their_own_ancestors_end_the_search(site: Site, me: Process) -> None:
    """“Descendants are found level by level”: each once, whatever others wrote."""
    one, two = rows.wid("one"), rows.wid("two")
    await site.foreign(one, parent_workflow_id=two)
    await site.foreign(two, parent_workflow_id=one)
    assert (await me.managed(Cancel((one,), children=True))).ids == (one, two)


async def test_workflows_of_another_application_are_cancelled(site: Site, me: Process) -> None:
    """“ids are found whatever their application is”."""
    found = await site.foreign(application_name="theirs")
    child = await site.foreign(application_name="others", parent_workflow_id=found)
    assert (await me.managed(Cancel((found,), children=True))).ids == (found, child)
