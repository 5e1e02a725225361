"""The listener of who runs nothing: when it opens its link, and when it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from perdure.engine import listening as listening_module
from perdure.engine.listening import Listener
from perdure.engine.services import Tasks
from perdure.errors import DatabaseUnavailable
from perdure.ports.capabilities import Capabilities
from tests.support.engines import settle
from tests.support.waiting import eventually


class RefusingStore:
    """Its links connect, and break before they hear: so does a standby's."""

    capabilities = Capabilities(listen=True, parallel_writes=True, max_batch=10)

    def __init__(self) -> None:
        self.opened = 0
        self._when_lost: Callable[[], None] | None = None

    def hint_link(self) -> RefusingStore:
        return self

    def when_lost(self, callback: Callable[[], None]) -> None:
        self._when_lost = callback

    def listen(self, _: Callable[[str], None]) -> None:
        """It never hears."""

    async def open(self) -> None:
        self.opened += 1
        raise DatabaseUnavailable("cannot execute LISTEN during recovery")

    async def close(self) -> None:
        if self._when_lost is not None:
            asyncio.get_running_loop().call_soon(self._when_lost)


async def test_a_link_that_breaks_as_it_is_opened_is_left_alone_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However often its breaking is told, and whoever begins to wait meanwhile."""
    store: Any = RefusingStore()
    ear: Any = SimpleNamespace(is_needed=True, hear=None)
    listener = Listener(Tasks(), store, ear)
    await listener.start()
    monkeypatch.setattr(listening_module, "AFTER_TROUBLE_S", 3_600.0)
    listener.want()
    await eventually(lambda: store.opened)
    listener.want()
    await settle(50)
    assert store.opened == 1
    await listener.stop()
    monkeypatch.setattr(listening_module, "AFTER_TROUBLE_S", 0.001)
    await listener.start()
    await eventually(lambda: store.opened > 3)
    await listener.stop()
