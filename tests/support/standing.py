"""A connection that outlasts the tests it serves, on a loop and a thread of its own.

What a session knows of the catalogue it learns anew in each connection, which costs more than most
of what a fixture asks for.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import asyncpg

APPLICATION = "standing"
DEADLINE_S = 60.0
# A test may have ended this session among others of its database.
_CUT = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


class StandingConnection:
    """Connects at first use, and again when somebody ended it."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: asyncpg.Connection[Any] | None = None
        self._turn = asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="standing connection", daemon=True
        )
        self._thread.start()

    def run(self, script: str) -> None:
        """Execute statements that may be executed twice."""
        asyncio.run_coroutine_threadsafe(self._run(script), self._loop).result(DEADLINE_S)

    async def arun(self, script: str) -> None:
        """`run`, while the caller's loop goes on."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._run(script), self._loop))

    def close(self) -> None:
        """Give the connection and the thread up."""
        asyncio.run_coroutine_threadsafe(self._disconnect(), self._loop).result(DEADLINE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()

    async def _run(self, script: str) -> None:
        async with self._turn:
            try:
                await (await self._connected()).execute(script, timeout=DEADLINE_S)
            except _CUT:
                await self._disconnect()
                await (await self._connected()).execute(script, timeout=DEADLINE_S)

    async def _connected(self) -> asyncpg.Connection[Any]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(
                self._dsn, timeout=30, server_settings={"application_name": APPLICATION}
            )
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*_CUT):
                await connection.close()
