"""Files that are there only to be locked.

The lock belongs to one opened file, not to a process: it ends when its holder unlocks it or when
the last copy of the descriptor is closed, however the process ends. A child made by `fork` has a
copy, so it closes it at once: otherwise the child of a dead process would hold its locks.
"""

import contextlib
import os
from pathlib import Path

from filelock import lock_descriptor, unlock_descriptor

_opened: "set[LockFile]" = set()
"""Every open one of this process: the state belongs to the process, as its descriptors do."""


class LockFile:
    """An open lock file; methods raise `OSError` where the file system has no locks."""

    def __init__(self, path: Path, *, create: bool) -> None:
        flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | (os.O_CREAT if create else 0)
        self._descriptor: int | None = os.open(path, flags, 0o644)
        self._path = path
        _opened.add(self)

    def try_lock(self) -> bool:
        """Take the lock if nobody holds it; says whether it is ours."""
        return self._descriptor is not None and lock_descriptor(self._descriptor, blocking=False)

    def unlock(self) -> None:
        """Give the lock back; the file stays open."""
        if self._descriptor is not None:
            unlock_descriptor(self._descriptor)

    def is_in_place(self) -> bool:
        """Whether others who open the path find this very file: it may have been removed."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        except OSError:
            return False

    def close(self) -> None:
        """Close the file, which ends the lock if no copy of the descriptor is left."""
        descriptor, self._descriptor = self._descriptor, None
        _opened.discard(self)
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _close_all_in_child() -> None:
    # Closed, not unlocked: unlocking would end the parent's lock too.
    for file in list(_opened):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all_in_child)
