"""Ended workflows that run again from a step."""

from perdure.model.management import Managed, Rewind
from perdure.store.postgres.work import Work


async def rewind(work: Work, command: Rewind) -> Managed:
    """Remove what was recorded from the step on, and enqueue the workflow."""
    raise NotImplementedError
