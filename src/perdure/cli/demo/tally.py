"""What the running program shows of its own progress. Nothing durable depends on it."""

import time
from contextvars import ContextVar


class Tally:
    """Counts the files that this start's processes settled, archived or failed, and their bytes.

    Used on the engine's loop alone.
    """

    def __init__(self) -> None:
        self.total: int | None = None
        self._heard = 0
        self._files = 0
        self._size = 0
        self._elsewhere: dict[int, tuple[int, int]] = {}
        self._began_s = time.monotonic()

    @property
    def files(self) -> int:
        """Files settled by these processes."""
        return self._files + sum(files for files, _ in self._elsewhere.values())

    @property
    def size(self) -> int:
        """Their bytes."""
        return self._size + sum(size for _, size in self._elsewhere.values())

    @property
    def rate(self) -> float:
        """Files a second."""
        return self.files / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds(self) -> float:
        """How long this start has been at it."""
        return time.monotonic() - self._began_s

    def settled(self, before: int) -> int:
        """How many of the total are settled, if so many were before this start.

        What the run heard of is more where processes of another start are at it too.
        """
        count = max(before + self.files, self._heard)
        return count if self.total is None else min(count, self.total)

    def plan(self, total: int) -> None:
        """The folder is listed."""
        self.total = total
        self._heard = 0

    def settle(self, size: int) -> None:
        """A file is settled in this process."""
        self._files += 1
        self._size += size

    def settle_elsewhere(self, worker: int, files: int, size: int) -> None:
        """So many are by now in a worker."""
        self._elsewhere[worker] = (files, size)

    def hear(self, files: int) -> None:
        """The run knows how so many more files ended."""
        self._heard += files


TALLY: ContextVar[Tally | None] = ContextVar("perdure_demo_tally", default=None)
"""Set before the engine starts, so that every run of this process sees it."""


def tally() -> Tally:
    """The tally of this process; one that nobody looks at where none was set."""
    return TALLY.get() or Tally()
