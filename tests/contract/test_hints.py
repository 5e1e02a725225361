"""`HintStore.announce` and `HeartbeatLink.listen`, where hints are sent: on Postgres.

Whoever has a SQLite file open sees for himself that another committed, and sends nothing.
"""

import pytest

from perdure.model.ids import WorkflowId
from perdure.model.talk import Key
from perdure.model.wire import EVENTS_CHANNEL, NULL_TOPIC, STREAMS_CHANNEL
from perdure.ports.store import Store
from perdure.ports.store.hints import EVENT, EVERYTHING, MESSAGE, STREAM
from tests.support import rows
from tests.support.store import Process, Site
from tests.support.waiting import eventually


@pytest.fixture(params=["postgres"])
def site_kind(request: pytest.FixtureRequest) -> str:
    """Only Postgres carries messages."""
    kind: str = request.param
    return kind


async def listener(site: Site, store: Store) -> tuple[Process, list[str]]:
    """A process start that keeps the hints it hears."""
    process, heard = site.stranger(store), list[str]()
    process.link.listen(heard.append)
    await process.link.open(process.lease)
    return process, heard


async def test_a_hint_reaches_every_process_on_the_database(site: Site, me: Process) -> None:
    """“Tell every process on this database, of whatever application, this one included”."""
    near, mine = await listener(site, me.store)
    far, theirs = await listener(site, await site.store("other"))
    nameless = await site.store(None)
    await me.store.announce(["a", "b"])
    await me.store.announce([])
    await far.store.announce(["c"])
    await nameless.announce(["d"])
    await eventually(lambda: sorted(mine) == sorted(theirs) == ["a", "b", "c", "d"])
    for process in (near, far):
        assert (await process.beat()).held
        await process.link.close()


async def test_a_hint_may_be_any_text(site: Site, me: Process) -> None:
    """“with every hint that is announced”: no character has a meaning."""
    near, mine = await listener(site, me.store)
    hints = ["o'brien", '"q"', "::%_\\", "☃😀", " ", "a,b", "a\nb", "", "[]"]
    await me.store.announce(hints)
    await eventually(lambda: sorted(mine) == sorted(hints))
    await near.link.close()


async def test_a_hint_too_long_to_be_sent_is_everything(site: Site, me: Process) -> None:
    """“A hint that is too long to be sent is replaced by `EVERYTHING`”."""
    near, mine = await listener(site, me.store)
    await me.store.announce(["short", "☃" * 20_000])
    await eventually(lambda: sorted(mine) == [EVERYTHING, "short"])
    await near.link.close()


@pytest.mark.parametrize("length", range(7900, 8020, 7))
async def test_a_hint_is_told_whatever_its_length(site: Site, me: Process, length: int) -> None:
    """“A hint that is too long to be sent is replaced by `EVERYTHING`”: and no other is."""
    near, mine = await listener(site, me.store)
    await me.store.announce(["x" * length])
    await eventually(lambda: mine)
    assert mine in (["x" * length], [EVERYTHING])
    await near.link.close()


async def test_many_hints_at_once_are_told(site: Site, me: Process) -> None:
    """“Tell every process”: as many hints as there are queues, in one call."""
    near, mine = await listener(site, me.store)
    hints = [f"queue-{number:04}" * 5 for number in range(1000)]
    await me.store.announce(hints)
    await eventually(lambda: EVERYTHING in mine or set(hints) == set(mine))
    await near.link.close()


async def test_a_closed_link_hears_nothing_more(site: Site, me: Process) -> None:
    """“hints sent while it was not connected are lost”: and what is opened anew hears again."""
    near, mine = await listener(site, me.store)
    await near.link.close()
    await me.store.announce(["lost"])
    await near.link.open(near.lease)
    await me.store.announce(["heard"])
    await eventually(lambda: mine)
    assert mine == ["heard"]
    await near.link.close()


async def test_values_are_announced_to_every_sdk(site: Site, me: Process) -> None:
    """“On the channels they all share”, as `<workflow>::<key>`; what is too long is found by those
    who look by themselves."""
    near, mine = await listener(site, me.store)
    far, theirs = await listener(site, await site.store("other"))
    heard: list[tuple[str, str]] = []
    connection = await site.postgres.connect()
    for channel in (EVENTS_CHANNEL, STREAMS_CHANNEL):
        await connection.add_listener(channel, lambda *told: heard.append(told[2:]))
    events = [Key(WorkflowId("w"), "a"), Key(WorkflowId("w"), "a"), Key(WorkflowId("w::x"), "é")]
    too_long = Key(WorkflowId("w"), "☃" * 3000)
    unspeakable = Key(WorkflowId("w"), "\ud800")
    await me.store.announce_talk([*events, too_long], [unspeakable, Key(WorkflowId("w"), "b")])
    await me.store.announce_talk([], [])
    expected = [f"{EVENT}w::a", f"{EVENT}w::x::é", f"{STREAM}w::b"]
    await eventually(lambda: sorted(mine) == sorted(theirs) == expected)
    await eventually(lambda: len(heard) >= len(expected))
    assert sorted(heard) == [
        (STREAMS_CHANNEL, "w::b"),
        (EVENTS_CHANNEL, "w::a"),
        (EVENTS_CHANNEL, "w::x::é"),
    ]
    await connection.close()
    for process in (near, far):
        await process.link.close()


async def test_a_message_announces_itself(site: Site, me: Process) -> None:
    """“Messages announce themselves: a trigger of the shared schema does it”: once each, and not
    again when they are received."""
    near, mine = await listener(site, me.store)
    run = await me.running("w")
    await me.store.send([rows.sending(rows.message(run, topic="t"), rows.message(run))])
    await me.store.receive([rows.receiving(run, 1, "t"), rows.receiving(run, 2)])
    await me.store.close_scopes([rows.closing(run, 3, put_back=(1,))])
    await me.store.announce(["last"])
    await eventually(lambda: "last" in mine)
    assert sorted(mine) == sorted(["last", f"{MESSAGE}w::{NULL_TOPIC}", f"{MESSAGE}w::t"])
    await near.link.close()
