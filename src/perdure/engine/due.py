"""Moves delayed workflows when they are due, and ends those whose deadline passed in a queue."""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from perdure.engine.committer import Retry
from perdure.engine.dispatcher import Dispatcher
from perdure.engine.hints import HintKind, Hints
from perdure.engine.services import Loop, Tasks
from perdure.engine.time import DatabaseTime
from perdure.model.ids import WorkflowId
from perdure.ports.ids import Ids
from perdure.ports.store import Store

log = logging.getLogger("perdure")

SWEEP_BATCH = 1000

SPREAD_S = 0.02
"""How far the processes that heard of one instant from the database are spread after it."""


class Followers(NamedTuple):
    """Who acts on what a sweep did."""

    dispatcher: Dispatcher
    hints: Hints
    on_ended: Callable[[Sequence[WorkflowId]], None]
    ids: Ids


class DueSweep(Loop):
    """Sleeps until the next instant at which a row is due, as far as this process knows.

    An instant of its own making is kept exactly; those that a heartbeat tells of are common to the
    whole fleet, and the first process that comes does the work.
    """

    def __init__(
        self,
        tasks: Tasks,
        store: Store,
        retry: Retry,
        time: DatabaseTime,
        followers: Followers,
    ) -> None:
        super().__init__(tasks, "due sweep")
        self._store = store
        self._retry = retry
        self._time = time
        self._dispatcher = followers.dispatcher
        self._hints = followers.hints
        self._on_ended = followers.on_ended
        self._ids = followers.ids
        self._at_ms: float | None = None

    def due_at(self, instant_ms: float) -> None:
        """A row of this process's making is due then."""
        if self._at_ms is None or instant_ms < self._at_ms:
            self._at_ms = instant_ms
            self.wake()

    def heard_of(self, instant_ms: int) -> None:
        """The database has a row that is due then."""
        if self._at_ms is None or instant_ms < self._at_ms:
            self.due_at(instant_ms + SPREAD_S * 1000 * (self._ids.jitter() - 0.5))
        if instant_ms <= self._time.now_ms():
            # Time went on faster than this loop waited.
            self.wake()

    async def turn(self) -> float | None:
        """Do what is due, else say how long it is until then."""
        if self._at_ms is None:
            return None
        left_s = self._time.seconds_until(self._at_ms)
        if left_s > 0:
            return left_s
        self._at_ms = None
        swept = await self._retry(lambda: self._store.sweep(SWEEP_BATCH), "moving what is due")
        for queue in swept.ready:
            self._dispatcher.work_in(queue)
            self._hints.announce(HintKind.WORK, queue)
        for workflow_id in swept.expired:
            log.info("workflow %s passed its deadline before it ran and is cancelled", workflow_id)
        self._on_ended(swept.expired)
        if swept.more:
            self._at_ms = self._time.now_ms()
        elif swept.next_at_ms is not None:
            self.due_at(swept.next_at_ms)
        # The database's clock and what is known of it here differ by a little.
        return 0.001
