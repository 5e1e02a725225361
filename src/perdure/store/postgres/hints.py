"""Hints to other processes, by NOTIFY."""

import hashlib
from collections.abc import Sequence
from typing import Final

from perdure.ports.store.hints import EVERYTHING
from perdure.store.identifiers import own_schema
from perdure.store.postgres.concern import Access, Concern

LONGEST_BYTES: Final = 7900
"""A server refuses payloads of 8,000 bytes and more."""


class Hints(Concern):
    """`HintStore`."""

    async def announce(self, hints: Sequence[str]) -> None:
        """See `perdure.ports.store.HintStore.announce`."""
        if hints and self._database.settings.has_sessions:
            sent = list(dict.fromkeys(_sendable(hint) for hint in hints))
            await self._database.fetch("announce", channel(self._access), sent)


def channel(access: Access) -> str:
    """Where hints of an application are sent.

    A name like any other may be in it, and an identifier is short, hence a digest.
    """
    names = (own_schema(access.database.settings.schema), access.application)
    return f"perdure_{hashlib.sha256(repr(names).encode()).hexdigest()[:16]}"


def _sendable(hint: str) -> str:
    try:
        fits = len(hint.encode()) <= LONGEST_BYTES and "\x00" not in hint
    except UnicodeEncodeError:
        fits = False
    return hint if fits else EVERYTHING
