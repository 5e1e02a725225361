"""Fair turns among the connections that want to write.

SQLite's write lock has no queue: who waits for it looks again after a pause, and a busy writer
that begins its next transaction right after the last is hardly ever caught between the two. So
whoever wants the lock first takes a lock of the turnstile and keeps it until it has begun: the
busy writer then finds the turnstile taken and waits. It is about fairness only; who cannot get
through in `PATIENCE_S` (its holder may be stopped) goes on without.
"""

import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from perdure.store.sqlite.lockfile import LockFile

log = logging.getLogger("perdure")

NAME = "turnstile"
PATIENCE_S = 1.0
_PAUSE_S = 0.001


class Turnstile:
    """One connection's place at the turnstile of a database."""

    def __init__(self, folder: Path) -> None:
        self._file = _opened(folder)

    @contextmanager
    def passing(self, pause: Callable[[float], object]) -> Generator[None]:
        """Hold the turnstile while the block takes the write lock."""
        entered = self._enter(pause)
        try:
            yield
        finally:
            if entered and self._file is not None:
                self._file.unlock()

    def _enter(self, pause: Callable[[float], object]) -> bool:
        if self._file is None:
            return False
        deadline = time.monotonic() + PATIENCE_S
        try:
            while not self._file.try_lock():
                if time.monotonic() > deadline:
                    return False
                pause(_PAUSE_S)
        except OSError as error:
            log.debug("no turnstile for writers of this database: %s", error)
            self.close()
            return False
        return True

    def close(self) -> None:
        """Leave for good."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _opened(folder: Path) -> LockFile | None:
    try:
        folder.mkdir(exist_ok=True)
        return LockFile(folder / NAME, create=True)
    except OSError as error:
        log.debug("no turnstile for writers of this database: %s", error)
        return None
