"""`HintStore.announce` and `HeartbeatLink.listen`, where hints are sent: on Postgres.

Whoever has a SQLite file open sees for himself that another committed, and sends nothing.
"""

import pytest

from perdure.ports.store import Store
from perdure.ports.store.hints import EVERYTHING
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


async def test_a_hint_reaches_every_process_of_the_application(site: Site, me: Process) -> None:
    """“Tell every process of this application on this database, this one included”."""
    near, mine = await listener(site, me.store)
    far, theirs = await listener(site, await site.store())
    await me.store.announce(["a", "b"])
    await me.store.announce([])
    await far.store.announce(["c"])
    await eventually(lambda: sorted(mine) == sorted(theirs) == ["a", "b", "c"])
    for process in (near, far):
        assert (await process.beat()).held
        await process.link.close()


async def test_a_hint_does_not_reach_another_application(site: Site, me: Process) -> None:
    """“Tell every process of this application”."""
    near, mine = await listener(site, me.store)
    other, theirs = await listener(site, await site.store("other"))
    await me.store.announce(["ours"])
    await other.store.announce(["theirs"])
    await eventually(lambda: mine and theirs)
    assert (mine, theirs) == (["ours"], ["theirs"])
    for process in (near, other):
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
