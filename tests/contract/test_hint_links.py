"""`HintLink`: the link of who only listens."""

from __future__ import annotations

import pytest

from perdure.errors import DatabaseUnavailable
from perdure.ports.store.hints import TALK, HintLink
from tests.support.store import Process, Site
from tests.support.waiting import eventually


class Listening:
    """A link, what it heard, and how often it said that it is lost."""

    def __init__(self, link: HintLink) -> None:
        self.link = link
        self.heard: list[str] = []
        self.losses = 0
        link.listen(self.heard.append)
        link.when_lost(self._lost)

    def _lost(self) -> None:
        self.losses += 1


@pytest.fixture(params=["sqlite", "postgres"])
def site_kind(request: pytest.FixtureRequest) -> str:
    """In memory there is nobody to hear."""
    kind: str = request.param
    return kind


async def test_it_hears_what_others_announce_or_commit(site: Site, me: Process) -> None:
    """“with every hint that is announced”; “from a store that sees only that others committed”."""
    near, other = Listening(me.store.hint_link()), await site.process()
    await near.link.open()
    await near.link.check()
    await other.waiting()
    await other.store.announce(["told"])
    await eventually(lambda: near.heard)
    assert set(near.heard) == {TALK if site.kind == "sqlite" else "told"}
    await near.link.close()
    await near.link.close()
    with pytest.raises(DatabaseUnavailable, match="not open"):
        await near.link.check()


async def test_it_can_be_opened_again(site: Site, me: Process) -> None:
    """“hints sent while it was not connected are lost”."""
    near, other = Listening(me.store.hint_link()), await site.process()
    await near.link.open()
    await near.link.close()
    await other.waiting("q1")
    await other.store.announce(["lost"])
    await near.link.open()
    await other.waiting("q2")
    await other.store.announce(["told"])
    await eventually(lambda: near.heard)
    assert set(near.heard) == {TALK if site.kind == "sqlite" else "told"}
    await near.link.close()


async def test_a_lost_connection_is_told(site: Site) -> None:
    """“One that lost its connection raises”; one on a file loses it when its store closes."""
    store = await site.store()
    near = Listening(store.hint_link())
    await near.link.open()
    if site.kind == "sqlite":
        await store.close()
    else:
        await site.backdoor.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        )
    await eventually(lambda: near.losses == 1)
    with pytest.raises(DatabaseUnavailable):
        await near.link.check()
    await near.link.close()
