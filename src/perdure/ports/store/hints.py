"""Hints to other processes: they make waiting shorter, and nothing depends on their arrival."""

from collections.abc import Sequence
from typing import Final, Protocol

EVERYTHING: Final = "*"
"""The hint that anything may have happened."""


class HintStore(Protocol):
    """Sends hints; `HeartbeatLink.listen` receives them."""

    async def announce(self, hints: Sequence[str]) -> None:
        """Tell every process of this application on this database, this one included.

        A hint that is too long to be sent is replaced by `EVERYTHING`. Where the store cannot reach
        others nothing happens: in memory there are none, and the processes on one file see each
        other's commits by themselves, as `"+"` and the name of a queue in which work waits.
        """
        ...
