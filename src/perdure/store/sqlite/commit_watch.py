"""Hears that other processes committed to a file, which cannot say so.

A number that the log beside the file keeps changes with every commit but those of the connection
that asks. It is looked at often, for it costs no access to the disk; what the commit brought is
looked at only when it changed. Whether others committed, or only this process itself, is what the
number says that its writing connection sees. The writer sees it at each of its transactions; it is
asked only once it begins none.
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
from perdure.store.sqlite.writer import Writer

log = logging.getLogger("perdure")

EVERY_S = 0.015
LONGEST_LOOK_S = 0.2
_SHARE_OF_TIME = 0.1
"""Of the loop's time, what looking may take at most."""

_WORK = "+"


class CommitWatch:
    """Belongs to a link just opened, when the writer has just looked.

    After any trouble it rests until the link's next beat.
    """

    def __init__(
        self,
        session: OwnSession,
        writer: Writer,
        queries: Mapping[str, str],
        callback: Callable[[str], None],
    ) -> None:
        self._session = session
        self._writer = writer
        self._others = writer.others
        self._begun = writer.begun
        self._may_be_others = False
        self._queries = queries
        self._callback = callback
        self._asked: dict[str, Any] = {}
        self._version = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def go_on(self, asked: dict[str, Any], version: int) -> None:
        """Watch for what is claimable by who asked this, from the version its beat saw on."""
        self._asked = asked
        # A beat sees the work that a commit brought, and nothing else of it.
        self._may_be_others |= version != self._version
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
            for name in self._session.look(self._new_work, LONGEST_LOOK_S):
                self._callback(_WORK + name)
            self._tell_of_others()
            self._ask_about_others()
        except Exception as error:  # noqa: BLE001 - hints may fail, the heartbeat must not
            self._rest(error)
            return
        took_s = time.monotonic() - begun_s
        self._later(max(EVERY_S, took_s / _SHARE_OF_TIME))

    def _new_work(self, connection: Connection) -> tuple[str, ...]:
        """The queues in which work waits, if there was a commit."""
        known, self._version = self._version, self._session.version(connection)
        if known == self._version:
            return ()
        self._may_be_others = True
        return ready_queues(connection, self._queries, self._asked)

    def _tell_of_others(self) -> None:
        """Whether messages, events, stream values or outcomes have come, or runs are lost, is found
        by whom it concerns."""
        known, self._others = self._others, self._writer.others
        if known != self._others:
            self._callback(TALK)

    def _ask_about_others(self) -> None:
        begun, self._begun = self._begun, self._writer.begun
        if self._may_be_others and begun == self._begun:
            self._may_be_others = False
            self._writer.look().add_done_callback(self._hear_of_others)

    def _hear_of_others(self, answer: asyncio.Future[None]) -> None:
        if self._is_stopped:
            return
        try:
            answer.result()
            self._tell_of_others()
        except Exception as error:  # noqa: BLE001 - as above
            self._rest(error)

    def _rest(self, error: Exception) -> None:
        log.debug("no hints from commits until the next heartbeat: %s", error)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
