"""Hints to other processes, by NOTIFY."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from perdure.model.talk import Key
from perdure.model.wire import EVENTS_CHANNEL, NOTIFICATIONS_CHANNEL, STREAMS_CHANNEL
from perdure.ports.store.hints import EVENT, EVERYTHING, MESSAGE, STREAM
from perdure.store.identifiers import own_schema
from perdure.store.postgres.concern import Access, Concern

LONGEST_BYTES: Final = 7900
"""A server refuses payloads of 8,000 bytes and more."""


class Hints(Concern):
    """`HintStore`."""

    async def announce(self, hints: Sequence[str]) -> None:
        """See `perdure.ports.store.HintStore.announce`."""
        if hints and self._database.settings.has_sessions:
            ours = channel(self._access, self._application)
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


def prefixes(access: Access) -> dict[str, str]:
    """The channels to listen on, and how hints that come from them begin."""
    return {
        channel(access, access.application): "",
        channel(access, None): "",
        NOTIFICATIONS_CHANNEL: MESSAGE,
        EVENTS_CHANNEL: EVENT,
        STREAMS_CHANNEL: STREAM,
    }


def channel(access: Access, application: str | None) -> str:
    """Where hints of an application are sent; None is where those of nobody are, for all to hear.

    A name like any other may be in it, and an identifier is short, hence a digest.
    """
    names = (own_schema(access.database.settings.schema), application)
    return f"perdure_{hashlib.sha256(repr(names).encode()).hexdigest()[:16]}"


def _sendable(hint: str) -> str:
    return hint if _fits(hint) else EVERYTHING


def _fits(hint: str) -> bool:
    try:
        return len(hint.encode()) <= LONGEST_BYTES and "\x00" not in hint
    except UnicodeEncodeError:
        return False
