"""Hints to other processes: they make waiting shorter, and nothing depends on their arrival."""

from collections.abc import Callable, Sequence
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


class Link(Protocol):
    """A connection of its owner's own, used from one loop only, on which hints arrive.

    One that lost its connection raises `DatabaseUnavailable`; its owner closes it and opens
    another.
    """

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Have `callback` called, in this link's loop, whenever its connection is found broken.

        Said before `open`. A link that cannot break by itself never calls.
        """
        ...

    def listen(self, callback: Callable[[str], None]) -> None:
        """Have `callback` called, in this link's loop, with every hint that is announced, and with
        those of the channels all SDKs share, which begin with `MESSAGE`, `EVENT` or `STREAM`.

        Said before `open`. A link that cannot listen never calls; hints sent while it was not
        connected are lost, so whoever opened it looks at everything once.
        """
        ...

    async def close(self) -> None:
        """Give up the connection and what it holds. Never raises."""
        ...


class HintLink(Link, Protocol):
    """The link of who only listens."""

    async def open(self) -> None:
        """Connect, and begin to hear."""
        ...

    async def check(self) -> None:
        """Find out whether the connection still stands: a network may drop it silently."""
        ...


class HintStore(Protocol):
    """Sends hints; a `Link` receives them."""

    def hint_link(self) -> HintLink:
        """A fresh, unconnected link; of use only where the capabilities say that hints arrive."""
        ...

    async def announce(self, hints: Sequence[str]) -> None:
        """Tell every process on this database, of whatever application, this one included.

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
