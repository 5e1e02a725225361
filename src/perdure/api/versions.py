"""Looking at the registered application versions, and choosing the latest."""

import builtins

from perdure.api.options import checked_text
from perdure.api.queues import Operator
from perdure.engine.committer import Retry
from perdure.errors import UnknownVersion
from perdure.model.version import VersionRow
from perdure.ports.store import Store


class Versions:
    """The registered versions of this application and of none.

    An engine registers its version when it starts. A process takes from queues, and takes over from
    dead processes, what bears its own version; what bears none is for the latest one, which is the
    one that was registered or promoted last.
    """

    def __init__(self, store: Store, retry: Retry, operator: Operator) -> None:
        self._store = store
        self._retry = retry
        self._operator = operator

    async def list(self) -> builtins.list[VersionRow]:
        """Every registered version, the latest first."""
        return await self._retry(self._store.versions, "reading the versions")

    async def latest(self) -> VersionRow | None:
        """The version that takes what bears none; None if no version is registered."""
        rows = await self.list()
        return rows[0] if rows else None

    async def register(self, version: str) -> VersionRow:
        """Register a version before an engine of it starts, and return what is registered then.

        A new one is the latest; one that is known stays where it is. Raises
        `VersionOwnedByAnother`.
        """
        checked_text("version", version)
        row = await self._retry(
            lambda: self._store.register_version(version), f"registering version {version!r}"
        )
        self._operator.changed()
        return row

    async def promote(self, version: str, *, application: str | None = None) -> VersionRow:
        """Make a version the latest: roll forward to it, or back.

        It takes what bears no version from the next claim on, and what is enqueued for the latest
        version. What bears another version, or runs, is left alone. Raises `UnknownVersion`, and
        `VersionOwnedByAnother` for one of another application unless `application` names that.

        >>> await client.versions.promote("2026-11-29")
        """
        checked_text("version", version)
        if application is not None:
            checked_text("application", application)
        row = await self._retry(
            lambda: self._store.promote_version(version, application),
            f"promoting version {version!r}",
        )
        if row is None:
            raise UnknownVersion(version, application or self._operator.application)
        self._operator.changed()
        return row
