"""Removing workflows that ended long ago."""

from typing import Protocol

from perdure.model.retention import Expired, Purged


class RetentionStore(Protocol):
    """Ended workflows of this application or of none, in the order in which they ended.

    Each call is one short transaction. It looks at some thousands of ended rows at most, whatever
    is wanted of them, from an instant on that the call before named; what ended at one instant is
    looked at together.

    A workflow stays while its parent has not ended, or ended at `before_ms` or later: who continues
    or repairs the parent may need what came of it.
    """

    async def purge(self, wanted: Expired, since_ms: int, limit: int) -> Purged:
        """Remove up to `limit` of the wanted that ended at `since_ms` or later.

        Each goes with its input, output, steps, events and their history, streams and messages,
        and with what our own schema holds of its streams. Nobody is waited for: a row that somebody
        has locked stays for another time, and so does one whose parent somebody has locked. A row
        that was resumed or rewound meanwhile is wanted no more.
        """
        ...

    async def expired(self, wanted: Expired, since_ms: int) -> Purged:
        """Count what `purge` would remove, and remove nothing."""
        ...

    async def kept_since_ms(self, wanted: Expired, number: int) -> int | None:
        """When the last of the `number` newest of the wanted ended; None if there are fewer."""
        ...

    async def forget_claims(self, before_ms: int, limit: int) -> int:
        """Forget up to `limit` logged claims before an instant, and say how many.

        Only those that no window of their queue reaches back to by now, or whose queue has none.
        """
        ...
