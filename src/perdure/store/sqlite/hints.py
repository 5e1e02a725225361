"""Hints to other processes: those on a file see its commits, and need none."""

from collections.abc import Sequence

from perdure.model.talk import Key
from perdure.ports.store.hints import HintLink
from perdure.store.sqlite.concern import Concern
from perdure.store.sqlite.link import SqliteHintLink


class Hints(Concern):
    """`HintStore`."""

    def hint_link(self) -> HintLink:
        """See `perdure.ports.store.HintStore.hint_link`."""
        return SqliteHintLink(self._database)

    async def announce(self, hints: Sequence[str]) -> None:
        """See `perdure.ports.store.HintStore.announce`; others see by themselves who committed."""

    async def announce_talk(self, events: Sequence[Key], streams: Sequence[Key]) -> None:
        """See `perdure.ports.store.HintStore.announce_talk`; the same holds."""
