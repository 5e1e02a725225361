"""Leases: how a process shows that it lives, and how its runs are taken when it does not."""

from typing import Protocol

from perdure.model.ids import BootId
from perdure.model.lease import Beat, LeaseSeen, NewLease, Takeover
from perdure.model.workflow import WorkflowKey
from perdure.ports.store.hints import Link


class HeartbeatLink(Link, Protocol):
    """The link of the heartbeat thread, which opens one after another for the same boot.

    The liveness lock is free from the moment its connection breaks, so that another must be opened
    before others look twice. `close` gives up the lock; the lease row stays.
    """

    async def open(self, lease: NewLease) -> bool:
        """Insert or refresh the lease row and take the liveness lock; says whether it is held.

        The row also says what the process serves.

        Without the lock (a pooler, no permission, a file system without locks) the lease alone
        counts. Raises `LeaseLost` if this boot's lease was taken: the boot must take a new id.
        """
        ...

    async def beat(
        self, lease: NewLease, queues: tuple[str, ...], keys: tuple[WorkflowKey, ...]
    ) -> Beat:
        """Renew the lease and look around, in one statement.

        Asks which of `queues` hold a row that a process with these functions and the version that
        the lease serves could claim, were there no limits.
        """
        ...


class LeaseStore(Protocol):
    """The leases table, in our own schema."""

    def heartbeat_link(self) -> HeartbeatLink:
        """A fresh, unconnected link."""
        ...

    async def take_over(self, suspect: LeaseSeen, limit: int) -> Takeover:
        """Move up to `limit` PENDING rows of a dead boot back to their queues, in one transaction.

        Locks the lease row first (skipping if another holds it: `refused`) and checks that
        `renewals` is still what the judge saw (else `refused`); marks the lease taken, so that
        its boot can start and claim nothing more. Each row becomes ENQUEUED, conditional on its
        executor: owner and start time NULL, queue kept or else the internal one; the attempt is
        counted at the next claim. Only rows of this application or of none. When no PENDING row
        names the boot any more, the lease row is deleted: `finished`.
        """
        ...

    async def end_lease(self, boot_id: BootId) -> None:
        """Delete the lease of a boot that stops in order, unless a PENDING row still names it."""
        ...
