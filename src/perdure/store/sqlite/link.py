"""The link of who only listens: it has the writing connection see whether others committed.

That is a number in the memory that the processes on a file share, asked for in the writer's thread,
so that neither the disk nor the calling loop has anything to do with it.
"""

import asyncio
from collections.abc import Callable

from perdure.errors import DatabaseError, DatabaseUnavailable
from perdure.ports.store.hints import TALK
from perdure.store.sqlite.commit_watch import EVERY_S
from perdure.store.sqlite.database import Database
from perdure.store.sqlite.writer import Writer


class SqliteHintLink:
    """See `perdure.ports.store.hints.HintLink`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._callback: Callable[[str], None] | None = None
        self._when_lost: Callable[[], None] | None = None
        self._writer: Writer | None = None
        self._others = 0
        self._timer: asyncio.TimerHandle | None = None

    def when_lost(self, callback: Callable[[], None]) -> None:
        """See `Link.when_lost`; called when the file cannot be read."""
        self._when_lost = callback

    def listen(self, callback: Callable[[str], None]) -> None:
        """See `Link.listen`: one hint stands for all that others did."""
        self._callback = callback

    async def open(self) -> None:
        """See `HintLink.open`."""
        await self.close()
        writer = self._database.writer()
        await writer.look()
        self._writer, self._others = writer, writer.others
        self._later()

    async def check(self) -> None:
        """See `HintLink.check`; nothing is between us and a file but what was found by asking."""
        if self._writer is None:
            raise DatabaseUnavailable("the link is not open, or was lost")

    async def close(self) -> None:
        """See `Link.close`."""
        self._writer = None
        if self._timer is not None:
            self._timer.cancel()

    def _later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._ask)

    def _ask(self) -> None:
        writer = self._writer
        if writer is None:
            return
        try:
            writer.look().add_done_callback(self._hear)
        except DatabaseError:
            self._lose()

    def _hear(self, answer: asyncio.Future[None]) -> None:
        writer = self._writer
        if answer.cancelled() or answer.exception() is not None:
            self._lose()
        elif writer is not None:
            known, self._others = self._others, writer.others
            if known != self._others and self._callback is not None:
                self._callback(TALK)
            self._later()

    def _lose(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None and self._when_lost is not None:
            self._when_lost()
