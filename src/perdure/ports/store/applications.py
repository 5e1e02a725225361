"""Giving what one application owns to another."""

from typing import Protocol

from perdure.model.application import Moved, MovedBatch, Rename


class ApplicationStore(Protocol):
    """Rows that bear an application's name.

    Names of queues, schedules and versions are global, so that nothing of the two can collide.
    """

    async def rename_registrations(self, rename: Rename) -> Moved:
        """Move what decides who runs what: queues, schedules, versions, and workflows under way.

        In one transaction, with the leases of processes that are gone: whoever takes over finds
        them under the new name. Raises `ApplicationRunning` if processes of the old name live.
        """
        ...

    async def rename_workflows(self, rename: Rename, since_id: str, limit: int) -> MovedBatch:
        """Move those of the next `limit` workflows that are left, by id from `since_id` on."""
        ...

    async def rename_steps(self, rename: Rename, since_id: str, limit: int) -> MovedBatch:
        """The same of the steps of the next `limit` workflows that have steps."""
        ...
