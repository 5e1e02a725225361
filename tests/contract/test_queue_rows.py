"""`QueueStore`: queues are registered, read, changed, paused and deleted."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from perdure.model.queue import QueueRow, QueueSettings, Rate
from perdure.model.wire import FOREIGN_INTERNAL_QUEUE, INTERNAL_QUEUES
from tests.support import rows
from tests.support.backdoor import Row
from tests.support.store import Process, Site

FULL = rows.queue(
    worker=4,
    concurrency=9,
    rate=Rate(8, 0.25),
    partition_worker=2,
    partition_concurrency=3,
    partition_rate=Rate(2, 1.5),
    partitioned=True,
    priority_enabled=False,
    base_polling_interval_s=0.5,
    max_polling_interval_s=7.25,
)


class Refused(Exception):
    """What a decision raises."""


def refuse(*_: Any) -> Any:
    """A decision that cannot be made."""
    raise Refused


def leave(standing: QueueRow | None, is_latest: bool) -> None:
    """The decision to leave the row as it is."""


async def stored(site: Site, name: str = rows.QUEUE) -> Row | None:
    """The row of the shared table."""
    found = await site.backdoor.rows("SELECT * FROM queues WHERE name = ?", name)
    return found[0] if found else None


async def add(site: Site, name: str = rows.QUEUE, **columns: Any) -> None:
    """Register a queue as another program does."""
    values = {"queue_id": f"id-{name}", "name": name, "priority_enabled": True, **columns}
    await site.insert("queues", **values)


async def test_a_registered_queue_has_a_row_of_the_shared_table(site: Site, me: Process) -> None:
    """“Insert … the queue of that name as `decide` says”: every column, as the wire has them."""
    begun = await me.store.now_ms()
    await me.store.register_queue(rows.QUEUE, rows.VERSION, lambda *_: FULL)
    ended = await me.store.now_ms()
    row = await stored(site)
    assert row is not None
    assert row.pop("queue_id")
    assert begun <= row.pop("created_at") <= ended
    assert begun <= row.pop("updated_at") <= ended
    assert row == {
        "name": rows.QUEUE,
        "concurrency": 9,
        "worker_concurrency": 4,
        "rate_limit_max": 8,
        "rate_limit_period_sec": 0.25,
        "priority_enabled": False,
        "partition_queue": True,
        "polling_interval_sec": 0.5,
        "application_name": "app",
        "partition_concurrency": 3,
        "partition_worker_concurrency": 2,
        "partition_rate_limit_max": 2,
        "partition_rate_limit_period_sec": 1.5,
    }


@pytest.mark.parametrize(
    "settings",
    [
        FULL,
        rows.queue(),
        rows.queue(partitioned=True),
        rows.queue(partitioned=True, partition_worker=1),
        rows.queue(concurrency=1, max_polling_interval_s=1.0),
        rows.queue("o'brien::%_ ☃😀", rate=Rate(2**31 - 1, 0.001)),
    ],
)
async def test_settings_read_back_as_they_were_declared(
    me: Process, settings: QueueSettings
) -> None:
    """“Insert or change the queue of that name as `decide` says, and return its row”: also what
    “it has no columns for”."""
    row = await me.store.register_queue(settings.name, rows.VERSION, lambda *_: settings)
    assert (row.settings, row.name) == (settings, settings.name)
    assert (row.application_name, row.paused_at_ms, row.is_paused) == ("app", None, False)
    assert await me.store.queues() == [row]


@pytest.mark.parametrize("limit", ["partition_worker", "partition_concurrency", "partition_rate"])
async def test_the_shared_column_says_whether_a_limit_partitions(
    site: Site, me: Process, limit: str
) -> None:
    """“`partition_queue` is true exactly when any `partition_*` limit is set”."""
    await me.queue("explicit", partitioned=True)
    value = Rate(1, 1.0) if limit == "partition_rate" else 1
    await me.queue("limited", partitioned=True, **{limit: value})
    explicit, limited = await stored(site, "explicit"), await stored(site, "limited")
    assert explicit is not None
    assert limited is not None
    assert (bool(explicit["partition_queue"]), bool(limited["partition_queue"])) == (False, True)


async def test_a_queue_of_another_program_is_read(site: Site, me: Process) -> None:
    """“The shared `queues` table”: what others write there, with defaults for what they cannot."""
    await add(
        site,
        concurrency=2,
        rate_limit_max=5,
        rate_limit_period_sec=3.0,
        polling_interval_sec=2.0,
        created_at=11,
        updated_at=10,
    )
    assert await me.store.queues() == [
        QueueRow(
            settings=rows.queue(concurrency=2, rate=Rate(5, 3.0), base_polling_interval_s=2.0),
            application_name=None,
            paused_at_ms=None,
            created_at_ms=11,
            updated_at_ms=10,
        )
    ]


async def test_a_limit_of_partitions_partitions_a_queue_of_another_program(
    site: Site, me: Process
) -> None:
    """“A queue registered by others is partitioned exactly if it has a partition limit”."""
    await add(site, partition_concurrency=1, partition_queue=True)
    (row,) = await me.store.queues()
    assert row.settings.partitioned


async def test_what_decides_sees_the_row_that_stands(site: Site, me: Process) -> None:
    """“Decides what to store, from the row that stands”."""
    seen: list[QueueRow | None] = []

    def decide(standing: QueueRow | None, _: bool) -> QueueSettings:
        seen.append(standing)
        return FULL if standing is None else replace(FULL, priority_enabled=True)

    first = await me.store.register_queue(rows.QUEUE, rows.VERSION, decide)
    site.clock.advance(1000)
    second = await me.store.register_queue(rows.QUEUE, rows.VERSION, decide)
    assert seen == [None, first]
    assert second.settings == replace(FULL, priority_enabled=True)
    assert second.created_at_ms == first.created_at_ms
    assert second.updated_at_ms >= first.updated_at_ms + 1000
    assert await me.store.queues() == [second]


@pytest.mark.parametrize(
    ("versions", "expected"), [((), True), (("v1",), True), (("v1", "v2"), False), (("v0",), False)]
)
async def test_what_decides_learns_whether_the_version_is_the_latest(
    site: Site, me: Process, versions: tuple[str, ...], *, expected: bool
) -> None:
    """“and from whether the engine's version is the latest registered one”."""
    for version in versions:
        await me.store.register_version(version)
        site.clock.advance(10)
    seen = []
    await me.store.register_queue(
        rows.QUEUE, "v1", lambda _, is_latest: seen.append(is_latest) or rows.queue()
    )
    assert seen == [expected]


async def test_a_row_left_as_it_is_does_not_change(site: Site, me: Process) -> None:
    """“None leaves the row as it is”: and it is returned."""
    first = await me.queue(concurrency=3)
    before = await stored(site)
    site.clock.advance(1000)
    assert await me.store.register_queue(rows.QUEUE, rows.VERSION, leave) == first
    assert await stored(site) == before


@pytest.mark.parametrize("decide", [leave, lambda *_: rows.queue(concurrency=3)])
async def test_a_row_of_no_application_becomes_this_ones(
    site: Site, me: Process, decide: Any
) -> None:
    """“A row that no application owns becomes this application's, whatever is decided”."""
    await add(site, concurrency=7)
    row = await me.store.register_queue(rows.QUEUE, rows.VERSION, decide)
    assert row.application_name == "app"
    assert row.settings.limits.concurrency == (7 if decide is leave else 3)
    found = await stored(site)
    assert found is not None
    assert (found["application_name"], found["queue_id"]) == ("app", f"id-{rows.QUEUE}")


async def test_a_row_of_another_application_is_seen_and_kept(site: Site, me: Process) -> None:
    """“from the row that stands (of any application)”: and what is not decided is not written."""
    await add(site, concurrency=7, application_name="other")
    before = await stored(site)
    seen: list[QueueRow | None] = []
    row = await me.store.register_queue(
        rows.QUEUE, rows.VERSION, lambda standing, _: seen.append(standing)
    )
    assert seen == [row]
    assert row.application_name == "other"
    assert await stored(site) == before
    assert await me.store.queues() == []


@pytest.mark.parametrize("holder", ["app", None, "nowhere"])
async def test_a_decision_that_fails_writes_nothing(
    site: Site, me: Process, holder: str | None
) -> None:
    """“What is decided inside a transaction may raise; nothing is written then and the error passes
    through”."""
    if holder != "nowhere":
        await add(site, concurrency=7, application_name=holder)
    before = await stored(site)
    with pytest.raises(Refused):
        await me.store.register_queue(rows.QUEUE, rows.VERSION, refuse)
    if holder != "nowhere":
        with pytest.raises(Refused):
            await me.store.change_queue(rows.QUEUE, refuse)
    assert await stored(site) == before
    assert await site.own("queue_settings") == []
    # The connection is as good as before.
    assert (await me.queue(concurrency=2)).settings.limits.concurrency == 2


def one_more(row: QueueRow) -> QueueSettings:
    """The queue with a concurrency that is one higher."""
    limits = row.settings.limits
    return replace(row.settings, limits=replace(limits, concurrency=(limits.concurrency or 0) + 1))


async def test_registrations_follow_one_another(site: Site, me: Process) -> None:
    """“`decide` sees the row under its lock, so that two registrations follow one another; it may
    be called again if another process inserted the queue meanwhile”."""
    stores = [me.store, *[await site.store() for _ in range(3)]]

    def decide(standing: QueueRow | None, _: bool) -> QueueSettings:
        return rows.queue(name, concurrency=1) if standing is None else one_more(standing)

    for number in range(20):
        name = f"q{number:02}"
        await asyncio.gather(
            *(store.register_queue(name, rows.VERSION, decide) for store in stores)
        )
    assert {row.settings.limits.concurrency for row in await me.store.queues()} == {4}
    assert len(await site.own("queue_settings")) == 20


async def test_changes_follow_one_another(site: Site, me: Process) -> None:
    """“Change a queue as `decide` says under the row's lock”: no change is lost."""
    stores = [me.store, *[await site.store() for _ in range(3)]]
    await me.queue(concurrency=1)
    for _ in range(15):
        await asyncio.gather(*(store.change_queue(rows.QUEUE, one_more) for store in stores))
    (row,) = await me.store.queues()
    assert row.settings.limits.concurrency == 61


async def test_a_changed_queue_is_returned(site: Site, me: Process) -> None:
    """“Change a queue as `decide` says”: what it was told is what stood."""
    first = await me.queue(concurrency=1)
    site.clock.advance(1000)
    seen = []
    changed = await me.store.change_queue(rows.QUEUE, lambda row: seen.append(row) or FULL)
    assert changed is not None
    assert seen == [first]
    assert (changed.settings, changed.created_at_ms) == (FULL, first.created_at_ms)
    assert changed.updated_at_ms >= first.updated_at_ms + 1000
    assert await me.store.queues() == [changed]


async def test_a_changed_queue_of_no_application_becomes_this_ones(site: Site, me: Process) -> None:
    """“Only rows of this application or of none are found; such a one becomes this
    application's”."""
    await add(site, concurrency=7)
    changed = await me.store.change_queue(rows.QUEUE, lambda row: row.settings)
    assert changed is not None
    assert changed.application_name == "app"
    assert changed.settings.limits.concurrency == 7


async def test_what_is_not_registered_here_is_not_found(site: Site, me: Process) -> None:
    """“None if it is not registered”; “says whether it was there”; “Only rows of this application
    or of none are found”."""
    await add(site, "theirs", concurrency=7, application_name="other")
    await add(site, FOREIGN_INTERNAL_QUEUE, concurrency=7)
    before = [await stored(site, name) for name in ("theirs", FOREIGN_INTERNAL_QUEUE)]
    for name in ("nowhere", "theirs", FOREIGN_INTERNAL_QUEUE):
        assert await me.store.change_queue(name, refuse) is None
        assert await me.store.pause_queue(name, paused=True) is None
        assert await me.store.pause_queue(name, paused=False) is None
        assert await me.store.delete_queue(name) is False
    after = [await stored(site, name) for name in ("theirs", FOREIGN_INTERNAL_QUEUE)]
    assert after == before
    assert await site.own("queue_settings") == []


async def test_a_paused_queue_says_since_when(site: Site, me: Process) -> None:
    """“Pausing a paused queue keeps the time since when it is”."""
    await me.queue(concurrency=1)
    begun = await me.store.now_ms()
    paused = await me.store.pause_queue(rows.QUEUE, paused=True)
    assert paused is not None
    assert paused.is_paused
    assert paused.paused_at_ms is not None
    assert begun <= paused.paused_at_ms <= await me.store.now_ms()
    site.clock.advance(1000)
    again = await me.store.pause_queue(rows.QUEUE, paused=True)
    assert again is not None
    assert again.paused_at_ms == paused.paused_at_ms
    resumed = await me.store.pause_queue(rows.QUEUE, paused=False)
    assert resumed is not None
    assert (resumed.paused_at_ms, resumed.settings) == (None, paused.settings)
    assert await me.store.queues() == [resumed]


async def test_a_queue_of_another_program_can_be_paused(site: Site, me: Process) -> None:
    """“Let nothing be claimed from the queue”: its settings stay what the other program says."""
    await add(site, concurrency=7, partition_concurrency=1, partition_queue=True)
    paused = await me.store.pause_queue(rows.QUEUE, paused=True)
    assert paused is not None
    assert paused.settings == rows.queue(concurrency=7, partition_concurrency=1, partitioned=True)


async def test_a_change_does_not_resume_a_queue(me: Process) -> None:
    """“Let nothing be claimed from the queue, or again”: only this does."""
    await me.queue(concurrency=1)
    await me.store.pause_queue(rows.QUEUE, paused=True)
    assert (await me.queue(concurrency=2)).is_paused
    changed = await me.store.change_queue(rows.QUEUE, one_more)
    assert changed is not None
    assert changed.is_paused


async def test_a_deleted_queue_leaves_its_backlog(site: Site, me: Process) -> None:
    """“Delete the queue's row, its settings …; says whether it was there”; “Its backlog stays”."""
    await me.queue(partitioned=True, max_polling_interval_s=9.0)
    await me.store.pause_queue(rows.QUEUE, paused=True)
    waiting = await me.waiting(partition_key="p")
    assert await me.store.delete_queue(rows.QUEUE) is True
    assert await me.store.delete_queue(rows.QUEUE) is False
    assert (await me.store.queues(), await site.own("queue_settings")) == ([], [])
    assert (await site.status(waiting.workflow_id))["status"] == "ENQUEUED"
    await add(site)
    (anew,) = await me.store.queues()
    assert (anew.settings, anew.is_paused) == (rows.queue(), False)


async def test_queues_are_listed_by_name(site: Site, me: Process) -> None:
    """“Every queue of this application or of none, by name”; an internal one “is ignored
    everywhere”."""
    await me.queue("b")
    await add(site, "c")
    await add(site, "theirs", application_name="other")
    for name in INTERNAL_QUEUES:
        await add(site, name)
    await me.queue("a")
    assert [row.name for row in await me.store.queues()] == ["a", "b", "c"]


async def test_applications_do_not_see_each_others_queues(site: Site, me: Process) -> None:
    """“Every queue of this application or of none”."""
    if site.kind == "memory":
        # It has one store, and that one application.
        return
    other = await site.store("other")
    await me.queue("mine")
    await other.register_queue("theirs", rows.VERSION, lambda *_: rows.queue("theirs"))
    assert [row.name for row in await me.store.queues()] == ["mine"]
    assert [row.name for row in await other.queues()] == ["theirs"]
