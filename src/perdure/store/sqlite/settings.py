"""How a SQLite store works, as far as a user may choose."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class SqliteSettings:
    """Durations are in seconds.

    With `synchronous` FULL a commit is on the disk when it returns; NORMAL may lose the last
    commits of the machine, not of the process, and never damages the file. `busy_timeout_s` bounds
    how long a write waits while others keep the file locked, `statement_timeout_s` how long one
    job may run. `readers` is the number of threads that read beside the one that writes.
    """

    synchronous: Literal["FULL", "NORMAL", "EXTRA"] = "FULL"
    busy_timeout_s: float = 30.0
    statement_timeout_s: float = 30.0
    readers: int = 2
