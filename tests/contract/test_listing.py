"""`ListingStore.list_workflows`: filters, order, pages."""

import json
from typing import Any

import msgspec
import pytest

from perdure.model.ids import WorkflowId
from perdure.model.listing import Cursor, ListingRequest
from perdure.model.status import WorkflowState
from perdure.model.workflow import WorkflowKey, WorkflowRow
from tests.support import rows
from tests.support.store import Process, Site

TEXTS = (
    "queue_name",
    "queue_partition_key",
    "deduplication_id",
    "executor_id",
    "application_id",
    "application_version",
    "parent_workflow_id",
    "forked_from",
    "schedule_name",
    "authenticated_user",
    "authenticated_roles",
    "assumed_role",
    "owner_xid",
    "serialization",
    "error",
    "output",
    "inputs",
)
BASE = 1_700_000_000_000
FULL_COLUMNS = {
    "status": "ERROR",
    "name": "n",
    "class_name": "c",
    "config_name": "i",
    "recovery_attempts": 3,
    "queue_name": "q",
    "priority": 5,
    "queue_partition_key": "p",
    "deduplication_id": "d",
    "executor_id": "e",
    "application_name": "app",
    "application_version": "v",
    "application_id": "aid",
    "created_at": 1,
    "updated_at": 2,
    "started_at_epoch_ms": 3,
    "completed_at": 4,
    "delay_until_epoch_ms": 5,
    "workflow_timeout_ms": 6,
    "workflow_deadline_epoch_ms": 7,
    "parent_workflow_id": "par",
    "forked_from": "orig",
    "was_forked_from": True,
    "schedule_name": "s",
    "authenticated_user": "u",
    "authenticated_roles": '["r"]',
    "assumed_role": "r",
    "attributes": '{"a": 1}',
    "serialization": "portable_json",
    "owner_xid": "o",
}
FULL = WorkflowRow(
    workflow_id=rows.wid("full"),
    state=WorkflowState.ERROR,
    key=WorkflowKey("n", "c", "i"),
    attempts=3,
    queue_name="q",
    priority=5,
    partition_key="p",
    deduplication_id="d",
    executor_id="e",
    application_name="app",
    application_version="v",
    application_id="aid",
    created_at_ms=1,
    updated_at_ms=2,
    started_at_ms=3,
    completed_at_ms=4,
    delay_until_ms=5,
    timeout_ms=6,
    deadline_ms=7,
    parent_workflow_id=rows.wid("par"),
    forked_from=rows.wid("orig"),
    was_forked_from=True,
    schedule_name="s",
    authenticated_user="u",
    authenticated_roles='["r"]',
    assumed_role="r",
    attributes=None,
    serialization="portable_json",
    owner=rows.token("o"),
    inputs="in",
    output="out",
    error="err",
)


async def listed(me: Process, **wanted: Any) -> list[WorkflowId]:
    """The ids of a listing, in its order."""
    found = await me.store.list_workflows(ListingRequest(**wanted))
    return [row.workflow_id for row in found]


async def pages(me: Process, **wanted: Any) -> list[list[WorkflowId]]:
    """Every page of a listing, each asked for after the last row of the one before."""
    found: list[list[WorkflowId]] = []
    after: Cursor | None = None
    while True:
        page = await me.store.list_workflows(ListingRequest(after=after, **wanted))
        if not page:
            return found
        found.append([row.workflow_id for row in page])
        after = Cursor.behind(page[-1])


async def test_every_column_is_read(site: Site, me: Process) -> None:
    """“A workflow as a reader sees it: every column of the listing, payloads if asked”."""
    await site.foreign("full", **FULL_COLUMNS)
    await site.insert("workflow_input", workflow_uuid="full", inputs="in")
    await site.insert("workflow_output", workflow_uuid="full", output="out", error="err")
    row = await site.read(rows.wid("full"))
    assert row.attributes is not None
    assert json.loads(row.attributes) == {"a": 1}
    assert msgspec.structs.replace(row, attributes=None) == FULL


async def test_payloads_only_when_asked(site: Site, me: Process) -> None:
    """“payloads if asked”."""
    found = await site.foreign(status="SUCCESS", inputs="in", output="out", error="err")
    await site.insert("workflow_input", workflow_uuid=found, inputs="in")
    (bare,) = await me.store.list_workflows(
        rows.by_ids(found, with_inputs=False, with_outputs=False)
    )
    assert (bare.inputs, bare.output, bare.error) == (None, None, None)
    (full,) = await me.store.list_workflows(rows.by_ids(found))
    assert (full.inputs, full.output, full.error) == ("in", "out", "err")


async def test_payload_tables_are_preferred(site: Site, me: Process) -> None:
    """“payloads prefer the payload tables over the legacy columns”."""
    both = await site.foreign(status="SUCCESS", inputs="old", output="old", error="")
    await site.insert("workflow_input", workflow_uuid=both, inputs="new")
    await site.insert("workflow_output", workflow_uuid=both, output="new")
    legacy = await site.foreign(status="ERROR", inputs="i", error="e")
    row = await site.read(both)
    assert (row.inputs, row.output, row.error) == ("new", "new", None)
    row = await site.read(legacy)
    assert (row.inputs, row.output, row.error) == ("i", None, "e")


async def test_empty_and_absent_texts_are_alike(site: Site, me: Process) -> None:
    """“NULL and '' texts are alike None”."""
    empty = await site.foreign(status="SUCCESS", **dict.fromkeys(TEXTS, ""))
    absent = await site.foreign(status="SUCCESS", **dict.fromkeys(TEXTS, None))
    for workflow_id in (empty, absent):
        row = await site.read(workflow_id)
        assert (row.queue_name, row.partition_key, row.deduplication_id) == (None,) * 3
        assert (row.executor_id, row.application_id, row.application_version) == (None,) * 3
        assert (row.parent_workflow_id, row.forked_from, row.schedule_name) == (None,) * 3
        assert (row.authenticated_user, row.authenticated_roles, row.assumed_role) == (None,) * 3
        assert (row.owner, row.serialization) == (None, None)
        assert (row.inputs, row.output, row.error) == (None, None, None)


@pytest.mark.parametrize("attributes", [None, "null"])
async def test_no_attributes(site: Site, me: Process, attributes: str | None) -> None:
    """“NULL and '' texts are alike None”, and so is the JSON null another program writes."""
    assert (await site.read(await site.foreign(attributes=attributes))).attributes is None


async def test_the_order_is_creation_then_id(site: Site, me: Process) -> None:
    """“Rows come in order of (created_at, workflow id), newest first when `newest_first`”."""
    for name, offset in (("c", 1), ("a", 2), ("b", 1), ("d", 0)):
        await site.foreign(name, created_at=BASE + offset)
    assert await listed(me) == ["d", "b", "c", "a"]
    assert await listed(me, newest_first=True) == ["a", "c", "b", "d"]


async def test_the_limit(site: Site, me: Process) -> None:
    """“The rows matching the filter, in its order, at most its limit”."""
    for number in range(5):
        await site.foreign(f"w{number}", created_at=BASE + number)
    assert await listed(me, limit=2) == ["w0", "w1"]
    assert await listed(me, limit=2, newest_first=True) == ["w4", "w3"]
    assert await listed(me, limit=0) == []


@pytest.mark.parametrize("newest_first", [False, True])
async def test_pages_within_one_millisecond(site: Site, me: Process, newest_first: bool) -> None:
    """“`after` is the (created_at_ms, id) of the last row of the page before”: rows of one instant
    are neither repeated nor left out."""
    names = [f"{letter}{number}" for letter in "aZé_%" for number in range(8)]
    for name in names:
        await site.foreign(name, created_at=BASE)
    found = await pages(me, limit=7, newest_first=newest_first)
    assert [len(page) for page in found] == [7, 7, 7, 7, 7, 5]
    flat = [workflow_id for page in found for workflow_id in page]
    assert sorted(flat) == sorted(names)
    assert flat == await listed(me, newest_first=newest_first)


@pytest.mark.parametrize("newest_first", [False, True])
async def test_pages_are_stable_under_inserts(site: Site, me: Process, newest_first: bool) -> None:
    """“`after` is the (created_at_ms, id) of the last row of the page before”: what is inserted or
    changed between two pages moves no other row."""
    names = [f"w{number:02}" for number in range(20)]
    for number, name in enumerate(names):
        await site.foreign(name, created_at=BASE + number // 3)
    seen: list[WorkflowId] = []
    after: Cursor | None = None
    for turn in range(10):
        page = await me.store.list_workflows(
            ListingRequest(limit=4, after=after, newest_first=newest_first)
        )
        if not page:
            break
        seen += [row.workflow_id for row in page]
        after = Cursor.behind(page[-1])
        await site.foreign(f"early-{turn}", created_at=BASE - 1 - turn)
        await site.foreign(f"late-{turn}", created_at=BASE + 100 + turn)
        await site.update(rows.wid(names[turn]), status="CANCELLED", updated_at=BASE + 999)
    kept = [workflow_id for workflow_id in seen if workflow_id.startswith("w")]
    assert kept == (names[::-1] if newest_first else names)
    assert len(seen) == len(set(seen))


async def test_a_page_after_a_row_that_is_gone(site: Site, me: Process) -> None:
    """“`after` is the (created_at_ms, id) of the last row of the page before”: the place counts,
    not the row."""
    for number in range(4):
        await site.foreign(f"w{number}", created_at=BASE + number)
    await site.backdoor.run("DELETE FROM workflow_status WHERE workflow_uuid = ?", "w1")
    assert await listed(me, after=Cursor(BASE + 1, rows.wid("w1"))) == ["w2", "w3"]


async def test_each_filter_alone(site: Site, me: Process) -> None:
    """“Empty tuples mean no restriction on that field”."""
    await site.foreign("a", created_at=1, status="PENDING", name="f", queue_name="q1")
    await site.foreign("b", created_at=2, status="SUCCESS", name="g", queue_name="q2")
    await site.foreign("c", created_at=3, status="ERROR", name="f", parent_workflow_id="a")
    await site.foreign("d", created_at=4, status="SUCCESS", name=None, queue_name=None)
    assert await listed(me) == ["a", "b", "c", "d"]
    assert await listed(me, states=(WorkflowState.SUCCESS,)) == ["b", "d"]
    both = (WorkflowState.ERROR, WorkflowState.PENDING)
    assert await listed(me, states=both) == ["a", "c"]
    assert await listed(me, names=("f",)) == ["a", "c"]
    assert await listed(me, names=("f", "g", "h")) == ["a", "b", "c"]
    assert await listed(me, queues=("q2", "q1")) == ["a", "b"]
    assert await listed(me, parents=(rows.wid("a"),)) == ["c"]
    assert await listed(me, ids=(rows.wid("c"), rows.wid("a"), rows.wid("x"))) == ["a", "c"]


async def test_filters_together(site: Site, me: Process) -> None:
    """“Which workflows a listing wants”: all of the conditions at once."""
    for number in range(12):
        await site.foreign(
            f"w{number:02}",
            created_at=BASE + number,
            status="SUCCESS" if number % 2 else "ERROR",
            name="f" if number % 3 else "g",
            parent_workflow_id="p",
        )
    found = await listed(
        me,
        states=(WorkflowState.SUCCESS,),
        names=("f",),
        queues=(rows.QUEUE,),
        parents=(rows.wid("p"),),
        id_prefixes=("w",),
        newest_first=True,
        after=Cursor(BASE + 7, rows.wid("w07")),
        limit=2,
    )
    assert found == ["w05", "w01"]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("a%", ["a%b"]),
        ("a_", ["a_b"]),
        ("a\\", ["a\\b"]),
        ("a::", ["a::b"]),
        ("A", ["Ab"]),
        ("é", ["éb"]),
        ("o'", ["o'b"]),
        ("*", []),
        ("[a", []),
        ("", ["Ab", "a%b", "a::b", "a\\b", "a_b", "acb", "o'b", "éb"]),
    ],
)
async def test_a_prefix_is_text(site: Site, me: Process, prefix: str, expected: list[str]) -> None:
    """“`id_prefix`”: its characters mean themselves, upper and lower case are different."""
    for name in ("a%b", "a_b", "a\\b", "a::b", "Ab", "acb", "éb", "o'b"):
        await site.foreign(name, created_at=BASE)
    assert sorted(await listed(me, id_prefixes=(prefix,))) == sorted(expected)


async def test_only_this_applications_and_unclaimed_rows(site: Site, me: Process) -> None:
    """“Only this application's and unclaimed rows are listed unless `ids` are given”."""
    await site.foreign("ours", application_name="app", created_at=1)
    await site.foreign("nobodys", application_name=None, created_at=2)
    theirs = await site.foreign("theirs", application_name="other", created_at=3)
    assert await listed(me) == ["ours", "nobodys"]
    assert await listed(me, ids=(theirs,)) == ["theirs"]


async def test_thousands_of_ids(me: Process) -> None:
    """“Empty tuples mean no restriction”: a full one may be long."""
    batch = [rows.direct() for _ in range(1000)]
    await me.start(*batch)
    ids = tuple(run.workflow_id for run in batch)
    assert set(await listed(me, ids=ids, limit=5000)) == set(ids)


async def test_values_of_a_filter_are_never_sql(site: Site, me: Process) -> None:
    """“The rows matching the filter”: its texts are compared, not executed."""
    evil = "x'); DROP TABLE workflow_status; --"
    await site.foreign(evil, name=evil, queue_name=evil, parent_workflow_id=evil, created_at=1)
    await site.foreign("other", created_at=2)
    assert await listed(me, ids=(rows.wid(evil),)) == [evil]
    assert await listed(me, names=(evil,)) == [evil]
    assert await listed(me, queues=(evil,)) == [evil]
    assert await listed(me, parents=(rows.wid(evil),)) == [evil]
    assert await listed(me, id_prefixes=(evil,)) == [evil]
    assert len(await listed(me)) == 2


async def test_odd_rows_never_break_a_listing(site: Site, me: Process) -> None:
    """“A workflow as a reader sees it”: whatever another program left there."""
    good = await me.running("good")
    await site.foreign("nameless", name=None, class_name=None, recovery_attempts=None)
    await site.foreign("bare", queue_name=None, serialization=None, executor_id=None)
    await site.foreign("stateless", status=None)
    await site.foreign("unknown state", status="PAUSED")
    await site.foreign("", status="SUCCESS", name="")
    await site.foreign("odd json", attributes="[1]", authenticated_roles="not json")
    found = {row.workflow_id: row for row in await me.store.list_workflows(ListingRequest())}
    assert {good.workflow_id, "nameless", "bare", "", "odd json"} <= set(found)
    assert found[rows.wid("nameless")].key == WorkflowKey("")
    assert found[rows.wid("nameless")].attempts == 0
    assert found[rows.wid("odd json")].authenticated_roles == "not json"


async def test_odd_rows_do_not_end_a_listing_early(site: Site, me: Process) -> None:
    """“at most its limit”: an empty page is the end, so rows nobody can show must not make one."""
    await site.foreign("before", created_at=BASE)
    for number in range(5):
        await site.foreign(f"odd-{number}", status="PAUSED", created_at=BASE + 1 + number)
    await site.foreign("behind", created_at=BASE + 10)
    flat = [workflow_id for page in await pages(me, limit=2) for workflow_id in page]
    assert [w for w in flat if not w.startswith("odd")] == ["before", "behind"]
