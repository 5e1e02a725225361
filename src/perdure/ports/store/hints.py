"""Hints to other processes: they make waiting shorter, and nothing depends on their arrival."""

from collections.abc import Sequence
from typing import Final, Protocol

from perdure.model.talk import Key

EVERYTHING: Final = "*"
"""The hint that anything may have happened."""


TALK: Final = ">"
MESSAGE: Final = ">m"
EVENT: Final = ">e"
STREAM: Final = ">s"
"""How hints begin that come from the channels all SDKs share; what follows is their payload, a
workflow id and a topic or key with `::` between. Ids may hold that too: compare, do not split.
`TALK` alone, from a store that sees only that others committed: any of them may have come, and runs
may have been taken."""


class HintStore(Protocol):
    """Sends hints; `HeartbeatLink.listen` receives them."""

    async def announce(self, hints: Sequence[str]) -> None:
        """Tell every process of this application on this database, this one included.

        Used in no application's name the store tells the processes of all.
        A hint that is too long to be sent is replaced by `EVERYTHING`. Where the store cannot reach
        others nothing happens: in memory there are none, and the processes on one file see each
        other's commits by themselves, as `"+"` and the name of a queue in which work waits.
        """
        ...

    async def announce_talk(self, events: Sequence[Key], streams: Sequence[Key]) -> None:
        """Tell every process of every SDK that these events and streams have new values.

        On the channels they all share, after the values were committed. Messages announce
        themselves: a trigger of the shared schema does it.
        """
        ...
