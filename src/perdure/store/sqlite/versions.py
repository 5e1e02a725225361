"""The registry of application versions."""

import uuid

from perdure.errors import VersionOwnedByAnother
from perdure.store.sqlite.concern import Concern
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.transaction import Transaction


class Versions(Concern):
    """`VersionStore`."""

    async def register_version(self, version: str) -> None:
        """See `perdure.ports.store.VersionStore.register_version`."""

        def work(transaction: Transaction) -> str | None:
            transaction.change(
                self._queries["register_version"],
                {
                    "id": str(uuid.uuid4()),
                    "version": version,
                    "application": self._application,
                    "now": transaction.now_ms,
                },
            )
            row = transaction.row(self._queries["version_holder"], {"version": version})
            return None if row is None else row["application_name"]

        holder = await self._database.write(work)
        if holder is not None and holder != self._application:
            raise VersionOwnedByAnother(version, holder)

    async def versions(self) -> list[str]:
        """See `perdure.ports.store.VersionStore.versions`."""

        def work(connection: Connection) -> list[str]:
            asked = {"application": self._application}
            return [name for (name,) in connection.rows(self._queries["versions"], asked)]

        return await self._database.read(work)
