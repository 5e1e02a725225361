"""Removing workflows that ended long ago, on demand."""

from typing import TypedDict, Unpack

from perdure.api.listing import Listing
from perdure.api.options import checked_flag, refuse_unknown
from perdure.engine.context import PLACE, Branch
from perdure.engine.desk import Desk
from perdure.engine.retention import BATCH, Purge
from perdure.errors import InvalidArgument, WrongPlace
from perdure.logic.durations import Duration
from perdure.logic.retention import Names, States, policy_of

LARGEST_BATCH = 10_000


class PurgeOptions(TypedDict, total=False):
    """What to remove and how; see `Workflows.purge`."""

    older_than: Duration | None
    keep: int | None
    states: States
    names: Names
    batch: int
    limit: int | None
    dry_run: bool


class Purging(Listing):
    """The half of `Workflows` that looks, and what removes by age."""

    def __init__(self, desk: Desk, *, records: bool) -> None:
        super().__init__(desk.speaker, records=records)
        self._desk = desk

    async def purge(self, **options: Unpack[PurgeOptions]) -> int:
        """Remove workflows that ended long ago with all that belongs to them, and say how many.

        `older_than` is the time since a workflow ended (0 for whatever has ended by now), `keep`
        how many of the newest stay whatever their age; one of the two must be given. `states` and
        `names` narrow what is removed and counted. A child stays while its parent has not ended or
        is not old enough itself: whoever resumes or rewinds the parent may need what came of it.

        It works in transactions of up to `batch` workflows (500), rests between them for as long as
        they take, waits for no lock, and stops after `limit` workflows if that is given. What ends
        meanwhile is left alone. With `dry_run` it only counts. A client without a name is refused,
        for it is nobody's. Not possible in a workflow's body, where it would be repeated at a
        replay: call it in a step.

        >>> await engine.workflows.purge(older_than=timedelta(days=30), states="SUCCESS")
        """
        refuse_unknown(options, PurgeOptions, InvalidArgument)
        if type(PLACE.get()) is Branch:
            raise WrongPlace("purge is not recorded in a workflow; call it in a step")
        if self._desk.application is None:
            raise InvalidArgument("say whose workflows are removed: open the Client with name=...")
        policy = policy_of(
            options.get("older_than"),
            options.get("keep"),
            options.get("states"),
            options.get("names"),
        )
        limit = options.get("limit")
        batch = _number("batch", options.get("batch", BATCH), LARGEST_BATCH)
        if limit is not None:
            _number("limit", limit)
        dry_run = checked_flag("dry_run", options.get("dry_run", False))
        purge = Purge(self._store, self._retry)
        if dry_run:
            found = await purge.count(policy)
            return found if limit is None else min(found, limit)
        return await purge.run(policy, batch, limit)


def _number(option: str, value: int, largest: int | None = None) -> int:
    if type(value) is not int or value < 1 or (largest is not None and value > largest):
        end = "above 0" if largest is None else f"from 1 to {largest:,}"
        raise InvalidArgument(f"{option}={value!r}: it must be a whole number {end}")
    return value
