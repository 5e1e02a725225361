"""Hints to other processes, by NOTIFY."""

from collections.abc import Iterable, Sequence
from typing import Final

from perdure.model.talk import Key
from perdure.model.wire import EVENTS_CHANNEL, STREAMS_CHANNEL
from perdure.ports.store.hints import EVERYTHING, HintLink
from perdure.store.postgres.concern import Concern
from perdure.store.postgres.link import PostgresHintLink, channel

LONGEST_BYTES: Final = 7900
"""A server refuses payloads of 8,000 bytes and more."""


class Hints(Concern):
    """`HintStore`."""

    def hint_link(self) -> HintLink:
        """See `perdure.ports.store.HintStore.hint_link`."""
        return PostgresHintLink(self._access)

    async def announce(self, hints: Sequence[str]) -> None:
        """See `perdure.ports.store.HintStore.announce`."""
        if hints and self._database.settings.has_sessions:
            ours = channel(self._access)
            await self._notify((ours, _sendable(hint)) for hint in hints)

    async def announce_talk(self, events: Sequence[Key], streams: Sequence[Key]) -> None:
        """See `perdure.ports.store.HintStore.announce_talk`."""
        told = [
            (shared, f"{key.workflow_id}::{key.key}")
            for shared, keys in ((EVENTS_CHANNEL, events), (STREAMS_CHANNEL, streams))
            for key in keys
        ]
        # What cannot be sent is found by those who wait when they look by themselves.
        await self._notify(each for each in told if _fits(each[1]))

    async def _notify(self, told: Iterable[tuple[str, str]]) -> None:
        """Send each (channel, payload) once."""
        sent = list(dict.fromkeys(told))
        if sent:
            channels, payloads = zip(*sent, strict=True)
            await self._database.kept("announce", channels, payloads)


def _sendable(hint: str) -> str:
    return hint if _fits(hint) else EVERYTHING


def _fits(hint: str) -> bool:
    try:
        return len(hint.encode()) <= LONGEST_BYTES and "\x00" not in hint
    except UnicodeEncodeError:
        return False
