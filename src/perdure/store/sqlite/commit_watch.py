"""Hears that other processes committed to a file, which cannot say so.

A number that the log beside the file keeps changes with every commit but those of the connection
that asks. It is looked at often, for it costs no access to the disk; what the commit brought is
looked at only when it changed.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from perdure.ports.store.hints import TALK
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.session import OwnSession
from perdure.store.sqlite.surroundings import ready_queues

log = logging.getLogger("perdure")

EVERY_S = 0.015
LONGEST_LOOK_S = 0.2
_SHARE_OF_TIME = 0.1
"""Of the loop's time, what looking may take at most."""

_WORK = "+"


class CommitWatch:
    """Belongs to an open link. After any trouble it rests until the link's next beat."""

    def __init__(
        self, session: OwnSession, queries: Mapping[str, str], callback: Callable[[str], None]
    ) -> None:
        self._session = session
        self._queries = queries
        self._callback = callback
        self._asked: dict[str, Any] = {}
        self._version = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def go_on(self, asked: dict[str, Any], version: int) -> None:
        """Watch for what is claimable by who asked this, from the version its beat saw on."""
        self._asked = asked
        self._version = version
        if self._timer is None:
            self._later(EVERY_S)

    def stop(self) -> None:
        """Watch no longer."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _later(self, seconds: float) -> None:
        if not self._is_stopped:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        begun_s = time.monotonic()
        try:
            for hint in self._session.look(self._hints, LONGEST_LOOK_S):
                self._callback(hint)
        except Exception as error:  # noqa: BLE001 - hints may fail, the heartbeat must not
            log.debug("no hints from commits until the next heartbeat: %s", error)
            return
        took_s = time.monotonic() - begun_s
        self._later(max(EVERY_S, took_s / _SHARE_OF_TIME))

    def _hints(self, connection: Connection) -> tuple[str, ...]:
        known, self._version = self._version, self._session.version(connection)
        if known == self._version:
            return ()
        work = ready_queues(connection, self._queries, self._asked)
        # Whether messages, events, stream values or outcomes have come is found by who waits.
        return *(_WORK + name for name in work), TALK
