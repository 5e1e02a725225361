"""Applications that share a database, and giving what one owns to another."""

from typing import NamedTuple

import msgspec


class Rename(msgspec.Struct, frozen=True):
    """What application `old` owns becomes `new`'s; with `unclaimed` also what is nobody's.

    `old` None: only what is nobody's.
    """

    old: str | None
    new: str
    unclaimed: bool = False


class Moved(NamedTuple):
    """How many rows changed their owner."""

    queues: int = 0
    schedules: int = 0
    versions: int = 0
    workflows: int = 0
    steps: int = 0


class MovedBatch(NamedTuple):
    """How many rows of one batch changed their owner, and the workflow id to go on from.

    That is None at the end.
    """

    number: int
    next_id: str | None
