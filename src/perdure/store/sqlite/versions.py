"""The registry of application versions."""

import uuid

from perdure.errors import VersionOwnedByAnother
from perdure.model.version import VersionRow
from perdure.store import rows
from perdure.store.sqlite.concern import Concern
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.transaction import Transaction


class Versions(Concern):
    """`VersionStore`."""

    async def register_version(self, version: str) -> VersionRow:
        """See `perdure.ports.store.VersionStore.register_version`."""

        def work(transaction: Transaction) -> VersionRow:
            transaction.change(
                self._queries["register_version"],
                {
                    "id": str(uuid.uuid4()),
                    "version": version,
                    "application": self._application,
                    "now": transaction.now_ms,
                },
            )
            found = transaction.rows(self._queries["version"], {"version": version})
            return rows.version_row(found[0])

        row = await self._database.write(work)
        if row.application_name not in (None, self._application):
            raise VersionOwnedByAnother(version, row.application_name)
        return row

    async def promote_version(
        self, version: str, application: str | None = None
    ) -> VersionRow | None:
        """See `perdure.ports.store.VersionStore.promote_version`."""
        owner = application or self._application

        def work(transaction: Transaction) -> VersionRow | None:
            asked = {"version": version, "application": owner, "now": transaction.now_ms}
            transaction.change(self._queries["promote_version"], asked)
            row = transaction.row(self._queries["version"], {"version": version})
            return None if row is None else rows.version_row(row)

        row = await self._database.write(work)
        if row is not None and owner and row.application_name not in (None, owner):
            raise VersionOwnedByAnother(version, row.application_name)
        return row

    async def versions(self, application: str | None = None) -> list[VersionRow]:
        """See `perdure.ports.store.VersionStore.versions`."""

        def work(connection: Connection) -> list[VersionRow]:
            asked = {"application": application or self._application}
            found = connection.rows(self._queries["versions"], asked)
            return [rows.version_row(row) for row in found]

        return await self._database.read(work)
