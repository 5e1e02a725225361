"""The registry of application versions."""

from perdure.errors import VersionOwnedByAnother
from perdure.model.version import VersionRow
from perdure.store import rows
from perdure.store.postgres.concern import Concern
from perdure.store.postgres.failures import DuplicateKey


class Versions(Concern):
    """`VersionStore`."""

    async def register_version(self, version: str) -> VersionRow:
        """See `perdure.ports.store.VersionStore.register_version`."""
        try:
            row = await self._register(version)
        except DuplicateKey:
            # Another process inserted it just now. The table has two unique indexes and a conflict
            # clause for one of them, so such a race may show in the other; it is over by then.
            row = await self._register(version)
        if row.application_name not in (None, self._application):
            raise VersionOwnedByAnother(version, row.application_name)
        return row

    async def _register(self, version: str) -> VersionRow:
        (row,) = await self._database.fetch(
            "register_version", version, self._application, self._database.offset_ms
        )
        return rows.version_row(row)

    async def promote_version(
        self, version: str, application: str | None = None
    ) -> VersionRow | None:
        """See `perdure.ports.store.VersionStore.promote_version`."""
        owner = application or self._application
        found = await self._database.fetch(
            "promote_version", version, owner, self._database.offset_ms
        )
        if found:
            return rows.version_row(found[0])
        for held in map(rows.version_row, await self._database.fetch("version", version)):
            if held.application_name is not None:
                raise VersionOwnedByAnother(version, held.application_name)
        return None

    async def versions(self, application: str | None = None) -> list[VersionRow]:
        """See `perdure.ports.store.VersionStore.versions`."""
        found = await self._database.fetch("versions", application or self._application)
        return [rows.version_row(row) for row in found]
