"""What an operation costs in statements, counted on the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from perdure.model.answer import AnswerKind
from perdure.model.management import Cancel, Delete, Fork, ForkItem, LastStep, Resume
from perdure.model.queue import Rate
from perdure.model.talk import Key, Topic
from perdure.model.workflow import Fence
from perdure.ports.store.streams import Reading
from perdure.store.postgres.steps import OPTIMISTIC_FROM, PAGE
from tests.support import rows
from tests.support.database import PostgresDatabase
from tests.support.proxy import FaultProxy
from tests.support.store import Process, Site, kinds, open_site

BATCHES = pytest.mark.parametrize("count", [1, OPTIMISTIC_FROM, 100])


class Wire:
    """What a store says to its server."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.heard: list[str] = []
        proxy.cut_request(self._hear)

    def _hear(self, text: str) -> bool:
        self.heard.append(text)
        return False

    async def count(self, call: Callable[[], Awaitable[Any]]) -> int:
        """The number of statements one call makes."""
        before = len(self.heard)
        await call()
        return len(self.heard) - before


@pytest.fixture
async def proxy(postgres_database: PostgresDatabase) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(postgres_database.url) as opened:
        yield opened


@pytest.fixture
def wire(proxy: FaultProxy) -> Wire:
    return Wire(proxy)


@pytest.fixture
async def site(postgres_database: PostgresDatabase, proxy: FaultProxy) -> AsyncIterator[Site]:
    behind = PostgresDatabase(proxy.url(postgres_database.url))
    async with open_site(behind, postgres_database.backdoor()) as opened:
        yield opened


@pytest.fixture
async def me(site: Site) -> Process:
    return await site.process()


@BATCHES
async def test_a_life_is_three_statements(me: Process, wire: Wire, count: int) -> None:
    warm = await me.running()
    await me.store.record([rows.checkpoint(warm)])
    await me.store.finish([rows.finish(warm)])
    runs = [rows.direct() for _ in range(count)]
    starts = rows.starts(*runs)
    assert await wire.count(lambda: me.store.start(starts, me.executor)) == 1
    steps = [rows.checkpoint(run) for run in runs]
    assert await wire.count(lambda: me.store.record(steps)) == 1
    endings = [rows.finish(run) for run in runs]
    assert await wire.count(lambda: me.store.finish(endings)) == 1


@BATCHES
async def test_children_are_one_statement_with_their_parents_steps(
    me: Process, wire: Wire, count: int
) -> None:
    parents = [await me.running() for _ in range(2)]
    batch = [rows.child_of(parents[n % 2], 1 + n, rows.direct()) for n in range(count)]
    assert await wire.count(lambda: me.store.start(batch, me.executor)) == 1


async def test_a_claim_is_one_statement(me: Process, wire: Wire) -> None:
    await me.waiting()
    await me.open_queue()
    request = rows.claim(me.executor, version=me.version)
    assert await wire.count(lambda: me.store.claim(request)) == 1


async def test_a_claim_under_locks_is_three_statements_in_a_transaction(
    site: Site, me: Process, wire: Wire
) -> None:
    """However many queues there are, and one more if any is partitioned."""
    names = ["a", "b", "c"]
    for name in names:
        await me.queue(name, concurrency=2, rate=Rate(2, 60.0))
        for _ in range(3):
            await me.waiting(queue_name=name)
    assert await wire.count(lambda: me.claim_shared(*names)) == 5
    # They are full now: there is nothing to claim.
    assert await wire.count(lambda: me.claim_shared(*names)) == 4
    await me.queue("d", partition_concurrency=1, partitioned=True)
    await me.waiting(queue_name="d", partition_key="p")
    assert await wire.count(lambda: me.claim_shared(*names, "d")) == 6
    async with site.postgres.transaction("SELECT FROM queues FOR UPDATE"):
        assert await wire.count(lambda: me.claim_shared(*names)) == 3


async def test_a_sweep_is_one_transaction_whatever_it_finds(
    site: Site, me: Process, wire: Wire
) -> None:
    for _ in range(3):
        await me.waiting(delay_ms=1000)
        await me.waiting(deadline_ms=1)
    site.clock.advance(1000)
    assert await wire.count(me.sweep) == 6


@BATCHES
async def test_a_command_is_few_statements_in_a_transaction(
    me: Process, wire: Wire, count: int
) -> None:
    """One locks, one looks at each level of a tree, one changes each kind of row; two are for its
    step, of which a repeated try needs the first."""
    roots = [await me.running() for _ in range(count)]
    for root in roots:
        await me.start(rows.child_of(root, 1, rows.enqueued()))
    ids = tuple(root.workflow_id for root in roots)
    boss = await me.running()
    command = partial(me.store.manage, Cancel(ids, children=True), rows.caller(boss))
    assert await wire.count(lambda: me.managed(Cancel(ids))) == 4
    assert await wire.count(lambda: me.managed(Resume(ids))) == 4
    assert await wire.count(command) == 8
    assert await wire.count(command) == 4
    assert await wire.count(lambda: me.managed(Delete(ids, children=True))) == 10


async def test_hints_are_one_statement(me: Process, wire: Wire) -> None:
    assert await wire.count(lambda: me.store.announce([])) == 0
    assert await wire.count(lambda: me.store.announce(["a", "b", "c"])) == 1


async def test_what_stood_in_the_way_is_looked_up_by_one_more(me: Process, wire: Wire) -> None:
    runs = [await me.running() for _ in range(3)]
    steps = [rows.checkpoint(run) for run in runs]
    await me.store.record(steps[:1])
    assert await wire.count(lambda: me.store.record(steps)) == 2


async def test_a_step_in_the_way_of_many_costs_one_more_try(me: Process, wire: Wire) -> None:
    run = await me.running()
    steps = [rows.checkpoint(run, number) for number in range(1, OPTIMISTIC_FROM + 1)]
    await me.store.record(steps[:1])
    answers = []

    async def record() -> None:
        answers.extend(await me.store.record(steps))

    assert await wire.count(record) == 3
    assert kinds(answers) == [AnswerKind.MINE, *[AnswerKind.WRITTEN] * (OPTIMISTIC_FROM - 1)]


@BATCHES
async def test_what_workflows_say_is_one_statement(me: Process, wire: Wire, count: int) -> None:
    runs = [await me.running() for _ in range(3)]
    each = [(runs[n % 3], 10 + n) for n in range(count)]
    store = me.store
    sent = [rows.sending(rows.message(run)) for run, _ in each]
    assert await wire.count(lambda: store.send(sent)) == 1
    sent = [
        rows.sending(rows.message(run), caller=rows.checkpoint(run, step), to_forks=True)
        for run, step in each
    ]
    assert await wire.count(lambda: store.send(sent)) == 1
    received = [rows.receiving(run, 1000 + step) for run, step in each]
    assert await wire.count(lambda: store.receive(received)) == 1
    published = [rows.event(run, 2000 + step) for run, step in each]
    assert await wire.count(lambda: store.publish(published)) == 1
    appended = [rows.appending(run, 3000 + step) for run, step in each]
    appended += [rows.appending_inside(run, 4000 + step) for run, step in each]
    assert await wire.count(lambda: store.append(appended)) == 1
    closed = [
        rows.closing(
            run, 6000 + step, openings=(rows.checkpoint(run, 5000 + step),), put_back=(1000 + step,)
        )
        for run, step in each
    ]
    assert await wire.count(lambda: store.close_scopes(closed)) == 1


async def test_why_nothing_was_said_costs_two_more_at_most(me: Process, wire: Wire) -> None:
    run = await me.running()
    store = me.store
    sent = [
        rows.sending(rows.message(run), caller=rows.checkpoint(run, 1)),
        rows.sending(rows.message(rows.wid())),
    ]
    assert await wire.count(lambda: store.send(sent)) == 2
    assert await wire.count(lambda: store.send(sent)) == 3
    appended = [rows.appending(run, 2), rows.appending_inside(run, 3)]
    await store.append(appended)
    assert await wire.count(lambda: store.append(appended)) == 3
    closed = [rows.closing(run, 5, openings=(rows.checkpoint(run, 4),))]
    await store.close_scopes(closed)
    assert await wire.count(lambda: store.close_scopes(closed)) == 2


async def test_looking_for_what_was_said_is_one_statement(me: Process, wire: Wire) -> None:
    runs = [await me.running() for _ in range(20)]
    topics = [Topic(run.workflow_id, "topic") for run in runs]
    assert await wire.count(lambda: me.store.topics_with_messages(topics)) == 1
    keys = [Key(run.workflow_id, "key") for run in runs]
    assert await wire.count(lambda: me.store.events(keys)) == 1
    readings = [Reading(key, 0, 10) for key in keys]
    assert await wire.count(lambda: me.store.stream_pages(readings)) == 1
    assert await wire.count(lambda: me.store.announce_talk(keys, keys)) == 1
    assert await wire.count(lambda: me.store.announce_talk([], [])) == 0


async def test_a_heartbeat_is_one_statement(me: Process, wire: Wire) -> None:
    await me.waiting()
    assert await wire.count(me.beat) == 1


async def test_waiting_for_many_is_one_statement(me: Process, wire: Wire) -> None:
    runs = [await me.running() for _ in range(50)]
    ids = [run.workflow_id for run in runs]
    assert await wire.count(lambda: me.store.settled(ids)) == 1
    fences = [Fence(run.workflow_id, run.creator) for run in runs]
    assert await wire.count(lambda: me.store.lost(fences)) == 1


async def test_histories_come_in_bounded_pages(site: Site, me: Process, wire: Wire) -> None:
    short, long = await me.running(), await me.running()
    await me.store.record([rows.checkpoint(short, 2), rows.checkpoint(short, 1)])
    assert await wire.count(lambda: me.store.history([short.workflow_id, "none"])) == 1
    await site.backdoor.run(
        "INSERT INTO operation_outputs (workflow_uuid, function_id)"
        " SELECT ?, i FROM generate_series(1, ?::int) i",
        long.workflow_id,
        PAGE * 2 + 1,
    )
    found = {}

    async def history() -> None:
        found.update(await me.store.history([short.workflow_id, long.workflow_id]))

    # Both do not fit into a page; the short one does; the long one takes three.
    assert await wire.count(history) == 5
    assert [step.step_id for step in found[short.workflow_id]] == [1, 2]
    assert [step.step_id for step in found[long.workflow_id]] == list(range(1, PAGE * 2 + 2))


async def test_forks_are_as_many_statements_as_one(me: Process, wire: Wire) -> None:
    """However many sources and forks there are: one for each kind of row."""
    sources = [await me.running() for _ in range(10)]
    counts = []
    for count in (1, 100):
        items = [
            ForkItem(sources[n % 10].workflow_id, rows.wid(rows.fresh("fork")), LastStep.FAILED)
            for n in range(count)
        ]
        await me.store.record([rows.checkpoint(run, count) for run in sources])
        command = Fork(tuple(items))
        counts.append(await wire.count(lambda command=command: me.managed(command)))
    assert counts[0] == counts[1] <= 14
