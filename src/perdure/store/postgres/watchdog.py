"""The deadline of statements, watched from this side of the wire."""

import asyncio
from typing import Any


class Watchdog:
    """Hangs up on a connection whose statement ran past its deadline.

    The server ends a statement that takes too long by itself; this is for a server that does not
    answer at all. One timer watches over all statements of a connection, for to set and unset one
    for each would cost a lone step a twentieth of its time.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._timer: asyncio.TimerHandle | None = None
        self._connection: Any = None
        self._since_s = 0.0

    def watch(self, connection: Any) -> None:
        """A statement begins on the connection."""
        loop = asyncio.get_running_loop()
        self._connection = connection
        self._since_s = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._limit_s, self._look, loop)

    def rest(self) -> None:
        """The statement is over."""
        self._connection = None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._connection is None:
            return
        left_s = self._since_s + self._limit_s - loop.time()
        if left_s > 0:
            self._timer = loop.call_later(left_s, self._look, loop)
        else:
            self._connection.terminate()
