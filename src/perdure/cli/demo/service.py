"""How a process of the demonstration serves an archive: its engine and the archive's queue."""

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from perdure import Engine, Queue
from perdure.api.workflow import Workflow
from perdure.cli.demo.workflows import ERRORS

APPLICATION = "perdure-demo"
"""Its own, so that on a shared database it stands among nobody's workflows and versions."""

VERSION = f"{APPLICATION}@1"
"""Raised when the workflows change so that a run in progress could not go on."""

GRACE_S = 2.0
"""How long a stop waits for the files under way; what is left goes on at the next start."""

SHARE = 32
"""How many of the workflows one of several processes takes at a time: enough that many share a
commit, and few enough that none sits on files that another has time for."""


@dataclass(frozen=True, slots=True)
class Post:
    """What one process is told: the database, the archive's queue, and who it is.

    `start` tells the processes of one start of the program from those of any other; `number` counts
    them, and 1 is the program itself.
    """

    database: str
    queue: str
    start: str
    number: int

    @property
    def executor(self) -> str:
        """What the rows of its work say."""
        return f"{self.start}-{self.number}"

    def is_of(self, executor_id: str) -> bool:
        """Whether an `executor_id` in a row is this process's, whatever its boot."""
        return executor_id.rpartition("/")[0] == self.executor


def posts(database: str, queue: str, processes: int) -> list[Post]:
    """One for each process of a start."""
    first = Post(database, queue, f"demo-{secrets.token_hex(4)}", 1)
    return [replace(first, number=number) for number in range(1, processes + 1)]


def archive_queue(name: str, processes: int) -> Queue:
    """The queue of an archive that so many processes work on."""
    return Queue(name, worker_concurrency=SHARE if processes > 1 else None)


def archive_engine(
    post: Post, workflows: Sequence[Workflow[..., Any]], queues: Sequence[Queue] = ()
) -> Engine:
    """An engine that runs these workflows of one archive, and nothing of another's."""
    return Engine(
        post.database,
        name=APPLICATION,
        version=VERSION,
        executor_id=post.executor,
        workflows=workflows,
        queues=queues,
        listen=[post.queue],
        errors=ERRORS,
        threads=_threads(),
        grace=GRACE_S,
    )


def _threads() -> int:
    """Compressing needs a processor, bringing a file to the disk does not."""
    return 2 * (os.cpu_count() or 1) + 2
