"""Upkeep: a page a minute, and more while there is something to forget."""

from __future__ import annotations

from typing import Any

from perdure.engine.committer import Retry
from perdure.engine.services import Tasks
from perdure.engine.system import SystemClock, SystemIds
from perdure.engine.upkeep import PERIOD_S, Upkeep
from perdure.model.ids import WorkflowId
from perdure.ports.store.upkeep import LOG_BEGIN, LogPlace, Pruned


class FakeStore:
    """Has pages with so many appends to forget."""

    def __init__(self, *pages: int) -> None:
        self._pages = pages
        self.asked: list[LogPlace] = []

    async def prune_appends(self, place: LogPlace, limit: int) -> Pruned:
        assert limit > 0
        self.asked.append(place)
        number = int(place.append_id or 0)
        following = number + 1
        is_last = following == len(self._pages)
        return Pruned(self._pages[number], LOG_BEGIN if is_last else at(following))


def at(number: int) -> LogPlace:
    return LogPlace(WorkflowId("w"), str(number)) if number else LOG_BEGIN


async def asked(turns: int, *pages: int) -> list[list[LogPlace]]:
    """Where each turn asked."""
    store = FakeStore(*pages)
    untyped: Any = store
    upkeep = Upkeep(Tasks(), untyped, Retry(SystemClock(), SystemIds()), SystemIds())
    seen: list[list[LogPlace]] = []
    for _ in range(turns):
        store.asked.clear()
        pause_s = await upkeep.turn()
        assert pause_s is not None
        assert PERIOD_S / 2 <= pause_s <= PERIOD_S * 1.5
        seen.append(list(store.asked))
    return seen


async def test_a_process_begins_with_other_things() -> None:
    assert await asked(1, 5) == [[]]


async def test_it_goes_on_where_it_stopped_and_begins_anew_at_the_end() -> None:
    assert await asked(5, 0, 0, 0) == [[], [at(0)], [at(1)], [at(2)], [at(0)]]


async def test_it_goes_on_at_once_while_it_finds_something() -> None:
    assert await asked(3, 7, 7, 0, 7) == [[], [at(0), at(1), at(2)], [at(3)]]
