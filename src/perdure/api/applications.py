"""Giving what one application owns to another."""

from collections.abc import Awaitable, Callable
from typing import Final

from perdure.api.filters import storable
from perdure.api.options import checked_flag
from perdure.config import APPLICATION_NAMES, is_application_name
from perdure.engine.committer import Retry
from perdure.errors import InvalidArgument
from perdure.model.application import Moved, MovedBatch, Rename
from perdure.ports.store import Store

RENAME_BATCH: Final = 10_000
"""Workflows of one transaction."""

_LARGEST_BATCH: Final = 100_000

Batch = Callable[[Rename, str, int], Awaitable[MovedBatch]]


def checked_rename(old: str | None, new: str, *, unclaimed: bool) -> Rename:
    """What is to move; raises `InvalidArgument` for what cannot be meant."""
    checked_flag("unclaimed", unclaimed)
    if old is None and not unclaimed:
        raise InvalidArgument("say what is to move: the old name, unclaimed=True, or both")
    if not isinstance(new, str) or not is_application_name(new):
        raise InvalidArgument(f"{new!r}: {APPLICATION_NAMES}")
    if old is not None and not storable("old", old):
        raise InvalidArgument(f"{old!r} is no name that an application has")
    if old == new:
        raise InvalidArgument(f"{old!r} is the application's name already")
    return Rename(old, new, unclaimed)


async def rename_application(store: Store, retry: Retry, rename: Rename, batch: int) -> Moved:
    """Move what decides who runs what, then what has ended."""
    if type(batch) is not int or not 1 <= batch <= _LARGEST_BATCH:
        raise InvalidArgument(f"batch={batch!r}: it must be from 1 to {_LARGEST_BATCH:,}")
    moved = await retry(lambda: store.rename_registrations(rename), "renaming an application")
    workflows = await _all(retry, store.rename_workflows, rename, batch)
    steps = await _all(retry, store.rename_steps, rename, batch)
    return moved._replace(workflows=moved.workflows + workflows, steps=steps)


async def _all(retry: Retry, move: Batch, rename: Rename, batch: int) -> int:
    """How many rows moved, in batches with rests between them."""
    number = 0
    next_id: str | None = ""
    while next_id is not None:
        moved = await _one(retry, move, rename, next_id, batch)
        number, next_id = number + moved.number, moved.next_id
    return number


async def _one(retry: Retry, move: Batch, rename: Rename, since_id: str, batch: int) -> MovedBatch:
    return await retry.at_leisure(lambda: move(rename, since_id, batch), "renaming an application")
