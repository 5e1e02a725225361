"""The registry of application versions."""

from perdure.errors import VersionOwnedByAnother
from perdure.store.postgres.concern import Concern
from perdure.store.postgres.failures import DuplicateKey


class Versions(Concern):
    """`VersionStore`."""

    async def register_version(self, version: str) -> None:
        """See `perdure.ports.store.VersionStore.register_version`."""
        try:
            holder = await self._register(version)
        except DuplicateKey:
            # Another process inserted it just now. The table has two unique indexes and a conflict
            # clause for one of them, so such a race may show in the other; it is over by then.
            holder = await self._register(version)
        if holder != self._application:
            raise VersionOwnedByAnother(version, holder)

    async def _register(self, version: str) -> str:
        (row,) = await self._database.fetch(
            "register_version", version, self._application, self._database.offset_ms
        )
        holder: str = row["holder"]
        return holder

    async def versions(self) -> list[str]:
        """See `perdure.ports.store.VersionStore.versions`."""
        found = await self._database.fetch("versions", self._application)
        return [row["version_name"] for row in found]
