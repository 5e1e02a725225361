"""Opening and closing a store, and the schema it stands on."""

from typing import Protocol

import msgspec

from perdure.ports.capabilities import Capabilities


class SchemaReport(msgspec.Struct, frozen=True):
    """What a migration found and did: versions as recorded before and after, statements run."""

    before: int | None
    after: int
    statements: tuple[str, ...]


class StoreLifecycle(Protocol):
    """Connections and schema. A store is built without touching the database."""

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do; constant after `open`."""
        ...

    async def open(self) -> None:
        """Connect. Raises `DatabaseUnavailable` at once if the database cannot be reached."""
        ...

    async def close(self) -> None:
        """Close every connection; safe to call twice and after a failed `open`."""
        ...

    async def migrate(self) -> SchemaReport:
        """Create or converge the shared schema and our own tables. Needs no `open`.

        Idempotent, safe when twenty processes do it at once, does nothing on a database whose
        recorded version is ours or newer (our own tables are still made). A shared schema older
        than the versions we converge raises `SchemaTooOld` naming the remedy; nothing is written.
        """
        ...

    async def plan_migration(self) -> SchemaReport:
        """What `migrate` would do now, done nowhere."""
        ...

    async def check_schema(self) -> None:
        """Raise `SchemaMissing` or `SchemaTooOld`, naming the remedy, if we cannot run on it."""
        ...
