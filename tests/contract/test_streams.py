"""`StreamStore`: values appended in order, once each, and followed by readers."""

import pytest

from perdure.errors import DatabaseRejected
from perdure.model.answer import AnswerKind
from perdure.model.status import WorkflowState
from perdure.model.talk import Key, StreamRow
from perdure.model.wire import PORTABLE_JSON, STREAM_CLOSED
from perdure.model.workflow import Fence, NewWorkflow
from perdure.ports.store.streams import Reading, StreamPage
from perdure.store.rows import recorded_step
from tests.support import rows
from tests.support.store import Process, Site, kinds

WRITTEN, MINE = AnswerKind.WRITTEN, AnswerKind.MINE
CONFLICT, LOST = AnswerKind.CONFLICT, AnswerKind.LOST


async def stream(me: Process, run: NewWorkflow, key: str = "key") -> list[StreamRow]:
    """Every value of a stream."""
    (page,) = await me.store.stream_pages([Reading(Key(run.workflow_id, key), 0, 10_000)])
    return list(page.rows)


async def values(me: Process, run: NewWorkflow, key: str = "key") -> list[str]:
    """Every value of a stream, whose offsets have no gaps."""
    found = await stream(me, run, key)
    assert [row.offset for row in found] == list(range(len(found)))
    return [row.value for row in found]


async def test_a_value_is_appended_with_its_step(site: Site, me: Process) -> None:
    """“Append values, each at the next offset of its key”; “An item with a caller is answered like
    `record`”."""
    run = await me.running()
    item = rows.appending(run, 4, "out", '{"π":1}', name="write")
    assert kinds(await me.store.append([item])) == [WRITTEN]
    assert await stream(me, run, "out") == [StreamRow(0, '{"π":1}', PORTABLE_JSON, item.step_id)]
    assert item.caller is not None
    history = await me.store.history([run.workflow_id])
    assert history[run.workflow_id] == [recorded_step(item.caller)]
    assert await site.own("stream_log") == []


async def test_an_append_inside_a_step_is_logged(site: Site, me: Process) -> None:
    """“an append with its `append_id` is logged in our own schema, which a *written* one does in
    the same transaction”: there is no step's row to write."""
    run = await me.running()
    item = rows.appending_inside(run, 4, value="v")
    assert kinds(await me.store.append([item])) == [WRITTEN]
    assert await stream(me, run) == [StreamRow(0, "v", PORTABLE_JSON, item.step_id)]
    assert await site.steps(run.workflow_id) == []
    assert await site.own("stream_log") == [
        {"workflow_id": run.workflow_id, "append_id": item.append_id}
    ]


async def test_offsets_follow_each_other_in_the_order_of_the_items(me: Process) -> None:
    """“each at the next offset of its key, in the order of the items”: from bodies and from inside
    steps, over several batches."""
    one, two = await me.running(), await me.running()
    for batch in range(3):
        first = batch * 10
        items = [
            make(run, first + number, key, f"{first + number}")
            for number, make in enumerate(
                (rows.appending, rows.appending_inside, rows.appending, rows.appending_inside), 1
            )
            for run in (one, two)
            for key in (("a", "b") if make is rows.appending_inside else ("a",))
        ]
        assert kinds(await me.store.append(items)) == [WRITTEN] * len(items)
    for run in (one, two):
        assert await values(me, run, "a") == [str(b + n) for b in (0, 10, 20) for n in (1, 2, 3, 4)]
        assert await values(me, run, "b") == [str(b + n) for b in (0, 10, 20) for n in (2, 4)]


async def test_offsets_go_on_after_what_others_wrote(site: Site, me: Process) -> None:
    """“at the next offset of its key”: the highest there is, and one more."""
    run = await me.running()
    for offset in (0, 7):
        theirs = {"workflow_uuid": run.workflow_id, "key": "key", "value": "v", '"offset"': offset}
        await site.insert("streams", **theirs)
    await me.store.append([rows.appending(run)])
    found = await stream(me, run)
    assert [(row.offset, row.serialization, row.step_id) for row in found] == [
        (0, None, 0),
        (7, None, 0),
        (8, PORTABLE_JSON, 1),
    ]


async def test_a_closed_stream_is_not_the_stores_business(me: Process) -> None:
    """“Append values”: what closes a stream is a value like any other."""
    run = await me.running()
    texts = ["1", f'"{STREAM_CLOSED}"', "2"]
    await me.store.append([rows.appending(run, n, value=text) for n, text in enumerate(texts, 1)])
    assert await values(me, run) == texts


async def test_a_repeated_append_is_mine(site: Site, me: Process) -> None:
    """“One from inside a step is *mine* if an append with its `append_id` is logged”, whoever owns
    the run by then."""
    run = await me.running()
    batch = [rows.appending(run, 1), rows.appending_inside(run, 2), rows.appending(run, 3)]
    assert kinds(await me.store.append(batch)) == [WRITTEN] * 3
    assert kinds(await me.store.append(batch)) == [MINE] * 3
    await site.update(run.workflow_id, owner_xid="the next owner")
    assert kinds(await me.store.append(batch)) == [MINE] * 3
    assert len(await values(me, run)) == 3


async def test_an_append_id_holds_for_its_run(me: Process) -> None:
    """“an append with its `append_id`”: of that workflow."""
    one, two = await me.running(), await me.running()
    item = rows.appending_inside(one)
    same = item._replace(workflow_id=two.workflow_id, owner=two.creator)
    assert kinds(await me.store.append([item, same])) == [WRITTEN, WRITTEN]


async def test_one_batch_can_hold_every_answer(site: Site, me: Process) -> None:
    """“Answers in the order of the items”: what is not written leaves no gap."""
    run, lost = await me.running(), await me.running()
    logged, recorded = rows.appending_inside(run, 2), rows.appending(run, 1)
    other = rows.checkpoint(run, 3, name="other")
    await me.store.append([logged, recorded])
    await me.store.record([other])
    await me.cancel([lost.workflow_id])
    fresh = rows.appending_inside(run, 5, value="5")
    answers = await me.store.append(
        [
            logged,
            rows.appending(run, 4, value="4"),
            rows.appending_inside(lost),
            rows.appending(run, 3, value="no"),
            rows.appending(lost),
            fresh,
            recorded,
            fresh,
            rows.appending_inside(Fence(run.workflow_id, rows.token()), 6),
        ]
    )
    assert kinds(answers) == [MINE, WRITTEN, LOST, CONFLICT, LOST, WRITTEN, MINE, MINE, LOST]
    assert answers[3].standing == recorded_step(other)
    assert await values(me, run) == ["1", "1", "4", "5"]
    assert await values(me, lost) == []
    assert len(await site.own("stream_log")) == 2


async def test_a_value_the_database_cannot_store_appends_nothing(site: Site, me: Process) -> None:
    """“A value the database cannot store raises `DatabaseRejected` with nothing written”."""
    run = await me.running()
    with pytest.raises(DatabaseRejected):
        await me.store.append([rows.appending_inside(run), rows.appending(run, value="\ud800")])
    assert await values(me, run) == []
    assert await site.own("stream_log") == []


async def test_many_values_of_many_runs_in_one_batch(me: Process) -> None:
    """“Append values”: a thousand at once."""
    runs = [rows.direct() for _ in range(20)]
    await me.start(*runs)
    batch = [rows.appending_inside(run, 1, value=str(n)) for n in range(50) for run in runs]
    assert kinds(await me.store.append(batch)) == [WRITTEN] * 1000
    for run in runs:
        assert await values(me, run) == [str(n) for n in range(50)]


async def test_readers_get_what_they_want_in_the_order_asked(site: Site, me: Process) -> None:
    """“What each reader wants, in the order asked”: at most `limit` values from `offset` on."""
    run, empty = await me.running(), await me.running()
    texts = [str(n) for n in range(5)]
    await me.store.append([rows.appending_inside(run, 1, value=text) for text in texts])
    await me.store.append([rows.appending_inside(run, 1, "other", "x")])
    ended = await site.foreign(status="ERROR")
    odd = await site.foreign(status="ODD")
    key = Key(run.workflow_id, "key")
    pages = await me.store.stream_pages(
        [
            Reading(key, 3, 10),
            Reading(Key(rows.wid(), "key"), 0, 10),
            Reading(key, 0, 2),
            Reading(key, 5, 10),
            Reading(Key(empty.workflow_id, "key"), 0, 10),
            Reading(Key(ended, "key"), 0, 10),
            Reading(Key(odd, "key"), 0, 10),
            Reading(key, 0, 2),
        ]
    )
    assert [[row.value for row in page.rows] for page in pages] == [
        ["3", "4"],
        [],
        ["0", "1"],
        [],
        [],
        [],
        [],
        ["0", "1"],
    ]
    assert [page.state for page in pages] == [
        WorkflowState.PENDING,
        None,
        *[WorkflowState.PENDING] * 3,
        WorkflowState.ERROR,
        # Of a newer schema: none that is known to be an end.
        WorkflowState.PENDING,
        WorkflowState.PENDING,
    ]


async def test_what_ended_appends_no_more(me: Process) -> None:
    """“A workflow that was seen as ended appended nothing after that moment”."""
    run = await me.running()
    await me.store.append([rows.appending(run)])
    await me.store.finish([rows.finish(run)])
    reading = Reading(Key(run.workflow_id, "key"), 0, 10)
    before = await me.store.stream_pages([reading])
    assert before[0].state is WorkflowState.SUCCESS
    late = [rows.appending(run, 2), rows.appending_inside(run, 2)]
    assert kinds(await me.store.append(late)) == [LOST, LOST]
    assert await me.store.stream_pages([reading]) == before


async def test_empty_batches_have_no_answers(me: Process) -> None:
    """“What each reader wants”."""
    assert await me.store.append([]) == []
    assert await me.store.stream_pages([]) == []


async def test_a_stream_without_values_is_a_page_without(me: Process) -> None:
    """“`state` is None if there is no such workflow”."""
    run = await me.running()
    readings = [Reading(Key(each, "key"), 0, 1) for each in (run.workflow_id, rows.wid())]
    assert await me.store.stream_pages(readings) == [
        StreamPage((), WorkflowState.PENDING),
        StreamPage((), None),
    ]
