"""`HintStore.announce` and `HeartbeatLink.listen`: hints to other processes."""

from perdure.ports.store import Store
from perdure.ports.store.hints import EVERYTHING
from tests.support.store import Process, Site
from tests.support.waiting import eventually


async def listener(site: Site, store: Store) -> tuple[Process, list[str]]:
    """A process start that keeps the hints it hears."""
    process, heard = site.stranger(store), list[str]()
    process.link.listen(heard.append)
    await process.link.open(process.lease)
    return process, heard


async def test_a_hint_reaches_every_process_of_the_application(site: Site, me: Process) -> None:
    """“Tell every process of this application on this database, this one included”; “Where the
    store cannot reach others (`Capabilities.listen` false) nothing happens”."""
    near, mine = await listener(site, me.store)
    far, theirs = await listener(site, await site.store())
    await me.store.announce(["a", "b"])
    await me.store.announce([])
    await me.store.announce(["a"])
    if me.store.capabilities.listen:
        await eventually(
            lambda: [sorted(heard) for heard in (mine, theirs)] == [["a", "a", "b"]] * 2
        )
    else:
        assert (await near.beat()).held
        assert mine == theirs == []
    for process in (near, far):
        await process.link.close()


async def test_a_hint_does_not_reach_another_application(site: Site, me: Process) -> None:
    """“Tell every process of this application”."""
    if site.kind == "memory":
        return
    other, theirs = await listener(site, await site.store("other"))
    near, mine = await listener(site, me.store)
    await me.store.announce(["ours"])
    await other.store.announce(["theirs"])
    if me.store.capabilities.listen:
        await eventually(lambda: mine and theirs)
        assert (mine, theirs) == (["ours"], ["theirs"])
    for process in (near, other):
        await process.link.close()


async def test_a_hint_may_be_any_text(site: Site, me: Process) -> None:
    """“with every hint that is announced”: no character has a meaning."""
    near, mine = await listener(site, me.store)
    hints = ["o'brien", '"q"', "::%_\\", "☃😀", " ", "a,b", "a\nb"]
    await me.store.announce(hints)
    if me.store.capabilities.listen:
        await eventually(lambda: sorted(mine) == sorted(hints))
    await near.link.close()


async def test_a_hint_too_long_to_be_sent_is_everything(site: Site, me: Process) -> None:
    """“A hint that is too long to be sent is replaced by `EVERYTHING`”."""
    near, mine = await listener(site, me.store)
    await me.store.announce(["short", "☃" * 20_000])
    if me.store.capabilities.listen:
        await eventually(lambda: set(mine) == {"short", EVERYTHING})
    await near.link.close()


async def test_a_link_that_was_not_told_to_listen_beats_on(site: Site, me: Process) -> None:
    """“hints … make waiting shorter, and nothing depends on their arrival”."""
    await me.store.announce(["a"])
    assert (await me.beat()).held
