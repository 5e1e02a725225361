"""Forgets now and then what nobody needs any more."""

from perdure.engine.committer import Retry
from perdure.engine.services import Loop, Tasks
from perdure.ports.ids import Ids
from perdure.ports.store import Store
from perdure.ports.store.upkeep import LOG_BEGIN

PERIOD_S = 60.0
PAGE = 1000


class Upkeep(Loop):
    """Looks once a minute at a page of what our own tables keep, and at more while it finds some.

    Every process does, each at its own place; what two find at a time is forgotten once.
    """

    def __init__(self, tasks: Tasks, store: Store, retry: Retry, ids: Ids) -> None:
        super().__init__(tasks, "upkeep")
        self._store = store
        self._retry = retry
        self._ids = ids
        self._place = LOG_BEGIN
        self._is_new = True

    async def turn(self) -> float | None:
        """Forget what is over; a process that has just begun has something better to do."""
        is_more = not self._is_new
        self._is_new = False
        while is_more:
            pruned = await self._retry(
                lambda: self._store.prune_appends(self._place, PAGE), "forgetting logged appends"
            )
            self._place = pruned.place
            is_more = pruned.forgotten > 0 and pruned.place != LOG_BEGIN
        return PERIOD_S * self._ids.jitter()
