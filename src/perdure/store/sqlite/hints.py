"""Hints to other processes: those on a file see its commits, and need none."""

from collections.abc import Sequence

from perdure.model.talk import Key
from perdure.store.sqlite.concern import Concern


class Hints(Concern):
    """`HintStore`."""

    async def announce(self, hints: Sequence[str]) -> None:
        """See `perdure.ports.store.HintStore.announce`; others see by themselves who committed."""

    async def announce_talk(self, events: Sequence[Key], streams: Sequence[Key]) -> None:
        """See `perdure.ports.store.HintStore.announce_talk`; the same holds."""
