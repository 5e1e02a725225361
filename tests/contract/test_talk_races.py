"""What workflows say beside others, on Postgres: locked rows, rivals, and answers that got lost."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from perdure.model.answer import AnswerKind
from perdure.model.talk import Key, Receiving, Topic
from perdure.model.wire import NULL_TOPIC
from perdure.model.workflow import NewWorkflow
from perdure.ports.store.streams import Reading, StreamPage
from tests.contract.test_busy import held, waiters
from tests.contract.test_unknown_outcome import CUT, cut
from tests.support import rows
from tests.support.database import PostgresDatabase
from tests.support.proxy import FaultProxy
from tests.support.races import race
from tests.support.store import Process, Site, kinds, open_site
from tests.support.waiting import eventually

WRITTEN, MINE, BUSY = AnswerKind.WRITTEN, AnswerKind.MINE, AnswerKind.BUSY
LOST = AnswerKind.LOST
ROUNDS = 150


@pytest.fixture
async def proxy(postgres_database: PostgresDatabase) -> AsyncIterator[FaultProxy]:
    """What stands between the store and its server."""
    async with FaultProxy(postgres_database.url) as opened:
        yield opened


@pytest.fixture
async def site(postgres_database: PostgresDatabase, proxy: FaultProxy) -> AsyncIterator[Site]:
    """A site whose stores go through the proxy, and whose backdoor does not."""
    behind = PostgresDatabase(proxy.url(postgres_database.url))
    async with open_site(behind, postgres_database.backdoor()) as opened:
        yield opened


async def test_what_a_locked_run_says_is_busy(site: Site, me: Process) -> None:
    """“*busy*: the run's row is locked by someone”: its neighbours in the batch are written."""
    locked, free = await me.running(), await me.running()
    pair = (locked, free)
    await me.store.send([rows.sending(*[rows.message(run) for run in pair])])
    sent = [rows.sending(rows.message(free), caller=rows.checkpoint(run, 1)) for run in pair]
    received = [rows.receiving(run, 2) for run in pair]
    published = [rows.event(run, 3) for run in pair]
    appended = [rows.appending(run, 4) for run in pair]
    appended += [rows.appending_inside(run, 5) for run in pair]
    closed = [rows.closing(run, 7, (rows.checkpoint(run, 6),), (2,)) for run in pair]
    async with held(site, locked.workflow_id):
        assert kinds(await me.store.send(sent)) == [BUSY, WRITTEN]
        assert kinds(await me.store.receive(received)) == [BUSY, WRITTEN]
        assert kinds(await me.store.receive(received[:1])) == [BUSY]
        assert kinds(await me.store.publish(published)) == [BUSY, WRITTEN]
        assert kinds(await me.store.append(appended)) == [BUSY, WRITTEN] * 2
        assert kinds(await me.store.close_scopes(closed)) == [BUSY, WRITTEN]
        assert await site.steps(locked.workflow_id) == []
    assert kinds(await me.store.send(sent)) == [WRITTEN, MINE]
    assert kinds(await me.store.receive(received[:1])) == [WRITTEN]
    assert kinds(await me.store.publish(published)) == [WRITTEN, MINE]
    assert kinds(await me.store.append(appended)) == [WRITTEN, MINE] * 2
    assert kinds(await me.store.close_scopes(closed)) == [WRITTEN, MINE]


async def test_a_destination_under_way_can_be_written_to(site: Site, me: Process) -> None:
    """“*busy* and *lost*: … about the caller's run”: what a run does locks nobody out."""
    run = await me.running()
    lock = "SELECT 1 FROM workflow_status WHERE workflow_uuid = ? FOR NO KEY UPDATE"
    async with site.postgres.transaction(lock, run.workflow_id):
        assert kinds(await me.store.send([rows.sending(rows.message(run))])) == [WRITTEN]


async def test_a_destination_being_deleted_delays_nobody(site: Site, me: Process) -> None:
    """“Store messages, each item's all or none”: whether that one exists is known later."""
    doomed, other = await me.running(), await me.running()
    batch = [rows.sending(rows.message(run)) for run in (doomed, other)]
    lone = [rows.sending(rows.message(doomed))]
    async with held(site, doomed.workflow_id):
        assert kinds(await me.store.send(batch)) == [BUSY, WRITTEN]
        assert kinds(await me.store.send(lone)) == [BUSY]
    assert kinds(await me.store.send(batch)) == [WRITTEN, MINE]
    assert kinds(await me.store.send(lone)) == [WRITTEN]


async def test_a_message_somebody_has_locked_is_passed_over(site: Site, me: Process) -> None:
    """“Two items of one run and topic take different messages”: so do two receivers."""
    run = await me.running()
    await me.store.send([rows.sending(rows.message(run, "1"), rows.message(run, "2"))])
    lock = "SELECT 1 FROM notifications WHERE message = '1' FOR UPDATE"
    async with site.postgres.transaction(lock):
        answers = await me.store.receive([rows.receiving(run, 1), rows.receiving(run, 2)])
        found = [answer.standing.output if answer.standing else None for answer in answers]
        assert found == ["2", None]
        await me.store.send([rows.sending(rows.message(run, "3"))])
        assert await taken(me, rows.receiving(run, 3)) == "3"
        assert await taken(me, rows.receiving(run, 4)) is None
    assert await taken(me, rows.receiving(run, 5)) == "1"


async def taken(process: Process, item: Receiving) -> str | None:
    """What a lone receiver takes."""
    (answer,) = await process.store.receive([item])
    assert answer.kind is WRITTEN
    return answer.standing.output if answer.standing else None


@pytest.mark.parametrize("beside", [0, 1])
async def test_a_step_recorded_meanwhile_leaves_the_message(
    site: Site, me: Process, beside: int
) -> None:
    """“*conflict*, …: as for `record`”: by a program that asks nobody whose run it is."""
    run, other = await me.running(), await me.running()
    await me.store.send([rows.sending(rows.message(run, "m"))])
    items = [rows.receiving(run), *[rows.receiving(other)] * beside]
    connection = await site.postgres.connect()
    try:
        async with connection.transaction():
            await connection.execute(
                "INSERT INTO operation_outputs (workflow_uuid, function_id, function_name)"
                " VALUES ($1, 1, 'other')",
                run.workflow_id,
            )
            receiving = asyncio.create_task(me.store.receive(items))
            await eventually(lambda: waiters(site))
    finally:
        await connection.close()
    assert kinds(await receiving) == [AnswerKind.CONFLICT, *[WRITTEN] * beside]
    assert await taken(me, rows.receiving(run, 2)) == "m"


@pytest.mark.parametrize("reader", ["topics", "events", "events_of", "pages"])
async def test_a_reader_takes_no_lock(site: Site, me: Process, reader: str) -> None:
    """“One statement”: that waits for nobody."""
    run = await me.running()
    key = Key(run.workflow_id, "key")
    reads: dict[str, Any] = {
        "topics": lambda: me.store.topics_with_messages([Topic(run.workflow_id, NULL_TOPIC)]),
        "events": lambda: me.store.events([key]),
        "events_of": lambda: me.store.events_of(run.workflow_id),
        "pages": lambda: me.store.stream_pages([Reading(key, 0, 1)]),
    }
    async with held(site, run.workflow_id):
        await reads[reader]()


async def test_no_message_is_taken_twice(site: Site, me: Process) -> None:
    """“the first (…) becomes consumed, with the step's id”: whoever asks beside it."""
    other = await site.process()
    run = await me.running()
    for number in range(ROUNDS):
        await me.store.send([rows.sending(rows.message(run, str(number)))])
        mine, theirs = (rows.receiving(run, 2 * number + each) for each in (1, 2))
        answers = await race(
            number, partial(me.store.receive, [mine]), partial(other.store.receive, [theirs])
        )
        taken = [answer for (answer,) in answers if answer.standing is not None]
        if not taken:
            # Each found the other's lock.
            taken = await me.store.receive([mine])
        assert [answer.standing.output for answer in taken] == [str(number)]
    steps = await site.steps(run.workflow_id)
    assert [step["output"] for step in steps] == [str(number) for number in range(ROUNDS)]


async def test_rivals_with_the_same_messages_wait_for_each_other_in_no_circle(
    site: Site, me: Process
) -> None:
    """“A message whose id stands already is left as it is”: in whatever order they come."""
    other = await site.process()
    runs = [await me.running() for _ in range(4)]
    for number in range(ROUNDS):
        sent = [rows.message(run) for run in runs]
        forth, back = rows.sending(*sent), rows.sending(*reversed(sent))
        answers = await race(
            number, partial(me.store.send, [forth]), partial(other.store.send, [back])
        )
        assert sorted(kinds([answer for (answer,) in answers]), key=str) == [MINE, WRITTEN]


async def test_writers_of_one_stream_leave_no_gap(site: Site, me: Process) -> None:
    """“writers of one run follow each other and offsets have no gaps”: of two processes, too."""
    other = await site.process()
    run = await me.running()
    for number in range(ROUNDS):
        items = [rows.appending_inside(run, 1, value=f"{number}") for _ in range(2)]
        answers = await race(
            number, partial(me.store.append, items[:1]), partial(other.store.append, items[1:])
        )
        for item, (answer,) in zip(items, answers, strict=True):
            if answer.kind is BUSY:
                assert kinds(await me.store.append([item])) == [WRITTEN]
    (page,) = await me.store.stream_pages([Reading(Key(run.workflow_id, "key"), 0, 10_000)])
    assert [row.offset for row in page.rows] == list(range(2 * ROUNDS))
    assert [row.value for row in page.rows] == [str(n) for n in range(ROUNDS) for _ in range(2)]


async def ended(process: Process, run: NewWorkflow, reading: Reading) -> list[StreamPage]:
    """What the reader finds once the run is cancelled."""
    await process.cancel([run.workflow_id])
    return await process.store.stream_pages([reading])


async def test_a_cancel_and_a_value_exclude_each_other(site: Site, me: Process) -> None:
    """“A workflow that was seen as ended appended nothing after that moment”."""
    other = await site.process()
    for number in range(ROUNDS):
        run = await me.running()
        reading = Reading(Key(run.workflow_id, "key"), 0, 10)
        item = rows.appending_inside(run)

        (answer,), pages = await race(
            number, partial(me.store.append, [item]), partial(ended, other, run, reading)
        )
        assert answer.kind in (WRITTEN, LOST, BUSY)
        assert len(pages[0].rows) == (1 if answer.kind is WRITTEN else 0)
        assert await me.store.stream_pages([reading]) == pages


@CUT
async def test_a_cut_send(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“every message stands under its id”; “the caller's row stands”."""
    run = await me.running()
    await me.store.send([rows.sending(rows.message(run))])
    batch = [
        rows.sending(rows.message(run), rows.message(run)),
        rows.sending(rows.message(run), caller=rows.checkpoint(run)),
    ]
    await cut(proxy, committed, lambda: me.store.send(batch))
    assert kinds(await me.store.send(batch)) == [MINE if committed else WRITTEN] * 2
    (found,) = await site.backdoor.rows("SELECT count(*) AS n FROM notifications")
    assert found["n"] == 4


@CUT
async def test_a_cut_send_of_one_message(
    site: Site, me: Process, proxy: FaultProxy, committed: bool
) -> None:
    """“every message stands under its id”."""
    run = await me.running()
    await me.store.send([rows.sending(rows.message(run, "warm"))])
    item = rows.sending(rows.message(run, "sent"))
    await cut(proxy, committed, lambda: me.store.send([item]))
    assert kinds(await me.store.send([item])) == [MINE if committed else WRITTEN]
    found = [await taken(me, rows.receiving(run, step)) for step in (1, 2, 3)]
    assert found == ["warm", "sent", None]


@CUT
async def test_a_cut_receive(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“*mine*: the step id holds a row of that name (a repeated try's, shown in `standing`)”."""
    run = await me.running()
    await me.store.receive([rows.receiving(run)])
    await me.store.send([rows.sending(rows.message(run, "1"), rows.message(run, "2"))])
    item = rows.receiving(run)
    await cut(proxy, committed, lambda: me.store.receive([item]))
    (answer,) = await me.store.receive([item])
    assert answer.kind is (MINE if committed else WRITTEN)
    assert answer.standing is not None
    assert answer.standing.output == "1"
    (next_one,) = await me.store.receive([rows.receiving(run, 2)])
    assert next_one.standing is not None
    assert next_one.standing.output == "2"


@CUT
async def test_a_cut_value(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“every method is safe to repeat after an unknown outcome”: events and stream values."""
    run = await me.running()
    await me.store.publish([rows.event(run, 1)])
    await me.store.append([rows.appending(run, 2)])
    expected = MINE if committed else WRITTEN
    event = rows.event(run, 3, value="set")
    await cut(proxy, committed, lambda: me.store.publish([event]))
    assert kinds(await me.store.publish([event])) == [expected]
    assert [row.value for row in await me.store.events_of(run.workflow_id)] == ["set"]
    batch = [rows.appending(run, 4, value="a"), rows.appending_inside(run, 5, value="b")]
    await cut(proxy, committed, lambda: me.store.append(batch))
    assert kinds(await me.store.append(batch)) == [expected] * 2
    (page,) = await me.store.stream_pages([Reading(Key(run.workflow_id, "key"), 1, 10)])
    assert [row.value for row in page.rows] == ["a", "b"]


@CUT
async def test_a_cut_close(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“every method is safe to repeat after an unknown outcome”: what was put back may be taken
    by then."""
    run = await me.running()
    await me.store.send([rows.sending(rows.message(run))])
    await me.store.receive([rows.receiving(run, 5)])
    item = rows.closing(run, 2, (rows.checkpoint(run),), (5,))
    await cut(proxy, committed, lambda: me.store.close_scopes([item]))
    if committed:
        await me.store.receive([rows.receiving(run, 5)])
    assert kinds(await me.store.close_scopes([item])) == [MINE if committed else WRITTEN]
    steps = [step["function_id"] for step in await site.steps(run.workflow_id)]
    assert steps == ([1, 2, 5] if committed else [1, 2])


async def test_many_processes_talk_at_once(site: Site, me: Process) -> None:
    """“messages of one destination and topic are received in the order of `created_at`”: what one
    sender sent comes in its order, whoever sends beside it."""
    others = [await site.process() for _ in range(3)]
    run = await me.running()

    async def speak(number: int, process: Process) -> None:
        for turn in range(40):
            await process.store.send([rows.sending(rows.message(run, f"{number} {turn:02}"))])

    await asyncio.gather(*[speak(number, process) for number, process in enumerate(others)])
    answers = await me.store.receive([rows.receiving(run, step) for step in range(1, 121)])
    heard = [str(answer.standing.output) for answer in answers if answer.standing]
    for number in range(3):
        own = [text for text in heard if text.startswith(f"{number} ")]
        assert own == [f"{number} {turn:02}" for turn in range(40)]
