"""The file whose lock shows that a process start lives.

A lease records the file's name; the file stands in the folder beside the database. Whoever judges
the lease tries to take the lock: the kernel gives it away only when its holder has ended. A file
that is not there says nothing, so that one removed by accident kills nobody.
"""

import contextlib
import logging
import time
from collections.abc import Collection
from pathlib import Path

from perdure.model.ids import BootId
from perdure.model.lease import LockState
from perdure.store.sqlite.lockfile import LockFile

log = logging.getLogger("perdure")

_PATIENCE_S = 0.5
"""A judge's own try takes the lock for a moment, in the way of its rightful holder."""

_PAUSE_S = 0.002


class LivenessLock:
    """The lock of one boot, held until `close`; `name` is what its lease records."""

    def __init__(self, file: LockFile, name: str) -> None:
        self._file = file
        self.name = name

    def is_effective(self) -> bool:
        """Whether judges who look at the recorded file meet this lock."""
        return self._file.is_in_place()

    def close(self) -> None:
        """Give the lock up; the file stays."""
        self._file.close()


def take(folder: Path, boot_id: BootId) -> LivenessLock | None:
    """Create and lock the file of a boot; None where that cannot be done."""
    name = f"{boot_id}.lock"
    deadline = time.monotonic() + _PATIENCE_S
    try:
        while time.monotonic() < deadline:
            folder.mkdir(exist_ok=True)
            file = LockFile(folder / name, create=True)
            # Who takes a dead boot over removes its file, maybe between opening and locking.
            if file.try_lock() and file.is_in_place():
                return LivenessLock(file, name)
            file.close()
            time.sleep(_PAUSE_S)
    except OSError as error:
        log.warning("no liveness lock in %s, so only the lease's time counts: %s", folder, error)
    return None


def look(folder: Path, name: str | None) -> LockState:
    """What the lock recorded under that name shows now."""
    if not name:
        return LockState.UNKNOWN
    try:
        # Only the last part of a name read from the database is used: it leads nowhere else.
        file = LockFile(folder / Path(name).name, create=False)
    except OSError:
        return LockState.UNKNOWN
    try:
        return LockState.FREE if file.try_lock() else LockState.HELD
    except OSError:
        return LockState.UNKNOWN
    finally:
        file.close()


def remove(folder: Path, name: str | None) -> None:
    """Remove the file of a boot that is no more, if the system lets us."""
    if name:
        with contextlib.suppress(OSError):
            (folder / Path(name).name).unlink()


def sweep(folder: Path, kept: Collection[str]) -> None:
    """Remove the files that nobody holds and that are not `kept`, which leases name.

    They were left by processes that died before they wrote a lease. One just being taken may go
    too: its taker notices and takes it anew.
    """
    with contextlib.suppress(OSError):
        for file in folder.glob("*.lock"):
            if file.name not in kept and look(folder, file.name) is LockState.FREE:
                remove(folder, file.name)
