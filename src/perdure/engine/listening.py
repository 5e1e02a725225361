"""Hearing hints where no heartbeat does: while somebody waits, by a link of its own."""

import asyncio
import logging
from typing import Final

from perdure.engine.hearing import Ear
from perdure.engine.services import Loop, Tasks
from perdure.errors import DatabaseError
from perdure.ports.store import Store
from perdure.ports.store.hints import HintLink

log = logging.getLogger("perdure")

CHECK_EVERY_S: Final = 10.0
"""A link on which nobody has waited for that long is given up."""

AFTER_TROUBLE_S: Final = 1.0
"""Meanwhile those who wait find by their polls what hints would have said."""


class Listener(Loop):
    """Opens a link when somebody begins to wait, and looks after it as long as somebody does."""

    def __init__(self, tasks: Tasks, store: Store, ear: Ear) -> None:
        super().__init__(tasks, "listener")
        self._store = store
        self._ear = ear
        self._link: HintLink | None = None
        self._is_wanted = False

    def want(self) -> None:
        """Somebody waits."""
        self._is_wanted = self._store.capabilities.listen
        if self._is_wanted and self._link is None:
            self.wake()

    async def turn(self) -> float | None:
        """Open the link, see whether it stands, or give it up."""
        try:
            return await self._look_after()
        except DatabaseError as error:
            log.debug("nothing is heard of other processes for now: %s", error)
            await self._give_up()
            # Not as a pause of the loop: a link that breaks as it is opened says so, which wakes.
            await asyncio.sleep(AFTER_TROUBLE_S)
            return 0.0

    async def _look_after(self) -> float | None:
        if not self._is_wanted:
            await self._give_up()
            return None
        self._is_wanted = self._ear.is_needed
        if self._link is None:
            self._link = link = self._store.hint_link()
            # The next turn finds it broken.
            link.when_lost(self.wake)
            link.listen(self._ear.hear)
            await link.open()
            self._ear.begin()
        else:
            await self._link.check()
        return CHECK_EVERY_S

    async def _give_up(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def stop(self) -> None:
        """Stop listening."""
        try:
            await super().stop()
        finally:
            await self._give_up()
