"""The registry of application versions."""

from perdure.errors import VersionOwnedByAnother
from perdure.store.postgres.concern import Concern


class Versions(Concern):
    """`VersionStore`."""

    async def register_version(self, version: str) -> None:
        """See `perdure.ports.store.VersionStore.register_version`."""
        (row,) = await self._database.fetch(
            "register_version", version, self._application, self._database.offset_ms
        )
        if row["holder"] != self._application:
            raise VersionOwnedByAnother(version, row["holder"])
