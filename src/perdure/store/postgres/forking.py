"""Copies of workflows that go on from a step."""

from perdure.model.management import Fork, Managed
from perdure.store.postgres.work import Work


async def fork(work: Work, command: Fork) -> Managed:
    """Insert the copies, or none."""
    raise NotImplementedError
