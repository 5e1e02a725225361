"""What the running program shows of its own progress. Nothing durable depends on it."""

import time
from contextvars import ContextVar


class Tally:
    """Counts the files that are settled, as far as this process hears of them.

    Used on the engine's loop alone.
    """

    def __init__(self) -> None:
        self.total: int | None = None
        self.size = 0
        self._settled: set[str] = set()
        self._here = 0
        self._began_s = time.monotonic()

    @property
    def settled(self) -> int:
        """Files archived or failed, those recorded by earlier starts among them."""
        return len(self._settled)

    @property
    def here(self) -> int:
        """Files this process settled itself."""
        return self._here

    @property
    def seconds(self) -> float:
        """How long this process has been at it."""
        return time.monotonic() - self._began_s

    def plan(self, total: int) -> None:
        """The folder is listed."""
        self.total = total

    def settle(self, name: str, size: int, *, here: bool) -> None:
        """A file is settled; hearing of it twice counts once."""
        if name not in self._settled:
            self._settled.add(name)
            self.size += size
            self._here += here


TALLY: ContextVar[Tally | None] = ContextVar("perdure_demo_tally", default=None)
"""Set before the engine starts, so that every run of this process sees it."""


def tally() -> Tally:
    """The tally of this process; one that nobody looks at where none was set."""
    return TALLY.get() or Tally()
