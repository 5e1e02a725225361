"""The kinds of database a store can stand on, and the clock tests move."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from dataclasses import dataclass, field
from typing import Protocol

from perdure.ports.store import Store
from tests.support.backdoor import Backdoor, PostgresBackdoor, SqliteBackdoor, connect_file


@dataclass
class MovableClock:
    """The real clock, with an offset to the database's that a test moves."""

    offset: int = 0

    def monotonic(self) -> float:
        return time.monotonic() + self.offset / 1000

    def offset_ms(self) -> int:
        return self.offset

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0))

    def advance(self, ms: int) -> None:
        """Let that much time pass at once."""
        self.offset += ms
